"""Plans as values: in which order, or in which tree, an engine joins the events of a pattern."""
