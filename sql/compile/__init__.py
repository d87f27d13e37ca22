"""From a tree to one DuckDB statement with typed columns. Nothing is run here."""
