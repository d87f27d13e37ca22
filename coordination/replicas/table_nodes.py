"""Create and drop a table's nodes and a replica's nodes.

A table is created with its first replica in one multi, so it never exists without one. A further replica is added in
one multi that also sets ``replicas``. A drop of the last replica deletes ``replicas`` first, so the multi then fails. A
new replica of an existing table starts as *lost* (``is_lost`` = 1): it must clone before it serves.

A replica's nodes belong to one data directory, which the node ``identity`` names. CREATE takes nodes over only if an
earlier try of the same CREATE made them. A server that starts with a definition on disk (ATTACH) takes over any nodes.

Dropping a replica deletes its ``host`` first. A replica without ``host`` is an interrupted drop, which the next create
or drop finishes. Dropping the last replica drops the table; a root without ``replicas`` is an interrupted drop. One
session at a time removes nodes, and never nodes that were created again (:mod:`coordination.nodes.dropped_nodes`).
"""

from __future__ import annotations

import difflib
import json
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum

from coordination.inserts.quorum_settlement import settle_quorums
from coordination.keeper.interface import (
    BadVersion,
    Create,
    Delete,
    Keeper,
    KeeperConnectionLoss,
    KeeperError,
    MultiFailed,
    NodeExists,
    NoNode,
    NotEmpty,
    Op,
    SetData,
    Stat,
)
from coordination.nodes.dropped_nodes import RemovalOutcome, remove_dropped_nodes
from coordination.nodes.paths import ReplicaPaths, TablePaths
from coordination.nodes.table_gate import gate_ops
from coordination.nodes.table_lists import list_late_lists
from parts.common.errors import ConflictError, UnavailableError, UserError

WaitForEvent = Callable[[threading.Event, float], object]
"""As ``threading.Event.wait``."""

_ATTEMPTS = 20
_SWEEP_SECONDS = 1.0
"""Time one attempt to create waits for another server that removes the dropped nodes."""


class CreateOutcome(Enum):
    """The result of creating a replica."""

    FIRST_REPLICA = "the table was created"
    NEW_REPLICA = "a replica was added; it must clone the others' parts"
    ADOPTED = "an earlier try of this CREATE had made the replica"


@dataclass(frozen=True, slots=True)
class SharedDefinition:
    """The definition that all replicas must agree on.

    The texts are compared byte by byte: canonicalise them before.
    """

    metadata: str
    """Engine, keys, settings that shape parts: JSON or text."""
    columns: str
    """The columns with types, codecs and defaults, one a line."""


@dataclass(frozen=True, slots=True)
class _NewReplica:
    paths: ReplicaPaths
    definition: SharedDefinition
    identity: str
    restoring: str | None

    def ops(self, *, is_first: bool) -> list[Op]:
        """Returns the operations that create the replica's nodes."""
        if self.restoring is None:
            return _replica_ops(self.paths, self.definition, self.identity, is_first=is_first)
        nodes = _replica_ops(self.paths, self.definition, self.identity, is_first=False)
        return [*nodes, Create(self.paths.restoring, self.restoring.encode())]


def create_table_or_replica(
    keeper: Keeper,
    table: TablePaths,
    replica_name: str,
    definition: SharedDefinition,
    *,
    epoch: str,
    wait: WaitForEvent,
    identity: str = "",
    restoring: str | None = None,
) -> CreateOutcome:
    """Creates the table if it does not exist, and registers the replica.

    ``epoch``: of a new table's gate. ``identity``: a random text kept with the data, a space, and the path of the data.
    ``restoring``: the content of the mark with which a restored replica begins (``recovery.restore_replica``);
    ``None`` for CREATE TABLE.

    Raises ``UserError`` 342 (METADATA_MISMATCH) naming the difference, 253 if a replica of that name exists.
    """
    replica = table.replica(replica_name)
    new = _NewReplica(replica, definition, identity, restoring)
    for _ in range(_ATTEMPTS):
        try:
            existing = _read_definition(keeper, table)
            if existing is None:
                _sweep_dropped_table(keeper, table, wait)
                keeper.create_parents(table.parent)
                keeper.multi(_table_ops(table, definition, restoring) + gate_ops(table, epoch) + new.ops(is_first=True))
                return CreateOutcome.FIRST_REPLICA
            compare_definitions(existing, definition, table.root)
            outcome = _register(keeper, new, wait)
            if outcome is not None:
                return outcome
        except MultiFailed as error:
            if not isinstance(error.cause, NodeExists | NoNode | NotEmpty):
                raise
        except KeeperConnectionLoss:
            outcome = _created_after_all(keeper, new)
            if outcome is not None:
                return outcome
    raise ConflictError("KEEPER_EXCEPTION", f"Table {table.root} keeps being created and dropped by others; retry")


