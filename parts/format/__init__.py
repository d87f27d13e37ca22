"""The file formats of a part. Each module's docstring specifies its file."""
