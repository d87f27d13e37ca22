"""Spark's way to Pando's tables: ``spark.read.format("pando")`` and ``df.write.format("pando")``.

It speaks HTTP to the servers and knows of them only the names of types. ``data_source`` is the entrance; ``options``
lists what can be set; ``reader`` plans and reads scans; ``writer`` and ``stream`` insert blocks that a retry does not
double.
"""
