"""Definitions of tables: from CREATE TABLE to descriptions and back, and defaults of columns."""
