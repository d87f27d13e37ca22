"""A tour of Pando with Spark: short scripts, each of which runs by itself."""
