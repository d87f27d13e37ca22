"""Spark's access to Pando's tables: ``spark.read.format("pando")``, ``df.write.format("pando")``.

It speaks HTTP to the servers, and shares only the names of types with them. ``python_source.data_source`` is what Spark
calls. ``shared.options`` lists the options. ``python_source.scan_reader`` plans and reads scans. ``batch_writer`` and
``stream_writer`` insert blocks that a retry does not double.

Functions that programs call are here: ``register`` (views), ``configure`` (a session), ``use_session`` (a thread's
session), ``use_jvm_source`` (the format ``pando_jvm``), ``use_catalog`` (databases as a catalog of Spark).
``create_table``, ``prepare`` (rows to write), ``narrowed`` (a frame that reads less), ``aggregate`` (by the servers,
task by task).
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spark_connector.jvm.catalog import use_catalog
    from spark_connector.jvm.jar import use_jvm_source
    from spark_connector.python_source.aggregate_pushdown import aggregate
    from spark_connector.python_source.scan_pushdown import narrowed
    from spark_connector.python_source.session_options import configure, use_session
    from spark_connector.tables.table_creation import create_table
    from spark_connector.tables.table_views import register
    from spark_connector.tables.write_preparation import prepare

__all__ = [
    "aggregate", "configure", "create_table", "narrowed", "prepare", "register", "use_catalog", "use_jvm_source",
    "use_session",
]  # fmt: skip

_HOMES = {
    "aggregate": "python_source.aggregate_pushdown", "configure": "python_source.session_options",
    "create_table": "tables.table_creation", "narrowed": "python_source.scan_pushdown",
    "prepare": "tables.write_preparation", "register": "tables.table_views",
    "use_catalog": "jvm.catalog", "use_jvm_source": "jvm.jar", "use_session": "python_source.session_options",
}  # fmt: skip


def __getattr__(name: str) -> object:
    """Imports the function only when it is used: Spark imports this package in every session."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
