"""The ENGINE clause, one family of engines a module."""
