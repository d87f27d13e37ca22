"""The data source ``pando``, written with Spark's Python data source API."""
