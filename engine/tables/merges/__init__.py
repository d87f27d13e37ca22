"""Merges and mutations as they are carried out, with and without replicas."""
