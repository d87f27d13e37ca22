"""ClickHouse's types in DuckDB: what stores each, and how a value of one becomes a value of another."""
