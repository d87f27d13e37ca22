"""The one DuckDB database of a process: its statements, tables and arrays."""
