"""Functions of maps and tuples."""
