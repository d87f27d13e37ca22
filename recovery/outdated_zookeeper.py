"""Finds out that ZooKeeper is from the past: restored from an older snapshot, or with part of its data lost.

Then rows that were acknowledged are not listed. A replica that believed the list would move them to ``detached/``, and
so would every other one. Each of three signs proves that ZooKeeper is from the past:

1. A part on this disk has a block number, or went through a mutation of a number, that ZooKeeper has not given yet.
   Numbers only grow.
2. A part that was inserted, and that is not listed for this replica, is listed for another one with other content. A
   number is given once.
3. A part that nobody lists, and nothing in the queue explains, is active on another replica too, with the same content.
   A part comes to a second replica only after it was committed. Their disks are not in ZooKeeper, so they are asked.

What an INSERT leaves that a crash interrupted shows none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from coordination.inserts.partition_nodes import next_numbers
from coordination.keeper.interface import Keeper
from coordination.nodes.paths import ReplicaPaths
from parts.common.part_name import PartName
from recovery.startup_plan import PartOnDisk, ZooKeeperParts, plan_startup
from recovery.zookeeper_parts import contents_elsewhere, read_zookeeper_parts

Ask = Callable[[Collection[PartName]], Mapping[PartName, Collection[str]]]
"""Part names → content hashes of those that are active on other replicas."""


def find_forgotten(
    keeper: Keeper, replica: ReplicaPaths, on_disk: Mapping[PartName, PartOnDisk], ask: Ask
) -> list[PartName]:
    """Parts on the disk that prove that ZooKeeper is from the past, sorted; empty when none does."""
    if not on_disk:
        return []
    if found := beyond(on_disk, next_numbers(keeper, replica.table, {part.partition_id for part in on_disk})):
        return found
    (names,) = keeper.children_many([replica.parts])
    if names is None or on_disk.keys() <= {PartName.parse(name) for name in names}:
        return []  # a replica that is not there at all is another matter
    survey = read_zookeeper_parts(keeper, replica)
    suspects = unexplained(on_disk, survey)
    if found := contradicted(on_disk, contents_elsewhere(keeper, replica, suspects & survey.elsewhere)):
        return found
    unlisted = suspects - survey.elsewhere
    return confirmed({name: on_disk[name] for name in unlisted}, ask(unlisted)) if unlisted else []


def beyond(on_disk: Collection[PartName], next_numbers: Mapping[str, int]) -> list[PartName]:
    """The first sign. ``next_numbers``: what each partition gives next."""
    return sorted(part for part in on_disk if max(part.max_block, part.data_version) >= next_numbers[part.partition_id])


def unexplained(on_disk: Mapping[PartName, PartOnDisk], survey: ZooKeeperParts) -> set[PartName]:
    """What is on the disk though it is not listed, and neither a listed part nor the queue says why."""
    unexpected = plan_startup(on_disk, survey, max_ratio_of_wrong_parts=1.0, force=True).unexpected
    return set(unexpected) - survey.queued_products


def contradicted(
    on_disk: Mapping[PartName, PartOnDisk], listed_elsewhere: Mapping[PartName, Collection[str]]
) -> list[PartName]:
    """The second sign. A merge or a mutation may be made twice, an inserted part may not."""
    return sorted(
        part
        for part, hashes in listed_elsewhere.items()
        if part.level == 0 and not part.mutation and on_disk[part].content_hash not in hashes
    )


def confirmed(
    on_disk: Mapping[PartName, PartOnDisk], held_elsewhere: Mapping[PartName, Collection[str]]
) -> list[PartName]:
    """The third sign."""
    return sorted(part for part, disk in on_disk.items() if disk.content_hash in held_elsewhere.get(part, ()))


def refusal(
    table: str, replica: ReplicaPaths, forgotten: Collection[PartName], on_disk: Mapping[PartName, PartOnDisk]
) -> str:
    """What the operator is told. ``table``: the name for SYSTEM commands; ``forgotten``: not empty."""
    rows = sum(on_disk[part].rows for part in forgotten)
    return (
        f"ZooKeeper is from the past: {len(forgotten)} parts with {rows} rows on this disk were committed, and "
        f"{replica.table.root} knows nothing of them (the first is {min(forgotten)}). It was restored from an older "
        "snapshot, or lost data. Nothing was changed. If ZooKeeper cannot get its latest data back, run SYSTEM RESTORE "
        f"REPLICA {table} on every replica: it writes down anew what the disks have. Do not use force_restore_data: it "
        "would move these parts to detached/"
    )
