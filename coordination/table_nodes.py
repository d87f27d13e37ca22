"""Creating and dropping a table's nodes and a replica's nodes.

A table is created with its first replica in one multi, so it never exists without one. A further replica is added in
one multi that bumps ``replicas`` (a drop of the last replica, which deletes ``replicas`` first, makes it fail).
A new replica of a table with a history starts as *lost* (``is_lost`` = 1): it must clone before it serves.

Dropping a replica deletes its ``host`` first; a replica without ``host`` is a half-finished drop and is swept by the
next create or drop. Dropping the last replica drops the table; a root without ``replicas`` is a half-finished drop.
Sweeping excludes itself and stops at what was made anew (:mod:`coordination.sweep`).
"""

from __future__ import annotations

import difflib
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from coordination.keeper import (
    BadVersion,
    Create,
    Keeper,
    KeeperConnectionLoss,
    MultiFailed,
    NodeExists,
    NoNode,
    NotEmpty,
    Op,
    SetData,
)
from coordination.paths import ReplicaPaths, TablePaths
from coordination.sweep import Swept, sweep
from parts.errors import ConflictError, UnavailableError, UserError

Wait = Callable[[threading.Event, float], object]
"""As ``threading.Event.wait``."""

_ATTEMPTS = 20
_SWEEP_SECONDS = 1.0
"""How long one attempt to create waits for another server that sweeps the same path."""


class CreateOutcome(Enum):
    FIRST_REPLICA = "the table was created"
    NEW_REPLICA = "a replica was added; it must clone the others' parts"
    ADOPTED = "the inactive replica of this name was taken over with its queue and list of parts"


@dataclass(frozen=True, slots=True)
class SharedDefinition:
    """What all replicas must agree on. Both are texts compared as they are: canonicalise before."""

    metadata: str
    """Engine, keys, settings that shape parts: JSON or text."""
    columns: str
    """The columns with types, codecs and defaults, one a line."""


def create_table_or_replica(
    keeper: Keeper,
    table: TablePaths,
    replica_name: str,
    definition: SharedDefinition,
    *,
    wait: Wait,
) -> CreateOutcome:
    """Makes the table if need be and registers the replica.

    Raises ``UserError`` 342 (METADATA_MISMATCH) naming the difference, 253 for an active replica of that name.
    """
    replica = table.replica(replica_name)
    for _ in range(_ATTEMPTS):
        try:
            existing = _read_definition(keeper, table)
            if existing is None:
                _sweep_dropped_table(keeper, table, wait)
                keeper.create_parents(table.parents)
                keeper.multi(_table_ops(table, definition) + _replica_ops(replica, definition, is_first=True))
                return CreateOutcome.FIRST_REPLICA
            compare_definitions(existing, definition, table.root)
            outcome = _register(keeper, replica, definition, wait)
            if outcome is not None:
                return outcome
        except MultiFailed as error:
            if not isinstance(error.cause, NodeExists | NoNode | NotEmpty):
                raise
        except KeeperConnectionLoss:
            outcome = _created_after_all(keeper, replica)
            if outcome is not None:
                return outcome
    raise ConflictError("KEEPER_EXCEPTION", f"Table {table.root} keeps being created and dropped by others; retry")


def _created_after_all(keeper: Keeper, replica: ReplicaPaths) -> CreateOutcome | None:
    """The answer to the creating multi was lost; a replica that nobody activated yet is the one we made."""
    keeper.sync(replica.table.root)
    host = keeper.exists(replica.host)
    if host is None or host.version > 0 or keeper.exists(replica.is_active) is not None:
        return None
    is_lost = keeper.get(replica.is_lost)[0] == b"1"
    return CreateOutcome.NEW_REPLICA if is_lost else CreateOutcome.FIRST_REPLICA


def _read_definition(keeper: Keeper, table: TablePaths) -> SharedDefinition | None:
    metadata, columns, replicas = keeper.get_many([table.metadata, table.columns, table.replicas])
    if metadata is None or columns is None or replicas is None:
        return None
    return SharedDefinition(metadata[0].decode(), columns[0].decode())


