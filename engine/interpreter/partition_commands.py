"""ALTER TABLE commands on partitions and parts: drop, attach, move, fetch, freeze.

All names are resolved before anything is done; then the commands run one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial

from coordination.keeper.interface import Op
from coordination.transactions.commit_request import Overwrite
from engine.interpreter.partition_values import evaluate_partition_id
from engine.interpreter.shared_steps import refuse_system_database, wait_for_replicas
from engine.queries.context import OwnerContext
from engine.queries.session import QueryResult
from engine.tables.capabilities.attach_parts import select_attachable
from engine.tables.owned_table import OwnedTable
from engine.tables.required_capabilities import require_partitions
from parts.common.errors import UserError
from parts.common.part_name import PartName
from parts.common.safe_names import check_file_name, encode_file_name, is_partition_id, is_plain_file_name
from parts.read.part_reader import Part
from parts.store.attaching_parts import is_attaching
from parts.store.detached_parts import DETACHED, parse_detached_name
from parts.store.frozen_parts import SHADOW, freeze_parts, unfreeze_parts
from sql.grammar.clause_types import TableRef
from sql.grammar.statements.alter_commands import (
    AttachPartition,
    DropDetached,
    DropPartition,
    FetchPartition,
    ForgetPartition,
    Freeze,
    MovePartition,
    PartitionCommand,
    PartitionRef,
    Unfreeze,
)


def run_partition_commands(
    table: OwnedTable, commands: Sequence[PartitionCommand], context: OwnerContext
) -> QueryResult:
    """Resolves all commands, then executes them.

    Raises 248 (INVALID_PARTITION_VALUE), 233 (BAD_DATA_PART_NAME), and the commands' errors.
    """
    actions = [_make_action(table, command, context) for command in commands]
    for action in actions:
        context.status.check()
        action()
    return QueryResult()


def _make_action(table: OwnedTable, command: PartitionCommand, context: OwnerContext) -> Callable[[], None]:
    if isinstance(command, DropPartition):
        return _plan_drop(table, command, context)
    if isinstance(command, DropDetached):
        return _plan_drop_detached(table, command, context)
    if isinstance(command, FetchPartition):
        return _plan_fetch(table, command, context)
    if isinstance(command, MovePartition):
        return _plan_move(table, command, context)
    if isinstance(command, ForgetPartition):
        return _plan_forget(table, command, context)
    if isinstance(command, Freeze | Unfreeze):
        return _plan_freeze(table, command, context)
    if command.source is None:
        return _plan_attach(table, command.partition, context)
    return _plan_attach_from(table, command, command.source, context)


def _plan_drop(table: OwnedTable, command: DropPartition, context: OwnerContext) -> Callable[[], None]:
    ref, detach, status = command.partition, command.detach, context.status
    if ref.part is not None:
        return partial(require_partitions(table).drop_part, PartName.parse(ref.part), detach=detach, status=status)
    return partial(
        require_partitions(table).drop, _find_partition_id(table, ref, context), detach=detach, status=status
    )


def _plan_drop_detached(table: OwnedTable, command: DropDetached, context: OwnerContext) -> Callable[[], None]:
    if not context.settings.allow_drop_detached:
        raise UserError("SUPPORT_IS_DISABLED", "DROP DETACHED deletes for good: it needs allow_drop_detached = 1")
    ref, store = command.partition, require_partitions(table).store
    if ref.part is not None:
        if ref.part and not is_plain_file_name(ref.part):
            raise UserError("INCORRECT_FILE_NAME", f"Invalid part name {ref.part!r}")
        if is_attaching(ref.part):
            raise UserError("BAD_ARGUMENTS", f"Detached part {ref.part!r} is being attached")
        if ref.part not in store.list_detached():
            raise UserError("BAD_DATA_PART_NAME", f"Detached part {ref.part!r} not found")
        return partial(store.detached_parts.delete, ref.part)
    partition = _find_partition_id(table, ref, context)

    def drop() -> None:
        for directory in store.list_detached():
            name = parse_detached_name(directory)[1]
            if name is None or is_attaching(directory):
                continue
            if partition in (None, name.partition_id):
                store.detached_parts.delete(directory)

    return drop


def _plan_fetch(table: OwnedTable, command: FetchPartition, context: OwnerContext) -> Callable[[], None]:
    if command.partition.is_all:
        raise UserError("SUPPORT_IS_DISABLED", "FETCH PARTITION ALL is not supported: name one partition")
    if command.partition.part is not None:
        return partial(
            require_partitions(table).fetch, command.path, PartName.parse(command.partition.part), context.status
        )
    partition = _find_partition_id(table, command.partition, context)
    assert partition is not None
    return partial(require_partitions(table).fetch, command.path, partition, context.status)


def _plan_attach(table: OwnedTable, ref: PartitionRef, context: OwnerContext) -> Callable[[], None]:
    partitions = require_partitions(table)
    attach, store = partitions.attaching.attach, partitions.store
    if ref.part is not None:
        return partial(attach, [str(PartName.parse(ref.part))], context.status)
    partition = _find_partition_id(table, ref, context)

    def attach_all() -> None:
        wanted, covered = select_attachable(store.list_detached(), partition)
        attach(wanted, context.status)
        for name in covered:  # an attached part has their rows
            store.move_to_detached(store.path / DETACHED / name, "inactive")

    return attach_all


def _plan_attach_from(
    table: OwnedTable, command: AttachPartition, ref: TableRef, context: OwnerContext
) -> Callable[[], None]:
    if command.partition.is_all and command.replace:
        raise UserError("SUPPORT_IS_DISABLED", "REPLACE PARTITION ALL is not supported: name one partition")
    source = context.server.catalog.table(context.database(ref.database), ref.table)
    context.server.link_start.require_readable(source.definition.database, source.definition.name)
    _require_same_structure(source, table)
    partition = _find_partition_id(table, command.partition, context)
    overwrite = Overwrite.PARTITIONS if command.replace else Overwrite.NOTHING
    attach_from = require_partitions(table).attaching.attach_from_table

    def attach() -> None:
        with ExitStack() as stack:
            snapshot = source.snapshot()
            stack.callback(snapshot.release)
            parts = [part for part in snapshot.parts if partition in (None, part.name.partition_id)]
            if parts:
                attach_from(parts, source.description.schema, overwrite, context.status)
            elif command.replace and not context.settings.allow_replace_partition_from_empty_source:
                raise UserError(
                    "BAD_ARGUMENTS",
                    f"Table {source.definition.full_name} has no rows in partition {partition}: REPLACE PARTITION "
                    "would only drop. Use DROP PARTITION for that, or allow_replace_partition_from_empty_source = 1",
                )
            elif command.replace:
                require_partitions(table).drop(partition, status=context.status)

    return attach


def _plan_move(table: OwnedTable, command: MovePartition, context: OwnerContext) -> Callable[[], None]:
    if command.partition.is_all:
        raise UserError("SUPPORT_IS_DISABLED", "MOVE PARTITION ALL is not supported: name one partition")
    database = context.database(command.target.database)
    refuse_system_database(database)
    target = context.server.catalog.table(database, command.target.table)
    if table.replication is not None and target.replication is None:
        raise UserError(
            "NOT_IMPLEMENTED",
            f"Cannot move a partition of the replicated table {table.definition.full_name} to "
            f"{target.definition.full_name}, which is not replicated",
        )
    if table.replication is not None and target.replication is not None:
        names = (table.replication.zookeeper_name, target.replication.zookeeper_name)
        if names[0] != names[1]:
            raise UserError(
                "NOT_IMPLEMENTED",
                f"Cannot move a partition between tables of different ZooKeepers, {names[0]!r} and {names[1]!r}: "
                "ATTACH PARTITION … FROM the one to the other, then DROP PARTITION",
            )
    _require_same_structure(table, target)
    partition = _find_partition_id(table, command.partition, context)
    assert partition is not None

    def move() -> None:
        attaching, schema = require_partitions(target).attaching, table.description.schema
        with attaching.begin_ahead(schema, context.status) as ahead:

            def attach(parts: Sequence[Part], along: Sequence[Op]) -> None:
                if parts:
                    attaching.attach_from_table(parts, schema, Overwrite.NOTHING, context.status, along, ahead)

            require_partitions(table).move(partition, attach, context.status, ahead.prepare)
        wait_for_replicas(target, context)

    return move


def _plan_forget(table: OwnedTable, command: ForgetPartition, context: OwnerContext) -> Callable[[], None]:
    if command.partition.is_all:
        raise UserError("SUPPORT_IS_DISABLED", "FORGET PARTITION ALL is not supported: name one partition")
    partition = _find_partition_id(table, command.partition, context)
    assert partition is not None
    return partial(require_partitions(table).forget, partition, context.status)


def _plan_freeze(table: OwnedTable, command: Freeze | Unfreeze, context: OwnerContext) -> Callable[[], None]:
    if command.partition is not None and command.partition.is_all:
        raise UserError("SUPPORT_IS_DISABLED", "FREEZE of all partitions is written without PARTITION ALL")
    if command.name is not None:
        check_file_name("backup", command.name)
    name = encode_file_name(command.name) if command.name is not None else None
    partition = _find_partition_id(table, command.partition, context) if command.partition is not None else None
    server_path = context.server.path
    shadow, directory = server_path / SHADOW, str(table.definition.data_path.relative_to(server_path))

    def is_selected(name: PartName) -> bool:
        return partition in (None, name.partition_id)

    if isinstance(command, Unfreeze):
        assert name is not None
        return partial(unfreeze_parts, shadow, name, directory, is_selected)

    def freeze_all() -> None:
        with ExitStack() as stack:
            snapshot = table.snapshot()
            stack.callback(snapshot.release)
            parts = [part for part in snapshot.parts if is_selected(part.name)]
            freeze_parts(shadow, name, directory, parts, context.status.check)

    return freeze_all


def _require_same_structure(source: OwnedTable, target: OwnedTable) -> None:
    """Checks that parts of ``source`` fit ``target``.

    Raises 48 (NOT_IMPLEMENTED) for a table without partitions, 122 (INCOMPATIBLE_COLUMNS) for other columns, 36
    (BAD_ARGUMENTS) for other keys.
    """
    for table in (source, target):
        require_partitions(table)
    ours, theirs = target.description, source.description
    columns = [[(c.name, c.type.name) for c in d.schema.stored.columns] for d in (ours, theirs)]
    if columns[0] != columns[1]:
        raise UserError("INCOMPATIBLE_COLUMNS", "Tables have different structure")
    for what in ("sorting_key", "partition_key", "primary_key"):
        if getattr(ours, what).expressions != getattr(theirs, what).expressions:
            raise UserError("BAD_ARGUMENTS", f"Tables have different {what.replace('_', ' ')}s")
    if theirs.settings.index_granularity_bytes and not ours.settings.index_granularity_bytes:
        raise UserError(
            "BAD_ARGUMENTS", "The parts have inconsistent granularity with table: it bounds no granule's bytes"
        )


def _find_partition_id(table: OwnedTable, ref: PartitionRef, context: OwnerContext) -> str | None:
    """Returns the partition's id; ``None`` means all partitions."""
    if ref.is_all:
        return None
    if ref.id is None:
        assert ref.value is not None
        return evaluate_partition_id(table, ref.value, context)
    if not is_partition_id(ref.id):
        raise UserError("INVALID_PARTITION_VALUE", f"Invalid partition id: {ref.id!r}")
    return ref.id
