"""Streams of Arrow batches through which DuckDB reads tables."""
