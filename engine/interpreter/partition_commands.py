"""ALTER TABLE … DROP and DETACH of partitions and parts: from the names in a statement to calls of the table.

All names are understood before anything is done; then one command follows the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from engine.context import Context
from engine.interpreter.partition_values import partition_id
from engine.session import QueryResult
from engine.tables.table import Table
from parts.errors import UserError
from parts.part_name import PartName
from parts.safe_names import is_partition_id
from sql.grammar.alterations import DropPartition, PartitionCommand, PartitionRef


def carry_out(table: Table, commands: Sequence[PartitionCommand], context: Context) -> QueryResult:
    """Raises 248 for what names no partition, 233 for what names no part, and what the commands raise."""
    actions = [_action(table, command, context) for command in commands]
    for action in actions:
        context.status.check()
        action()
    return QueryResult()


def _action(table: Table, command: PartitionCommand, context: Context) -> Callable[[], None]:
    return _drop(table, command, context)


def _drop(table: Table, command: DropPartition, context: Context) -> Callable[[], None]:
    ref, detach, status = command.partition, command.detach, context.status
    if ref.part is not None:
        return partial(table.partitions.drop_part, PartName.parse(ref.part), detach=detach, status=status)
    return partial(table.partitions.drop, _partition_id(table, ref, context), detach=detach, status=status)


def _partition_id(table: Table, ref: PartitionRef, context: Context) -> str | None:
    """``None``: all partitions."""
    if ref.is_all:
        return None
    if ref.id is None:
        assert ref.value is not None
        return partition_id(table, ref.value, context)
    if not is_partition_id(ref.id):
        raise UserError("INVALID_PARTITION_VALUE", f"Invalid partition id: {ref.id!r}")
    return ref.id
