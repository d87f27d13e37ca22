"""Decides what of a Spark query a server computes while it scans: conditions, aggregates, first rows.

Spark sends its expressions as JSON, and the server answers what ClickHouse means alike for every row. What may differ
stays with Spark. ``answers`` makes the answer, ``spark_types`` maps types.
"""
