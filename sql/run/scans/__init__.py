"""Tables as DuckDB reads them: streams of Arrow batches."""
