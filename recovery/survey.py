"""What ZooKeeper says about one replica's parts: its own list, the other replicas' lists, and its queue. Only reads."""

from __future__ import annotations

from coordination.keeper import Keeper
from coordination.log_entry import EntryType, LogEntry
from coordination.part_record import PartRecord
from coordination.paths import ReplicaPaths
from parts.part_name import PartName
from recovery.startup_check import Survey


def read_survey(keeper: Keeper, replica: ReplicaPaths) -> Survey:
    """Everything the comparison of disk and ZooKeeper needs."""
    queued = _read_queue(keeper, replica)
    return Survey(
        listed=read_part_records(keeper, replica),
        elsewhere=_parts_elsewhere(keeper, replica),
        queued_products=frozenset(part for entry in queued for part in entry.made),
        queued_drops=tuple(gone for entry in queued for gone in entry.gone),
        exchanged={
            part: digest
            for entry in queued
            if entry.type is EntryType.REPLACE_RANGE
            for part, digest in entry.hashes.items()
        },
    )


def read_part_records(keeper: Keeper, replica: ReplicaPaths) -> dict[PartName, PartRecord]:
    """The replica's parts as ZooKeeper lists them. Parts that vanish meanwhile are left out."""
    names = keeper.children(replica.parts)
    answers = keeper.get_many([replica.part(name) for name in names])
    return {
        PartName.parse(name): PartRecord.parse(answer[0])
        for name, answer in zip(names, answers, strict=True)
        if answer is not None
    }


def _parts_elsewhere(keeper: Keeper, replica: ReplicaPaths) -> frozenset[PartName]:
    others = [name for name in keeper.children(replica.table.replicas) if name != replica.name]
    listings = keeper.children_many([replica.table.replica(name).parts for name in others])
    return frozenset(PartName.parse(part) for listing in listings for part in listing or ())


def _read_queue(keeper: Keeper, replica: ReplicaPaths) -> list[LogEntry]:
    answers = keeper.get_many([replica.queue_entry(name) for name in keeper.children(replica.queue)])
    return [LogEntry.parse(answer[0]) for answer in answers if answer is not None]
