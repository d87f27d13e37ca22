"""Functions that encode and decode bytes."""
