"""Functions of JSON texts."""
