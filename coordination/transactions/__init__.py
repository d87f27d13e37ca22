"""Transactions of INSERTs, which become visible together."""
