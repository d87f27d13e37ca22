"""Read a replica's part list, its queue and the other replicas' part lists from ZooKeeper."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from coordination.keeper.interface import Keeper
from coordination.log.log_entry import EntryType, LogEntry
from coordination.nodes.list_nodes import parse_entries
from coordination.nodes.part_record import PartRecord
from coordination.nodes.paths import ReplicaPaths
from parts.common.part_name import PartName
from recovery.startup_plan import PartOnDisk, ZooKeeperParts, plan_startup


def read_zookeeper_parts(keeper: Keeper, replica: ReplicaPaths) -> ZooKeeperParts:
    """Reads everything that the comparison of disk and ZooKeeper needs."""
    queued = _read_queue(keeper, replica)
    return ZooKeeperParts(
        listed=read_part_records(keeper, replica),
        on_other_replicas=_parts_elsewhere(keeper, replica),
        queued_products=frozenset(part for entry in queued for part in entry.created_parts),
        queued_drops=tuple(gone for entry in queued for gone in entry.removed_ranges),
        replacement_hashes={
            part: digest
            for entry in queued
            if entry.type is EntryType.REPLACE_RANGE
            for part, digest in entry.content_hashes.items()
        },
    )


def add_hashes_elsewhere(
    keeper: Keeper, replica: ReplicaPaths, survey: ZooKeeperParts, on_disk: Mapping[PartName, PartOnDisk]
) -> ZooKeeperParts:
    """Adds the content hashes that other replicas list for unexplained parts on disk."""
    unexpected = plan_startup(on_disk, survey, max_ratio_of_wrong_parts=1.0, force=True).unexpected
    asked = survey.on_other_replicas.intersection(unexpected)
    return replace(survey, hashes_on_other_replicas=read_hashes_elsewhere(keeper, replica, asked)) if asked else survey


def read_hashes_elsewhere(
    keeper: Keeper, replica: ReplicaPaths, parts: Collection[PartName]
) -> dict[PartName, set[str]]:
    """Returns the content hashes with which other replicas list the parts."""
    others = [name for name in keeper.children(replica.table.replicas) if name != replica.name]
    pairs = [(part, replica.table.replica(name).part(str(part))) for part in sorted(parts) for name in others]
    found: dict[PartName, set[str]] = {}
    for (part, _), answer in zip(pairs, keeper.get_many([path for _, path in pairs]), strict=True):
        if answer is not None:
            found.setdefault(part, set()).add(PartRecord.parse(answer[0]).content_hash)
    return found


def read_part_records(keeper: Keeper, replica: ReplicaPaths) -> dict[PartName, PartRecord]:
    """Returns the replica's parts as ZooKeeper lists them, without those that vanish meanwhile."""
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
    return parse_entries(keeper, replica.table, (answer[0] for answer in answers if answer is not None))
