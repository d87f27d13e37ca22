"""Errors, names, threads and memory, which every package may import."""
