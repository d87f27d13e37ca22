"""Parquet and Arrow, and schemas inferred from their data."""
