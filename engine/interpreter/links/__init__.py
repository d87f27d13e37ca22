"""Statements about replication links."""
