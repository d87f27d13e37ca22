"""Replication between clusters: what a server does for it."""
