"""Where Spark finds the format ``pando`` by itself: it looks through every top-level module named ``pyspark_…``.

Kept light, because every Spark session of this environment imports it.
"""

from spark_connector.python_source.data_source import PandoDataSource as DefaultSource

__all__ = ["DefaultSource"]
