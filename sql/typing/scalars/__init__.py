"""The scalar types in queries: their texts, casts and order in DuckDB, one object a type."""
