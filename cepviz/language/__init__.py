"""The pattern language: grammar, parser, patterns, predicates and their uses."""
