"""Running queries in DuckDB over Arrow streams."""
