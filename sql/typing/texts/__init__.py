"""Conversions between values and texts, in SQL and in scan kernels."""
