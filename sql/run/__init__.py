"""Plans and runs queries in DuckDB over Arrow streams."""
