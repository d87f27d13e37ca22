"""The znodes of a table: their paths, their contents, and which replica is active."""
