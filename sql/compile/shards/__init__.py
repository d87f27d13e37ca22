"""Queries over the shards of a cluster."""
