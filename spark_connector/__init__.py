"""Spark's access to Pando's tables: ``spark.read.format("pando")``, ``df.write.format("pando")``.

It speaks HTTP to the servers, and shares only the names of types with them. ``python_source.data_source`` is what Spark
calls. ``shared.options`` lists the options. ``python_source.scan_reader`` plans and reads scans. ``batch_writer`` and
``stream_writer`` insert blocks that a retry does not double.

Functions that programs call are here. ``session`` and ``configure`` make a session ready: without Python workers, and
with a catalog. ``use_session`` is for threads, ``use_catalog`` for a catalog of another name, ``register`` for views.
``create_table`` makes a table for a frame, ``prepare`` orders rows that Python workers write.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spark_connector.jvm.catalog import use_catalog
    from spark_connector.sessions import configure, session, use_session
    from spark_connector.tables.table_creation import create_table
    from spark_connector.tables.table_views import register
    from spark_connector.tables.write_preparation import prepare

__all__ = ["configure", "create_table", "prepare", "register", "session", "use_catalog", "use_session"]

_HOMES = {
    "configure": "sessions", "session": "sessions", "use_session": "sessions", "use_catalog": "jvm.catalog",
    "create_table": "tables.table_creation", "prepare": "tables.write_preparation", "register": "tables.table_views",
}  # fmt: skip


def __getattr__(name: str) -> object:
    """Imports the function only when it is used: Spark imports this package in every session."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
