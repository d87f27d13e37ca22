"""A statement while it runs: its session, its process, its limits, its result."""
