"""A running statement: its session, its process, its limits, its result."""
