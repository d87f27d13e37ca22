"""The JSON formats."""
