"""``View``, and ``MaterializedView`` without its rows: names and columns, and a query that others run.

Who reads a view gets its query (``engine.interpreter.relations``), who writes to one its target.
"""

from __future__ import annotations

from engine.tables.small_table import SmallTable


class ViewTable(SmallTable):
    lacks = frozenset({"partitioning", "mutations", "optimize", "truncate", "check"})
