"""Controls over views, for the notebook: a player, comparisons, a race, an editor, explanations."""
