"""CSV, TSV, Values and other formats of lines."""
