"""Native and RowBinary."""
