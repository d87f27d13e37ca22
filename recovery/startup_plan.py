"""Compare the parts on disk with those ZooKeeper lists for this replica, and plan what to do. No I/O.

Only names and content hashes are compared. The outcome for a part:

=====================================================  ============================================================
in ZooKeeper and on disk, same hash                    keep;
in ZooKeeper, not on disk                              fetch: leave ZooKeeper's list, queue a fetch; if another listed
                                                       part or a queued drop covers it, only leave the list;
on disk with another hash than ZooKeeper's             detach as ``broken``, and as above;
on disk only, covered by a part in ZooKeeper           drop: it was merged away, the cover has its rows;
on disk only, covered by a drop in the own queue       leave: carrying out the drop removes it;
on disk only, put there by an exchange in the queue    leave: carrying out the rest of it lists the part;
on disk only, and another replica lists it with the    list: it was committed, and ZooKeeper was put back since to an;
same hash                                              older snapshot, in which the same INSERTs were repeated, say;
                                                       not beside parts on disk only that nothing explains;
on disk only, none of these                            detach as ``ignored`` (an INSERT that was never acknowledged,
                                                       a merge or fetch cut short, or something worse).
=====================================================  ============================================================

Suspicious rows are those of missing, differing and ignored parts. What a crash may leave is not suspicious: the result
of an entry of the own queue, or a part of level 0 that no replica lists, up to ``MAX_INTERRUPTED_INSERTS`` of them. A
disk with no part at all is a new disk. Then missing parts that another replica has are not suspicious either, and the
replica starts again from the others.

Source of the rules: ClickHouse documentation, "Data Replication: Recovery After Failures".
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from coordination.nodes.part_record import PartRecord
from parts.common.part_name import PartName, select_not_covered

MAX_INTERRUPTED_INSERTS = 100


@dataclass(frozen=True)
class PartOnDisk:
    """The rows and content of a part on disk, covered or not. Dropped parts do not count."""

    rows: int
    content_hash: str


@dataclass(frozen=True)
class ZooKeeperParts:
    """This replica's list of parts and queue in ZooKeeper, and the parts that other replicas list."""

    listed: Mapping[PartName, PartRecord]
    on_other_replicas: frozenset[PartName] = frozenset()
    queued_products: frozenset[PartName] = frozenset()
    queued_drops: tuple[PartName, ...] = ()
    replacement_hashes: Mapping[PartName, str] = field(default_factory=dict)
    """Content hashes of parts that queued REPLACE_RANGE entries add: such parts are on disk before they are listed."""
    hashes_on_other_replicas: Mapping[PartName, Collection[str]] = field(default_factory=dict)
    """Content hashes of parts of ``on_other_replicas``, as far as they were read."""

    def is_on_other_replica(self, name: PartName) -> bool:
        """Tells whether another replica lists the part or one that covers it."""
        return name in self.on_other_replicas or any(other.covers(name) for other in self.on_other_replicas)

    @cached_property
    def _drops_by_partition(self) -> Mapping[str, Sequence[PartName]]:
        drops: dict[str, list[PartName]] = {}
        for drop in self.queued_drops:
            drops.setdefault(drop.partition_id, []).append(drop)
        return drops

    def is_dropped(self, name: PartName) -> bool:
        """Tells whether a queued drop covers the part."""
        return any(drop.covers(name) for drop in self._drops_by_partition.get(name.partition_id, ()))


@dataclass
class StartupPlan:
    """The parts by what to do with them, sorted. ``refusal``: why force is needed, or ``""``."""

    keep: list[PartName] = field(default_factory=list)
    """Active parts, and outdated parts whose cover is missing: they become active again."""
    fetch: list[PartName] = field(default_factory=list)
    unlist: list[PartName] = field(default_factory=list)
    """Listed, not on disk, and not needed: a listed part covers them, or they are about to be dropped."""
    different_content: list[PartName] = field(default_factory=list)
    """On disk with other content than ZooKeeper lists."""
    covered: list[PartName] = field(default_factory=list)
    agreed: list[PartName] = field(default_factory=list)
    """On disk, not listed for this replica, and listed by another one with the same content."""
    unexpected: list[PartName] = field(default_factory=list)
    suspicious_rows: int = 0
    total_rows: int = 0
    refusal: str = ""

    @property
    def is_clean(self) -> bool:
        """Whether nothing has to be repaired."""
        return not (self.fetch or self.different_content or self.covered or self.agreed or self.unexpected)


