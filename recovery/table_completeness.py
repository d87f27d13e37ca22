"""Check that a replica's disk has the whole table, for ATTACH TABLE … AS NOT REPLICATED. Only reads.

All rows must be here, and no other replica may still need rows from this one. Merges that were not executed change no
rows, so they do not count. ClickHouse's ATTACH TABLE … AS NOT REPLICATED checks nothing of this.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from coordination.inserts.quorum import read_unconfirmed_parts
from coordination.keeper.interface import Keeper
from coordination.log.log_entry import EntryType, LogEntry
from coordination.log.part_set import PartSet
from coordination.merges_mutations.mutation_nodes import KnownMutations
from coordination.nodes.list_nodes import parse_entries
from coordination.nodes.paths import ReplicaPaths, parse_sequence_number
from coordination.nodes.replica_positions import read_replica_positions
from coordination.replicas.clone import needs_clone
from parts.common.part_name import PartName
from recovery.startup_plan import PartOnDisk, plan_startup
from recovery.zookeeper_parts import read_part_records, read_zookeeper_parts

_OR_DROP = " (if it is gone for good: SYSTEM DROP REPLICA '{}')"


def why_table_is_incomplete(
    keeper: Keeper, replica: ReplicaPaths, on_disk: Mapping[PartName, PartOnDisk], identity: str
) -> str:
    """Returns why the disk is not the whole table, ``""`` if it is.

    ``on_disk``: the parts that are active or covered. ``identity``: the random text kept with them.
    """
    keeper.sync(replica.table.root)
    if keeper.exists(replica.host) is None:
        return ""  # ZooKeeper knows nothing of it: the disk is all there is
    if keeper.exists(replica.is_active) is not None:
        return f"replica {replica.root} is active on another server, or its session has not timed out yet"
    mark, known, pointer = keeper.get_many([replica.restoring, replica.identity, replica.log_pointer])
    is_own = known is not None and identity and known[0].decode().split(" ")[0] == identity
    if mark is not None and is_own and pointer is not None and not pointer[0]:
        return ""  # its parts are being listed: none was moved or fetched yet
    if needs_clone(keeper, replica):
        return "the replica has not cloned the others' parts yet"
    return _why_not_here(keeper, replica, on_disk) or _why_others_need_it(keeper, replica)


def _why_not_here(keeper: Keeper, replica: ReplicaPaths, on_disk: Mapping[PartName, PartOnDisk]) -> str:
    plan = plan_startup(on_disk, read_zookeeper_parts(keeper, replica), max_ratio_of_wrong_parts=1.0, force=True)
    if plan.fetch:
        return f"part {plan.fetch[0]} is not here, or has other rows than ZooKeeper says"
    if plan.unexpected:
        return f"part {plan.unexpected[0]} is here, and ZooKeeper does not list it"
    here = PartSet(plan.keep)
    for entry in _read_pending_entries(keeper, replica):
        is_made = entry.type is EntryType.MERGE_PARTS or all(
            here.find_covering(part) is not None for part in entry.created_parts
        )
        if not is_made or any(gone.covers(part) for gone in entry.removed_ranges for part in plan.keep):
            return f"{entry.type.value} of {_part_of(entry)} is not carried out here"
    for mutation in KnownMutations(replica.table).load(keeper).mutations:
        if left := mutation.list_parts_to_change(plan.keep):
            return f"mutation {mutation.mutation_id} is to be carried out on part {left[0]}"
    if unsettled := sorted(read_unconfirmed_parts(keeper, replica.table).intersection(plan.keep)):
        return f"the quorum of part {unsettled[0]} is not settled"
    return ""


def _why_others_need_it(keeper: Keeper, replica: ReplicaPaths) -> str:
    """Returns that another replica must still fetch a part that only this one has, or ``""``."""
    others = [position for position in read_replica_positions(keeper, replica.table) if position.name != replica.name]
    if not others:
        return ""
    if all(position.is_lost or position.pointer is None for position in others):
        return f"replica {others[0].name} has not cloned this one's parts yet{_OR_DROP.format(others[0].name)}"
    elsewhere = PartSet()
    for position in others:
        for part in read_part_records(keeper, replica.table.replica(position.name)):
            elsewhere.add(part)
    for position in others:
        for entry in _read_pending_entries(keeper, replica.table.replica(position.name)):
            needed = () if entry.source_parts else entry.created_parts
            missing = next((part for part in needed if elsewhere.find_covering(part) is None), None)
            if missing is not None:
                name = position.name
                return f"replica {name} has not fetched part {missing} from here yet{_OR_DROP.format(name)}"
    return ""


def _read_pending_entries(keeper: Keeper, replica: ReplicaPaths) -> Iterator[LogEntry]:
    """Yields the entries that the replica has not executed: the log behind its pointer, and its queue.

    The log is read first: an entry that is pulled meanwhile is then seen at least once.
    """
    pointer = int(keeper.get(replica.log_pointer)[0] or 0)
    log = replica.table.log
    names = [name for name in keeper.children(log) if parse_sequence_number(name) >= pointer]
    paths = [f"{log}/{name}" for name in names]
    paths += [replica.queue_entry(name) for name in keeper.children(replica.queue)]
    yield from parse_entries(keeper, replica.table, (a[0] for a in keeper.get_many(paths) if a is not None))


def _part_of(entry: LogEntry) -> str:
    return str(next(iter((*entry.created_parts, *entry.removed_ranges)), ""))
