"""Rows that come in through a replica."""
