"""Spark: read, clean, sample and measure events, and match past one machine."""
