"""INSERTs that become visible together."""
