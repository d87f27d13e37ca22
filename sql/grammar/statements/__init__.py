"""Statements: what each says, and how it is parsed."""
