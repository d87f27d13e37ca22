"""SYSTEM RESTORE REPLICA: write a replica's parts on disk to ZooKeeper, which has lost them.

1. A table that ZooKeeper has wrong data of is deleted there (``retire_table``, ``clear_retired``). Then the table is
   created if it does not exist. The replica is created in one multi as lost (``is_lost``), with the mark
   ``flags/restoring``.
2. ``list_parts``, when the replica is active. The first replica lists all its parts under their names, and moves the
   block numbers behind them. One multi makes it not lost and removes the mark. Every other replica lists the parts that
   others have too, and logs those that only it has (:mod:`recovery.restore_plan`).
3. The others then become copies (:mod:`coordination.replicas.clone`). Parts they did not list move to
   ``detached/clone_…``, and missing parts are fetched. They keep the mark until then, because their disks may have
   parts that ZooKeeper never knew.

Each step can be repeated, and the mark tells where to continue: after a crash the next session does. Two replicas may
be restored at once: one creates the table, the other waits until that one has listed its parts. Source: ClickHouse
documentation, "SYSTEM RESTORE REPLICA".
"""

from __future__ import annotations

from collections.abc import Mapping

from coordination.inserts.block_numbers import allocate_block_number, read_committing_numbers, release_block_number
from coordination.inserts.partition_nodes import create_partition_node, next_numbers, raise_next_first_number
from coordination.keeper.interface import (
    Check,
    Create,
    Delete,
    Keeper,
    MultiFailed,
    NoNode,
    Op,
    SetData,
    check_not_exists,
)
from coordination.keeper.request_limits import operation_bytes, split_into_multis
from coordination.log.log_entry import EntryType, LogEntry
from coordination.nodes.dropped_nodes import remove_dropped_nodes
from coordination.nodes.list_nodes import parse_entries
from coordination.nodes.part_record import PartRecord
from coordination.nodes.paths import ReplicaPaths, TablePaths
from coordination.nodes.replica_activation import list_registered_replicas
from parts.common.errors import ConflictError, UnavailableError
from parts.common.part_name import PartName
from recovery.restore_plan import Others, RestorePlan, plan_restore

ALL_PARTS = "all"
"""Content of the mark: parts that nobody else has are added to the table. Without it they are moved to ``detached/``,
because the others may have dropped them, or given them up, while ZooKeeper knew the table."""
RETIRED = b"retired"
"""Content of the root of a table that is being deleted."""


# -- nodes ------------------------------------------------------------------------------------------------------------


def read_host_versions(keeper: Keeper, table: TablePaths) -> dict[str, int]:
    """Returns the versions of ``host`` of all replicas, for :func:`retire_table`.

    Read them before the table is examined.
    """
    if keeper.exists(table.replicas) is None:
        return {}
    names = list_registered_replicas(keeper, table)
    stats = keeper.exists_many([table.replica(name).host for name in names])
    return {name: stat.version for name, stat in zip(names, stats, strict=True) if stat is not None}


def retire_table(keeper: Keeper, table: TablePaths, hosts: Mapping[str, int]) -> None:
    """Begins to delete a table that ZooKeeper has wrong data of. The disks keep their parts.

    Expects that no replica is active and that ``hosts`` have not changed, so that it is the examined table and not a
    new one. Raises 999 otherwise: try again.
    """
    replicas = [table.replica(name) for name in hosts]
    try:
        keeper.multi(
            [
                *(Check(replica.host, hosts[replica.name]) for replica in replicas),
                *(op for replica in replicas for op in check_not_exists(replica.is_active)),
                SetData(table.root, RETIRED),
                Delete(table.metadata),
            ]
        )
    except MultiFailed as error:
        raise ConflictError("KEEPER_EXCEPTION", f"Others change {table.root}: {error.message}") from error


def clear_retired(keeper: Keeper, table: TablePaths) -> None:
    """Finishes :func:`retire_table`; does nothing to any other table. Raises 999 if others do it too."""
    try:
        data, stat = keeper.get(table.root)
        if data != RETIRED:
            return
        mine = Check(table.root, stat.version)  # a newly created table has version 0
        for name in keeper.children(table.replicas):
            replica = table.replica(name)
            host = keeper.exists(replica.host)
            if host is not None:
                keeper.multi([mine, Delete(replica.host, host.version)])
            remove_dropped_nodes(keeper, replica.root, replica.host, replica.dropped)
        keeper.multi([mine, Delete(table.replicas)])
    except NoNode:
        pass
    except MultiFailed as error:
        raise ConflictError("KEEPER_EXCEPTION", f"Others change {table.root}: {error.message}") from error
    remove_dropped_nodes(keeper, table.root, table.replicas, table.dropped)


# -- parts ------------------------------------------------------------------------------------------------------------


def list_parts(keeper: Keeper, replica: ReplicaPaths, active: Mapping[PartName, PartRecord], now: float) -> RestorePlan:
    """Lists the parts of the disk in ZooKeeper, until the mark is removed.

    ``active``: the active parts on disk. ``now``: seconds since the epoch. Raises 254 (NO_ACTIVE_REPLICAS) while
    another replica is restored first.
    """
    if is_first(keeper, replica):
        _advance_block_numbers(keeper, replica, active)
        _list(keeper, replica, active)
        keeper.multi([SetData(replica.is_lost, b"0"), SetData(replica.log_pointer, b"0"), Delete(replica.restoring)])
        return RestorePlan(sorted(active), [])
    return _list_beside_others(keeper, replica, active, now)


