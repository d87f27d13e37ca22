"""Applies ALTER TABLE to definitions."""
