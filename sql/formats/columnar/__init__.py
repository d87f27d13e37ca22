"""Arrow, Parquet, and the schemas that data brings along."""
