"""The databases and tables of a server, and their definitions on disk."""
