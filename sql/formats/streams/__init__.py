"""Bytes and rows as they pass, a chunk at a time."""
