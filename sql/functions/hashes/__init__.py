"""Hash functions."""
