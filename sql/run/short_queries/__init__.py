"""Answers point queries from cached plans, without compiling."""
