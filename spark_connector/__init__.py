"""Spark's way to Pando's tables: ``spark.read.format("pando")`` and ``df.write.format("pando")``.

It speaks HTTP to the servers and knows of them only the names of types. ``data_source`` is the entrance; ``options``
lists what can be set; ``reader`` plans and reads scans; ``writer`` and ``stream`` insert blocks that a retry does not
double. What a program calls besides is here: ``register`` (views), ``configure`` (a session), ``use_session`` (a
thread's), ``create_table``, ``prepare`` (rows to write), ``narrowed`` (a frame that reads less), ``aggregate`` (by the
servers, task by task).
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spark_connector.aggregation import aggregate
    from spark_connector.creation import create_table
    from spark_connector.narrowing import narrowed
    from spark_connector.preparation import prepare
    from spark_connector.session import configure, use_session
    from spark_connector.views import register

__all__ = ["aggregate", "configure", "create_table", "narrowed", "prepare", "register", "use_session"]

_HOMES = {
    "aggregate": "aggregation", "configure": "session", "create_table": "creation", "narrowed": "narrowing",
    "prepare": "preparation", "register": "views", "use_session": "session",
}  # fmt: skip


def __getattr__(name: str) -> object:
    """Late: Spark imports this package in every session."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