def _created_after_all(keeper: Keeper, new: _NewReplica) -> CreateOutcome | None:
    """Returns the outcome of a creating multi whose answer was lost; ``None`` if it was not carried out.

    A replica that nobody has activated yet is the one we made.
    """
    replica = new.paths
    keeper.sync(replica.table.root)
    host, active = keeper.exists_many([replica.host, replica.is_active])
    if host is None or host.version > 0 or active is not None or not _is_own(keeper, new, host):
        return None
    is_lost = keeper.get(replica.is_lost)[0] == b"1"
    return CreateOutcome.NEW_REPLICA if is_lost else CreateOutcome.FIRST_REPLICA


def _read_definition(keeper: Keeper, table: TablePaths) -> SharedDefinition | None:
    metadata, columns, replicas = keeper.get_many([table.metadata, table.columns, table.replicas])
    if metadata is None or columns is None or replicas is None:
        return None
    return SharedDefinition(metadata[0].decode(), columns[0].decode())


def _sweep_dropped_table(keeper: Keeper, table: TablePaths, wait: WaitForEvent) -> None:
    """Finishes an interrupted drop: such a root has no ``replicas``."""
    root, replicas = keeper.exists_many([table.root, table.replicas])
    if root is not None and replicas is None:
        if keeper.exists(table.log) is None and root.children_count:
            known = {"metadata", "columns", "blocks", "block_numbers", "quorum", "mutations", "temp", "dropped"}
            found = keeper.children(table.root)
            if not known & set(found):
                _remove_empty_lists(keeper, table, found)
                return
        _wait_for_sweeper(
            keeper, remove_dropped_nodes(keeper, table.root, table.replicas, table.dropped), table.dropped, wait
        )


def _remove_empty_lists(keeper: Keeper, table: TablePaths, found: list[str]) -> None:
    """Deletes empty lists that a server of an older version created below a deleted table.

    Raises 57 (TABLE_ALREADY_EXISTS) if there is anything else: that may belong to another program.
    """
    paths = [f"{table.root}/{name}" for name in found]
    try:
        if not set(paths) <= set(list_late_lists(table)):
            raise NotEmpty("other nodes", table.root)
        keeper.multi([Delete(path) for path in (*paths, table.root)])
    except (MultiFailed, NotEmpty) as error:
        if isinstance(error, MultiFailed) and not isinstance(error.cause, NotEmpty):
            raise
        raise UserError(
            "TABLE_ALREADY_EXISTS",
            f"{table.root} exists in ZooKeeper and is not a table of Pando: there is only {', '.join(found)}. If that "
            "was left of a deleted table and no server uses it, remove the path in ZooKeeper and repeat; otherwise "
            "give the table another path",
        ) from error


def _wait_for_sweeper(keeper: Keeper, outcome: RemovalOutcome, lock: str, wait: WaitForEvent) -> None:
    """Waits a moment if another server still removes dropped nodes. Its lock ends with its session."""
    if outcome is RemovalOutcome.BUSY:
        changed = threading.Event()
        if keeper.exists(lock, lambda _: changed.set()) is not None:
            wait(changed, _SWEEP_SECONDS)


def _table_ops(table: TablePaths, definition: SharedDefinition, restoring: str | None) -> list[Op]:
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
        *([(table.restored, b"")] if restoring is not None else []),
    ]
    return [Create(path, data) for path, data in nodes]


