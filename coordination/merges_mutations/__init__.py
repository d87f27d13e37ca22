"""Which parts may be merged, and which mutations a part still needs."""
