"""Plans: statistics, cost models, planners and the conditions they rest on, and policies."""
