"""Streams of bytes and rows, a chunk at a time."""
