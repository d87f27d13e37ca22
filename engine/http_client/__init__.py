"""HTTP to servers, for the command line and for Spark.

``errors`` and ``retry`` import only error classes.
"""
