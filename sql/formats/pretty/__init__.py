"""Formats for human readers."""
