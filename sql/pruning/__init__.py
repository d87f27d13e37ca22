"""Decides which parts, granules and rows a query need not read, from its conditions.

What must be computed for that is done by an evaluator that is passed in.
"""
