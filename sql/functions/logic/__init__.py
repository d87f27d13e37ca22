"""Comparisons, conditionals and functions about NULL."""
