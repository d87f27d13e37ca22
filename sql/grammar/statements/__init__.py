"""Statements as data, and their parsers."""