def _sweep_dropped_table(keeper: Keeper, table: TablePaths, wait: Wait) -> None:
    """Finishes a drop that was cut short: such a root has no ``replicas``."""
    root, replicas = keeper.exists_many([table.root, table.replicas])
    if root is not None and replicas is None:
        if keeper.exists(table.log) is None and root.children_count:
            known = {"metadata", "columns", "blocks", "block_numbers", "quorum", "mutations", "temp", "dropped"}
            if not known & set(keeper.children(table.root)):
                raise UserError("TABLE_ALREADY_EXISTS", f"{table.root} exists in ZooKeeper and is not a table of Pando")
        _wait_for_sweeper(keeper, sweep(keeper, table.root, table.replicas, table.dropped), table.dropped, wait)


def _wait_for_sweeper(keeper: Keeper, outcome: Swept, lock: str, wait: Wait) -> None:
    """Another server still removes what it dropped; if it dies, its lock goes with its session."""
    if outcome is Swept.BUSY:
        changed = threading.Event()
        if keeper.exists(lock, lambda _: changed.set()) is not None:
            wait(changed, _SWEEP_SECONDS)


def _table_ops(table: TablePaths, definition: SharedDefinition) -> list[Op]:
    nodes = [
        (table.root, b""),
        (table.metadata, definition.metadata.encode()),
        (table.columns, definition.columns.encode()),
        (table.log, b""),
        (table.blocks, b""),
        (table.block_numbers, b""),
        (table.quorum, b""),
        (table.quorum_last_part, b""),
        (table.quorum_failed_parts, b""),
        (table.quorum_parallel, b""),
        (table.mutations, b""),
        (table.alter_partition_version, b""),
        (table.lost_part_count, b"0"),
        (table.replicas, b""),
    ]
    return [Create(path, data) for path, data in nodes]


def _replica_ops(replica: ReplicaPaths, definition: SharedDefinition, *, is_first: bool) -> list[Op]:
    nodes = [
        (replica.root, b""),
        (replica.host, b""),
        (replica.log_pointer, b"0" if is_first else b""),
        (replica.queue, b""),
        (replica.parts, b""),
        (replica.is_lost, b"0" if is_first else b"1"),
        (replica.flags, b""),
        (replica.metadata, definition.metadata.encode()),
        (replica.columns, definition.columns.encode()),
        (replica.metadata_version, b"0"),
        (replica.mutation_pointer, b""),
        (replica.min_unprocessed_insert_time, b""),
        (replica.max_processed_insert_time, b""),
    ]
    return [Create(path, data) for path, data in nodes]


def _register(keeper: Keeper, replica: ReplicaPaths, definition: SharedDefinition, wait: Wait) -> CreateOutcome | None:
    """``None``: the replica's nodes were left half-dropped and are swept now; try again."""
    root, host, active = keeper.exists_many([replica.root, replica.host, replica.is_active])
    if active is not None:
        raise UserError(
            "REPLICA_ALREADY_EXISTS",
            f"Replica {replica.root} already exists and is active; give this server another replica name",
        )
    if root is None:
        keeper.multi([SetData(replica.table.replicas, b""), *_replica_ops(replica, definition, is_first=False)])
        return CreateOutcome.NEW_REPLICA
    if host is None:
        _wait_for_sweeper(keeper, sweep(keeper, replica.root, replica.host, replica.dropped), replica.dropped, wait)
        return None
    return CreateOutcome.ADOPTED


def compare_definitions(existing: SharedDefinition, wanted: SharedDefinition, where: str) -> None:
    """Raises ``UserError`` 342 that names every difference."""
    differences = _metadata_differences(existing.metadata, wanted.metadata)
    if existing.columns != wanted.columns:
        differences.append("columns: " + _text_difference(existing.columns, wanted.columns))
    if differences:
        raise UserError(
            "METADATA_MISMATCH",
            f"The table's definition differs from the one in ZooKeeper ({where}): {'; '.join(differences)}",
        )


