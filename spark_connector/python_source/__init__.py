"""The data source in Python."""
