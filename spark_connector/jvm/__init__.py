"""The format ``pando_jvm``, which reads tables without Python workers, and Spark's catalog; in Scala.

Spark's optimizer pushes columns, filters, limits, first rows and aggregates into its scans. The servers decide what
they compute as Spark would (``engine.scan.push_down``). ``PandoCatalog.scala`` is the catalog, whose statements go to
the servers as SQL; ``PandoWriteBuilder.scala`` writes into its tables, each job in one transaction. ``jar`` makes the
jar from the Scala files, ``catalog`` adds the catalog to a session.
"""
