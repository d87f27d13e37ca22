"""Resolution of names, asterisks and virtual columns in queries."""
