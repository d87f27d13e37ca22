"""Aggregate functions and their combinators."""
