"""Compares the parts on disk with those ZooKeeper lists for this replica, and says what to do. Pure: no I/O.

Names and content hashes are compared, nothing is read. The outcome for a part:

=====================================================  ============================================================
in ZooKeeper and on disk, same hash                    keep
in ZooKeeper, not on disk                              fetch: leave ZooKeeper's list, queue a fetch; if another listed
                                                       part or a queued drop covers it, only leave the list
on disk with another hash than ZooKeeper's             detach as ``broken``, and as above
on disk only, covered by a part in ZooKeeper           drop: it was merged away, the cover has its rows
on disk only, covered by a drop in the own queue       leave: carrying out the drop removes it
on disk only, put there by an exchange in the queue    leave: carrying out the rest of it lists the part
on disk only, none of these                            detach as ``ignored`` (an INSERT that was never acknowledged,
                                                       a merge or fetch cut short, or something worse)
=====================================================  ============================================================

Suspicious rows are those of missing, differing and ignored parts. What a crash leaves behind is not suspicious: the
product of an entry of the own queue, or a part of level 0 that no replica lists, up to ``MAX_INTERRUPTED_INSERTS`` of
them. A disk with no part at all is a new disk: missing parts that another replica has are then not suspicious either,
and the replica starts afresh from the others.

Source of the rules: ClickHouse documentation, "Data Replication: Recovery After Failures".
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from coordination.part_record import PartRecord
from parts.part_name import PartName

MAX_INTERRUPTED_INSERTS = 100


@dataclass(frozen=True)
class PartOnDisk:
    """What the check needs to know of a part that is on disk, covered or not; dropped parts do not count."""

    rows: int
    content_hash: str


@dataclass(frozen=True)
class Survey:
    """What ZooKeeper holds: this replica's list of parts and queue, the parts on the lists of others."""

    listed: Mapping[PartName, PartRecord]
    elsewhere: frozenset[PartName] = frozenset()
    queued_products: frozenset[PartName] = frozenset()
    queued_drops: tuple[PartName, ...] = ()
    exchanged: Mapping[PartName, str] = field(default_factory=dict)
    """Content hashes of what queued exchanges of parts (REPLACE_RANGE) bring: they come to the disk first."""


@dataclass
class StartupPlan:
    """What to do. Lists are sorted. ``refusal`` is why nothing may be done without force, or ``""``."""

    keep: list[PartName] = field(default_factory=list)
    """Active parts, and parts outdated on disk whose cover is not there: active again."""
    fetch: list[PartName] = field(default_factory=list)
    forget: list[PartName] = field(default_factory=list)
    """Listed, not on disk, and not needed: a listed part covers them, or they are about to be dropped."""
    differing: list[PartName] = field(default_factory=list)
    """On disk with another content than ZooKeeper says."""
    covered: list[PartName] = field(default_factory=list)
    unexpected: list[PartName] = field(default_factory=list)
    suspicious_rows: int = 0
    total_rows: int = 0
    refusal: str = ""

    @property
    def is_clean(self) -> bool:
        return not (self.fetch or self.differing or self.covered or self.unexpected)


def plan_startup(
    on_disk: Mapping[PartName, PartOnDisk],
    survey: Survey,
    *,
    max_ratio_of_wrong_parts: float,
    force: bool = False,
) -> StartupPlan:
    """The plan for a disk; with ``force`` it has no refusal."""
    plan = StartupPlan()
    missing_rows = _judge_listed(plan, on_disk, survey)
    ignored_rows = _judge_unlisted(plan, on_disk, survey)
    needed = _not_covered(survey.listed)
    plan.suspicious_rows = missing_rows + ignored_rows
    plan.total_rows = sum(survey.listed[name].rows for name in needed) + ignored_rows
    if not force and plan.suspicious_rows > max_ratio_of_wrong_parts * plan.total_rows:
        plan.refusal = _refusal(plan, max_ratio_of_wrong_parts)
    return plan


def _judge_listed(plan: StartupPlan, on_disk: Mapping[PartName, PartOnDisk], survey: Survey) -> int:
    """Returns the suspicious rows among missing and differing parts."""
    matching = set()
    for name, record in survey.listed.items():
        disk = on_disk.get(name)
        if disk is not None and disk.content_hash == record.content_hash:
            matching.add(name)
        elif disk is not None:
            plan.differing.append(name)
    plan.keep = _not_covered(matching)
    needed = set(_not_covered(survey.listed))
    suspicious = 0
    for name in sorted(survey.listed.keys() - matching):
        if name not in needed or any(drop.covers(name) for drop in survey.queued_drops):
            plan.forget.append(name)  # fetched behind a queued drop, it would come back
            continue
        plan.fetch.append(name)
        is_elsewhere = any(other.covers(name) for other in survey.elsewhere)
        if on_disk or not is_elsewhere:
            suspicious += survey.listed[name].rows
    plan.differing.sort()
    return suspicious


def _judge_unlisted(plan: StartupPlan, on_disk: Mapping[PartName, PartOnDisk], survey: Survey) -> int:
    """Returns the suspicious rows among unexpected parts."""
    suspicious, interrupted = 0, 0
    for name, disk in sorted(on_disk.items()):
        if name in survey.listed or any(drop.covers(name) for drop in survey.queued_drops):
            continue
        if survey.exchanged.get(name) == disk.content_hash:
            continue
        if name.level and any(name.covers(part) for part in survey.exchanged):
            continue  # it came instead of that part: nothing but the exchange brings what covers it
        if any(other.covers(name) for other in survey.listed):
            plan.covered.append(name)
            continue
        plan.unexpected.append(name)
        if name in survey.queued_products:
            continue
        # Only its own name on another list proves that it was committed: merges reach over unused block numbers.
        was_committed = name in survey.elsewhere
        if name.level == 0 and not was_committed and interrupted < MAX_INTERRUPTED_INSERTS:
            interrupted += 1
        else:
            suspicious += disk.rows
    return suspicious


def _not_covered(names: Collection[PartName]) -> list[PartName]:
    """The names that no other of them covers, sorted."""
    found: list[PartName] = []
    # A cover comes first: it begins no later, ends no earlier, and its level is higher.
    for name in sorted(names, key=lambda n: (n.partition_id, n.min_block, -n.max_block, -n.level, -n.mutation)):
        if not (found and found[-1].covers(name)):
            found.append(name)
    return found


def _refusal(plan: StartupPlan, ratio: float) -> str:
    differing = [name for name in plan.differing if name in plan.fetch]
    return (
        "The local set of parts doesn't look like the set of parts in ZooKeeper: "
        f"{plan.suspicious_rows} of {plan.total_rows} rows are suspicious "
        f"(more than replicated_max_ratio_of_wrong_parts = {ratio}): "
        f"{len(plan.fetch) - len(differing)} parts are missing, {len(differing)} differ, "
        f"{len(plan.unexpected)} are unexpected. Nothing was changed. Check the disk; "
        "then restore from the other replicas with the flag force_restore_data"
    )
