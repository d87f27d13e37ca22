"""Converts values to texts, bytes and Arrow arrays, and back."""
