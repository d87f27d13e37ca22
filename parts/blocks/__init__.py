"""Arrow arrays and blocks in memory; no table and no file."""
