"""``select_sequential_consistency``: a read shows what quorums have confirmed, all of it and nothing else.

Code 289: this replica lacks a confirmed part.
"""

from __future__ import annotations

from collections.abc import Callable

from coordination.keeper import Keeper
from coordination.log_entry import LogEntry
from coordination.paths import ReplicaPaths, sequence_number
from coordination.quorum import parse_last_parts, unconfirmed_parts
from parts.errors import UnavailableError
from parts.part_name import PartName


def sequential_hidden_parts(
    keeper: Keeper, replica: ReplicaPaths, is_held: Callable[[PartName], bool]
) -> frozenset[PartName]:
    """For ``select_sequential_consistency``: the parts that the read must not show.

    Take the snapshot of local parts first, then call this; ``is_held`` says whether the snapshot has the part or one
    that covers it. Raises 289 when a confirmed part is missing from the snapshot: it lies in this replica's queue, in
    the log beyond what the replica has pulled, or is the last confirmed one of its partition.
    """
    table = replica.table
    keeper.sync(table.root)
    last, _ = keeper.get(table.quorum_last_part)
    missing = [part for part in _quorum_parts_ahead(keeper, replica) if not is_held(part)]
    missing += [part for part in map(PartName.parse, parse_last_parts(last).values()) if not is_held(part)]
    # What is pending after the list of missing parts was made was not confirmed when the read began, or is now.
    hidden = unconfirmed_parts(keeper, table)
    unmet = sorted(part for part in missing if part not in hidden)
    if unmet:
        raise UnavailableError(
            "REPLICA_IS_NOT_IN_QUORUM",
            f"Replica {replica.name} does not have part {unmet[0]} that was written with quorum; read another replica "
            "or wait until this one has caught up",
        )
    return hidden


def _quorum_parts_ahead(keeper: Keeper, replica: ReplicaPaths) -> list[PartName]:
    """Confirmed parts of entries that this replica has not executed, dropped ones left out."""
    queued = [replica.queue_entry(name) for name in keeper.children(replica.queue)]
    pointer = int(keeper.get(replica.log_pointer)[0] or b"0")
    log = replica.table.log
    logged = [f"{log}/{name}" for name in keeper.children(log) if sequence_number(name) >= pointer]
    ahead: list[PartName] = []
    for answer in keeper.get_many([*queued, *logged]):
        entry = LogEntry.parse(answer[0]) if answer is not None else None
        if entry is None:
            continue
        for gone in entry.gone:
            ahead = [part for part in ahead if not gone.covers(part)]
        if entry.quorum >= 2 or entry.is_restored:
            ahead += entry.made
    return ahead
