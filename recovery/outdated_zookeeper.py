"""Detect an outdated ZooKeeper: restored from an older snapshot, or with part of its data lost.

Then acknowledged rows are not listed. A replica that trusted the list would move them to ``detached/``, and so would
every other one. Each of three signs proves that ZooKeeper is outdated:

1. A part on this disk has a block number, or went through a mutation of a number, that ZooKeeper has not given yet.
   Numbers only grow.
2. An inserted part that is not listed for this replica is listed for another one with other content. A number is given
   only once.
3. A part that nobody lists, and nothing in the queue explains, is active on another replica too, with the same content.
   A part comes to a second replica only after it was committed. Other replicas' disks are not in ZooKeeper, so the
   replicas are asked.

The remains of an INSERT that a crash interrupted show none of these signs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from coordination.inserts.partition_nodes import next_numbers
from coordination.keeper.interface import Keeper
from coordination.nodes.paths import ReplicaPaths
from parts.common.part_name import PartName
from recovery.startup_plan import PartOnDisk, ZooKeeperParts, plan_startup
from recovery.zookeeper_parts import read_hashes_elsewhere, read_zookeeper_parts

Ask = Callable[[Collection[PartName]], Mapping[PartName, Collection[str]]]
"""Returns for the parts that are active on other replicas their content hashes there."""


def find_forgotten(
    keeper: Keeper, replica: ReplicaPaths, on_disk: Mapping[PartName, PartOnDisk], ask: Ask
) -> list[PartName]:
    """Returns the parts on disk that prove that ZooKeeper is outdated, sorted; empty if none does."""
    if not on_disk:
        return []
    if found := find_parts_beyond_counters(
        on_disk, next_numbers(keeper, replica.table, {part.partition_id for part in on_disk})
    ):
        return found
    (names,) = keeper.children_many([replica.parts])
    if names is None or on_disk.keys() <= {PartName.parse(name) for name in names}:
        return []  # the replica is not registered, which is handled elsewhere
    survey = read_zookeeper_parts(keeper, replica)
    suspects = find_unexplained_parts(on_disk, survey)
    if found := find_contradicted_parts(
        on_disk, read_hashes_elsewhere(keeper, replica, suspects & survey.on_other_replicas)
    ):
        return found
    unlisted = suspects - survey.on_other_replicas
    return find_confirmed_parts({name: on_disk[name] for name in unlisted}, ask(unlisted)) if unlisted else []


def find_parts_beyond_counters(on_disk: Collection[PartName], next_numbers: Mapping[str, int]) -> list[PartName]:
    """Returns the parts that show the first sign.

    ``next_numbers``: the next block number of each partition.
    """
    return sorted(part for part in on_disk if max(part.max_block, part.data_version) >= next_numbers[part.partition_id])


def find_unexplained_parts(on_disk: Mapping[PartName, PartOnDisk], survey: ZooKeeperParts) -> set[PartName]:
    """Returns the parts on disk that are not listed, and that no listed part or queue entry explains."""
    unexpected = plan_startup(on_disk, survey, max_ratio_of_wrong_parts=1.0, force=True).unexpected
    return set(unexpected) - survey.queued_products


def find_contradicted_parts(
    on_disk: Mapping[PartName, PartOnDisk], listed_elsewhere: Mapping[PartName, Collection[str]]
) -> list[PartName]:
    """Returns the parts that show the second sign.

    A merge or a mutation may be made twice, an inserted part may not.
    """
    return sorted(
        part
        for part, hashes in listed_elsewhere.items()
        if part.level == 0 and not part.mutation and on_disk[part].content_hash not in hashes
    )


def find_confirmed_parts(
    on_disk: Mapping[PartName, PartOnDisk], held_elsewhere: Mapping[PartName, Collection[str]]
) -> list[PartName]:
    """Returns the parts that show the third sign."""
    return sorted(part for part, disk in on_disk.items() if disk.content_hash in held_elsewhere.get(part, ()))


def format_refusal(
    table: str, replica: ReplicaPaths, forgotten: Collection[PartName], on_disk: Mapping[PartName, PartOnDisk]
) -> str:
    """Returns the message for the operator. ``table``: the name for SYSTEM commands."""
    rows = sum(on_disk[part].rows for part in forgotten)
    return (
        f"ZooKeeper is from the past: {len(forgotten)} parts with {rows} rows on this disk were committed, and "
        f"{replica.table.root} knows nothing of them (the first is {min(forgotten)}). It was restored from an older "
        "snapshot, or lost data. Nothing was changed. If ZooKeeper cannot get its latest data back, run SYSTEM RESTORE "
        f"REPLICA {table} on every replica: it writes down anew what the disks have. Do not use force_restore_data: it "
        "would move these parts to detached/"
    )
