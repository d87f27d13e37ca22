"""Arithmetic, mathematics, and the texts of numbers."""