def _replica_ops(replica: ReplicaPaths, definition: SharedDefinition, identity: str, *, is_first: bool) -> list[Op]:
    nodes = [
        (replica.root, b""),
        (replica.host, b""),
        (replica.identity, identity.encode()),
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


def _register(keeper: Keeper, new: _NewReplica, wait: WaitForEvent) -> CreateOutcome | None:
    """Registers the replica. Returns ``None`` if an interrupted drop was in the way: try again."""
    replica = new.paths
    root, host, restoring = keeper.exists_many([replica.root, replica.host, replica.restoring])
    if root is None:
        keeper.multi([SetData(replica.table.replicas, b""), *new.ops(is_first=False)])
        return CreateOutcome.NEW_REPLICA
    if host is None:
        _wait_for_sweeper(
            keeper, remove_dropped_nodes(keeper, replica.root, replica.host, replica.dropped), replica.dropped, wait
        )
        return None
    if (restoring is None) == (new.restoring is None) and _is_own(keeper, new, host):
        return CreateOutcome.ADOPTED
    raise UserError(
        "REPLICA_ALREADY_EXISTS",
        f"Replica {replica.root} already exists. If it is only down, start its server. If its disk is lost, ATTACH "
        f"the table here, or take it away with SYSTEM DROP REPLICA '{replica.name}' FROM ZKPATH '{replica.table.root}' "
        "and CREATE it again. Otherwise give this server another replica name",
    )


def _is_own(keeper: Keeper, new: _NewReplica, host: Stat) -> bool:
    """Tells whether the replica's nodes belong to the data directory of ``new``.

    Before the first activation only the path is compared. The nodes hold nothing yet, and a directory that a failed
    CREATE removed comes back with another random text.
    """
    identity, active = keeper.get_many([new.paths.identity, new.paths.is_active])
    mine, place = new.identity.encode().partition(b" ")[::2]
    known, known_place = identity[0].partition(b" ")[::2] if identity is not None else (b"", b"-")
    if active is not None and active[0] != new.identity.encode():
        return False
    return bool(mine) and known == mine if host.version else known_place == place


def record_identity(keeper: Keeper, replica: ReplicaPaths, identity: str) -> None:
    """Writes that the active replica's nodes belong to this data directory."""
    (known,) = keeper.get_many([replica.identity])
    if known is None:  # a replica that an older version made
        keeper.create(replica.identity, identity.encode())
    elif known[0] != identity.encode():
        keeper.set(replica.identity, identity.encode())


def compare_definitions(existing: SharedDefinition, wanted: SharedDefinition, where: str) -> None:
    """Raises ``UserError`` 342 (METADATA_MISMATCH) that names every difference."""
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
    """Checks the definition at start. Returns ``False`` if the table is not in ZooKeeper.

    Raises 342 if it differs.
    """
    existing = _read_definition(keeper, table)
    if existing is None:
        return False
    compare_definitions(existing, definition, table.root)
    return True


def replica_exists(keeper: Keeper, replica: ReplicaPaths) -> bool:
    """Tells whether the replica is registered."""
    return keeper.exists(replica.host) is not None


def drop_replica(keeper: Keeper, table: TablePaths, replica_name: str, *, own_session: bool = True) -> bool:
    """Deletes the replica's nodes, and the table's with the last replica (then ``True``). Repeatable.

    Quorums of more replicas than are left are lowered (:mod:`coordination.inserts.quorum_settlement`). ``own_session``:
    the replica may be active in this session. Raises ``UserError`` 305 (TABLE_WAS_NOT_DROPPED) if it is active
    elsewhere.
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
        remove_dropped_nodes(keeper, replica.root, replica.host, replica.dropped)
        try:
            keeper.delete(table.replicas)
        except NotEmpty:
            with suppress(KeeperError):  # otherwise the next cleanup does it
                settle_quorums(keeper, table)
            return False
        except NoNode:
            pass
        except KeeperConnectionLoss:
            continue
        remove_dropped_nodes(keeper, table.root, table.replicas, table.dropped)
        return True
    raise UnavailableError("KEEPER_EXCEPTION", f"The connection broke {_ATTEMPTS} times while dropping {replica.root}")


def drop_own_replica(keeper: Keeper, table: TablePaths, replica_name: str, identity: str) -> None:
    """Drops the replica as :func:`drop_replica`, if its nodes belong to this data directory."""
    (known,) = keeper.get_many([table.replica(replica_name).identity])
    if known is not None and known[0] == identity.encode():
        drop_replica(keeper, table, replica_name)


def drop_dead_replica(keeper: Keeper, table: TablePaths, replica_name: str) -> None:
    """Forgets a replica whose server will not come back (SYSTEM DROP REPLICA).

    Raises ``UserError`` 305 (TABLE_WAS_NOT_DROPPED) when it is active or does not exist.
    """
    if keeper.exists(table.replica(replica_name).root) is None:
        known = ", ".join(sorted(keeper.children(table.replicas))) if keeper.exists(table.replicas) else "none"
        raise UserError(
            "TABLE_WAS_NOT_DROPPED", f"There is no replica {replica_name!r} of {table.root} (there are: {known})"
        )
    if (
        keeper.exists(table.restored) is not None
    ):  # parts that only a forgotten replica has are not added to the table any more
        keeper.delete_tree(table.restored)
    drop_replica(keeper, table, replica_name, own_session=False)


def _require_not_active_elsewhere(keeper: Keeper, replica: ReplicaPaths, own_session: bool) -> None:
    active = keeper.exists(replica.is_active)
    if active is not None and not (own_session and active.ephemeral_owner == keeper.session_id):
        raise UserError(
            "TABLE_WAS_NOT_DROPPED",
            f"Replica {replica.root} is active on another server: stop that server first; if it has just died, wait "
            "until its ZooKeeper session has timed out",
        )
