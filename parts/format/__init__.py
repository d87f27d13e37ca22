"""The bytes of a part. The docstring of each module specifies its file."""
