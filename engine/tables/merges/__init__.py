"""Runs merges and mutations of parts, for tables with and without replicas."""
