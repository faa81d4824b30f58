"""Views: pure functions from a trace, plan, pattern or stream to a picture."""