def is_first(keeper: Keeper, replica: ReplicaPaths) -> bool:
    """Tells whether the table takes over all parts of this replica.

    The marks are read first: a replica that has lost its mark by then is seen to be not lost. Raises 254 while another
    replica is the first.
    """
    names = list_registered_replicas(keeper, replica.table)
    replicas = [replica.table.replica(name) for name in names]
    marks = keeper.exists_many([other.restoring for other in replicas])
    lost = keeper.get_many([other.is_lost for other in replicas])
    if any(answer is not None and answer[0] == b"0" for answer in lost):
        return False
    made = {name: stat.created_zxid for name, stat in zip(names, marks, strict=True) if stat is not None}
    first = min(made, key=lambda name: made[name], default=replica.name)
    if first != replica.name:
        raise UnavailableError(
            "NO_ACTIVE_REPLICAS",
            f"Replica {first!r} is being restored first; start its server, or take it away with SYSTEM DROP REPLICA",
        )
    return True


def _advance_block_numbers(keeper: Keeper, replica: ReplicaPaths, active: Mapping[PartName, PartRecord]) -> None:
    """Moves the block numbers of the partitions behind those of all parts and their mutations."""
    last: dict[str, int] = {}
    for part in active:
        last[part.partition_id] = max(last.get(part.partition_id, -1), part.max_block, part.data_version)
    if not last:
        return
    raise_next_first_number(keeper, replica.table, max(last.values()) + 1)
    for partition_id in last:
        create_partition_node(keeper, replica.table, partition_id)
    given = next_numbers(keeper, replica.table, last)
    for partition_id, number in last.items():
        if given[partition_id] <= number:
            lock = allocate_block_number(keeper, replica.table, partition_id, owner=replica.name, minimum=number + 1)
            release_block_number(keeper, lock)  # type: ignore[arg-type]


def _list(keeper: Keeper, replica: ReplicaPaths, parts: Mapping[PartName, PartRecord]) -> None:
    listed = set(keeper.children(replica.parts))
    wanted = [_listing(replica, name, record) for name, record in parts.items() if str(name) not in listed]
    for packet in split_into_multis(wanted, operation_bytes):
        keeper.multi(packet)


def _listing(replica: ReplicaPaths, name: PartName, record: PartRecord) -> Create:
    return Create(replica.part(str(name)), record.to_bytes())


def _list_beside_others(
    keeper: Keeper, replica: ReplicaPaths, active: Mapping[PartName, PartRecord], now: float
) -> RestorePlan:
    mark = keeper.get(replica.restoring)[0].decode()
    if mark == ALL_PARTS:
        _advance_block_numbers(keeper, replica, active)
    # Numbers, then log, queues, lists: what moves on in between is seen in one of two places, or in both.
    committing = read_committing_numbers(keeper, replica.table, sorted({part.partition_id for part in active}))
    log = keeper.get(replica.table.log)[1]
    others = _read_others(keeper, replica, committing)
    own = set(keeper.children(replica.parts))
    plan = plan_restore({name: record.content_hash for name, record in active.items() if str(name) not in own}, others)
    _list(keeper, replica, {name: active[name] for name in plan.agreed})
    if mark == ALL_PARTS:
        _log_unique(keeper, replica, {name: active[name] for name in plan.unique}, log.version, now)
    return plan


def _read_others(keeper: Keeper, replica: ReplicaPaths, committing: Mapping[str, list[int]]) -> Others:
    table = replica.table
    others = [table.replica(name) for name in list_registered_replicas(keeper, table) if name != replica.name]
    log = [f"{table.log}/{name}" for name in keeper.children(table.log)]
    entries = _entries(keeper, replica.table, log)
    queues = keeper.children_many([other.queue for other in others])
    entries += _entries(
        keeper,
        replica.table,
        [other.queue_entry(name) for other, names in zip(others, queues, strict=True) for name in names or ()],
    )
    listings = keeper.children_many([other.parts for other in others])
    pairs = [(name, other.part(name)) for other, names in zip(others, listings, strict=True) for name in names or ()]
    listed: dict[PartName, set[str]] = {}
    for (name, _), answer in zip(pairs, keeper.get_many([path for _, path in pairs]), strict=True):
        if answer is not None:
            listed.setdefault(PartName.parse(name), set()).add(PartRecord.parse(answer[0]).content_hash)
    coming = frozenset(part for entry in entries for part in (*entry.created_parts, *entry.removed_ranges))
    return Others(listed, coming, committing)


def _entries(keeper: Keeper, table: TablePaths, paths: list[str]) -> list[LogEntry]:
    return parse_entries(keeper, table, (answer[0] for answer in keeper.get_many(paths) if answer is not None))


def _log_unique(
    keeper: Keeper, replica: ReplicaPaths, parts: Mapping[PartName, PartRecord], log_version: int, now: float
) -> None:
    """Logs the parts that only this replica has.

    Expects and changes the log's version, so that no merge or drop was chosen that ignores the parts.
    """
    for name, record in parts.items():
        entry = LogEntry(
            EntryType.GET_PART, name, now, replica.name,
            content_hash=record.content_hash, rows=record.rows, size_bytes=record.size_bytes,
        )  # fmt: skip
        ops: list[Op] = [
            SetData(replica.table.log, b"", log_version),
            Create(replica.table.log_prefix, entry.to_bytes(), sequential=True),
            _listing(replica, name, record),
        ]
        try:
            log_version = keeper.multi(ops)[0].version  # type: ignore[union-attr]
        except MultiFailed as error:
            raise ConflictError(
                "KEEPER_EXCEPTION", f"Others merge or drop parts of {replica.table.root} meanwhile; look again"
            ) from error
