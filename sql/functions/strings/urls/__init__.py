"""Functions of URLs."""