def plan_startup(
    on_disk: Mapping[PartName, PartOnDisk],
    survey: ZooKeeperParts,
    *,
    max_ratio_of_wrong_parts: float,
    force: bool = False,
) -> StartupPlan:
    """Returns the plan for a disk. With ``force`` it has no refusal."""
    plan = StartupPlan()
    missing_rows = _judge_listed(plan, on_disk, survey)
    ignored_rows = _judge_unlisted(plan, on_disk, survey)
    if plan.agreed and not survey.queued_products.issuperset(plan.unexpected):
        # ZooKeeper has lost committed parts, so an unlisted part may be more than an interrupted INSERT.
        cautious = replace(survey, hashes_on_other_replicas={})
        return plan_startup(on_disk, cautious, max_ratio_of_wrong_parts=max_ratio_of_wrong_parts, force=force)
    needed = select_not_covered(survey.listed)
    plan.suspicious_rows = missing_rows + ignored_rows
    plan.total_rows = sum(survey.listed[name].rows for name in needed) + ignored_rows
    if not force and plan.suspicious_rows > max_ratio_of_wrong_parts * plan.total_rows:
        plan.refusal = _refusal(plan, max_ratio_of_wrong_parts)
    return plan


def _judge_listed(plan: StartupPlan, on_disk: Mapping[PartName, PartOnDisk], survey: ZooKeeperParts) -> int:
    """Sorts the listed parts into the plan. Returns the suspicious rows of missing and differing ones."""
    matching = set()
    for name, record in survey.listed.items():
        disk = on_disk.get(name)
        if disk is not None and disk.content_hash == record.content_hash:
            matching.add(name)
        elif disk is not None:
            plan.different_content.append(name)
    plan.keep = select_not_covered(matching)
    needed = set(select_not_covered(survey.listed))
    suspicious = 0
    for name in sorted(survey.listed.keys() - matching):
        if name not in needed or survey.is_dropped(name):
            plan.unlist.append(name)  # a fetch after a queued drop would restore dropped rows
            continue
        plan.fetch.append(name)
        if on_disk or not survey.is_on_other_replica(name):
            suspicious += survey.listed[name].rows
    plan.different_content.sort()
    return suspicious


def _judge_unlisted(plan: StartupPlan, on_disk: Mapping[PartName, PartOnDisk], survey: ZooKeeperParts) -> int:
    """Sorts the unlisted parts into the plan. Returns the suspicious rows of unexpected ones."""
    suspicious, interrupted = 0, 0
    for name, disk in sorted(on_disk.items()):
        if name in survey.listed or survey.is_dropped(name):
            continue
        if survey.replacement_hashes.get(name) == disk.content_hash:
            continue
        if name.level and any(name.covers(part) for part in survey.replacement_hashes):
            continue  # it came in place of that part: only the exchange adds a cover of it
        if any(other.covers(name) for other in survey.listed):
            plan.covered.append(name)
            continue
        if name not in survey.queued_products and disk.content_hash in survey.hashes_on_other_replicas.get(name, ()):
            plan.agreed.append(name)
            continue
        plan.unexpected.append(name)
        if name in survey.queued_products:
            continue
        # Only its own name on another list proves that it was committed: merges reach over unused block numbers.
        was_committed = name in survey.on_other_replicas
        if name.level == 0 and not was_committed and interrupted < MAX_INTERRUPTED_INSERTS:
            interrupted += 1
        else:
            suspicious += disk.rows
    return suspicious


def _refusal(plan: StartupPlan, ratio: float) -> str:
    differing = [name for name in plan.different_content if name in plan.fetch]
    return (
        "The local set of parts doesn't look like the set of parts in ZooKeeper: "
        f"{plan.suspicious_rows} of {plan.total_rows} rows are suspicious "
        f"(more than replicated_max_ratio_of_wrong_parts = {ratio}): "
        f"{len(plan.fetch) - len(differing)} parts are missing, {len(differing)} differ, "
        f"{len(plan.unexpected)} are unexpected. Nothing was changed. Check the disk; "
        "then restore from the other replicas with the flag force_restore_data"
    )
