"""Conversions of values from one type to another."""
