"""Synchronous links: the states of a link at its source, and how they change."""
