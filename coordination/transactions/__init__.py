"""Transactions: INSERTs that become visible together."""
