"""Errors, names, threads, memory and caches, which every package may import."""
