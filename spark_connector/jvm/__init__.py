"""The format ``pando`` without Python workers, and Spark's catalog; in Scala.

``DefaultSource.scala`` is what Spark finds under the word ``pando``. Spark's optimizer pushes columns, filters, limits,
first rows and aggregates into its scans. The servers decide what they compute as Spark would
(``engine.scan.push_down``). ``PandoStream.scala`` reads streams. ``PandoWriteBuilder.scala`` writes, each job or
micro-batch in one transaction. ``PandoCatalog.scala`` is the catalog, whose statements go to the servers as SQL.
``jar`` makes the jar from the Scala files, ``catalog`` adds the catalog to a session.
"""
