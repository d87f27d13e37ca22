"""The format ``pando_jvm``: a data source in Scala that reads tables without Python workers.

Spark's optimizer pushes columns, filters, limits, first rows and aggregates into its scans. The servers decide what
they compute as Spark would (``engine.scan.push_down``). ``jar`` makes the jar from the Scala files.
"""