def _metadata_differences(existing: str, wanted: str) -> list[str]:
    if existing == wanted:
        return []
    try:
        left, right = json.loads(existing), json.loads(wanted)
    except ValueError:
        left = right = None
    if isinstance(left, dict) and isinstance(right, dict):
        keys = sorted(key for key in left.keys() | right.keys() if left.get(key) != right.get(key))
        return [f"{key}: {left.get(key)!r} in ZooKeeper, {right.get(key)!r} here" for key in keys]
    return ["metadata: " + _text_difference(existing, wanted)]


def _text_difference(existing: str, wanted: str) -> str:
    lines = difflib.ndiff(existing.splitlines(), wanted.splitlines())
    changed = [line for line in lines if line[:2] in ("- ", "+ ")]
    in_zookeeper = ", ".join(line[2:].strip() for line in changed if line.startswith("-"))
    here = ", ".join(line[2:].strip() for line in changed if line.startswith("+"))
    return f"in ZooKeeper only [{in_zookeeper}], here only [{here}]"


def check_definition(keeper: Keeper, table: TablePaths, definition: SharedDefinition) -> bool:
    """At start: ``False`` if the table is not in ZooKeeper; raises 342 if it differs."""
    existing = _read_definition(keeper, table)
    if existing is None:
        return False
    compare_definitions(existing, definition, table.root)
    return True


def replica_exists(keeper: Keeper, replica: ReplicaPaths) -> bool:
    return keeper.exists(replica.host) is not None


def drop_replica(keeper: Keeper, table: TablePaths, replica_name: str, *, own_session: bool = True) -> bool:
    """Removes the replica's nodes, and the table's with the last replica (then ``True``). Repeatable.

    ``own_session``: the replica may be active, if by this session. Raises ``UserError`` 305 (TABLE_WAS_NOT_DROPPED)
    otherwise.
    """
    replica = table.replica(replica_name)
    for _ in range(_ATTEMPTS):
        host = keeper.exists(replica.host)  # read before is_active: an activation in between changes its version
        _require_not_active_elsewhere(keeper, replica, own_session)
        try:
            if host is not None:
                keeper.delete(replica.host, host.version)
        except NoNode:
            pass
        except (BadVersion, KeeperConnectionLoss):
            continue
        sweep(keeper, replica.root, replica.host, replica.dropped)
        try:
            keeper.delete(table.replicas)
        except NotEmpty:
            return False
        except NoNode:
            pass
        except KeeperConnectionLoss:
            continue
        sweep(keeper, table.root, table.replicas, table.dropped)
        return True
    raise UnavailableError("KEEPER_EXCEPTION", f"The connection broke {_ATTEMPTS} times while dropping {replica.root}")


def drop_dead_replica(keeper: Keeper, table: TablePaths, replica_name: str) -> None:
    """SYSTEM DROP REPLICA: forgets a replica whose server will not come back.

    Raises ``UserError`` 305 (TABLE_WAS_NOT_DROPPED) when it is active or there is none of that name.
    """
    if keeper.exists(table.replica(replica_name).root) is None:
        known = ", ".join(sorted(keeper.children(table.replicas))) if keeper.exists(table.replicas) else "none"
        raise UserError(
            "TABLE_WAS_NOT_DROPPED", f"There is no replica {replica_name!r} of {table.root} (there are: {known})"
        )
    drop_replica(keeper, table, replica_name, own_session=False)


def _require_not_active_elsewhere(keeper: Keeper, replica: ReplicaPaths, own_session: bool) -> None:
    active = keeper.exists(replica.is_active)
    if active is not None and not (own_session and active.ephemeral_owner == keeper.session_id):
        raise UserError(
            "TABLE_WAS_NOT_DROPPED",
            f"Replica {replica.root} is active on another server: stop that server first; if it has just died, wait "
            "until its ZooKeeper session has timed out",
        )
