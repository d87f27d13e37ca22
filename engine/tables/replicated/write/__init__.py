"""Writes rows and parts that come in through a replica."""
