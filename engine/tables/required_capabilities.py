"""Returns a capability of a table.

Raises ClickHouse's error 48 (NOT_IMPLEMENTED) if the table's kind lacks it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from engine.tables.capabilities.table_mutations import TableMutations
from engine.tables.capabilities.table_partitions import TablePartitions
from engine.tables.capabilities.table_transactions import TableTransactions
from engine.tables.owned_table import OwnedTable
from engine.tables.statement_options import OptimizeOptions
from parts.common.errors import UserError
from parts.common.query_status import QueryStatus
from parts.store.part_store import PartStore

_T = TypeVar("_T")


def require_partitions(table: OwnedTable) -> TablePartitions:
    """Returns the partition commands of the table."""
    return _require(table, table.partitions, "Table engine {} doesn't support partitioning")


def require_mutations(table: OwnedTable) -> TableMutations:
    """Returns the mutations of the table."""
    return _require(table, table.mutations, "Table engine {} doesn't support mutations")


def require_transactions(table: OwnedTable) -> TableTransactions:
    """Returns the transactions of the table."""
    return _require(table, table.transactions, "Table engine {} doesn't support transactions")


def require_optimize(table: OwnedTable) -> Callable[[OptimizeOptions], None]:
    """Returns the function that merges now."""
    return _require(table, table.optimize, "Method optimize is not supported by storage {}")


def require_truncate(table: OwnedTable) -> Callable[[QueryStatus], None]:
    """Returns the function that removes all rows."""
    return _require(table, table.truncate, "Truncate is not supported by storage {}")


def require_checked_store(table: OwnedTable) -> PartStore:
    """Returns the parts that CHECK TABLE reads."""
    return _require(table, table.checked_store, "Check query is not supported for {} storage")


def _require(table: OwnedTable, capability: _T | None, refusal: str) -> _T:
    if capability is None:
        raise UserError("NOT_IMPLEMENTED", refusal.format(table.definition.engine_name))
    return capability
