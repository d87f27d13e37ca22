"""Comparisons, conditionals and functions of NULL."""
