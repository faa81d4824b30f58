"""Evaluation algorithms, one a file; `base` holds the protocol they share."""
