"""The SQL of DuckDB that stands for ClickHouse's values."""
