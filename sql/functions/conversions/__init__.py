"""Functions that turn a value into another type."""
