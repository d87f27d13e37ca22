"""Follows the table's log: pulls it, and executes its entries by fetches, merges and drops."""
