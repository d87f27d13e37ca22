"""The binary formats Native and RowBinary."""
