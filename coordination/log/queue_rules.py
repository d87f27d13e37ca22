"""Decide whether a queued entry may run now, and otherwise what it must wait for. No I/O, no changes."""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from coordination.log.log_entry import EntryType, LogEntry
from coordination.log.queue_index import QueueIndex, QueueItem
from parts.common.part_name import PartName

FETCH_SLOT, MERGE_SLOT, NEVER = "a fetch slot", "a merge slot", "never"


def merge_size_key(size: int) -> tuple[str, int]:
    """Returns the key on which a merge too large for the free slots is parked."""
    return ("size", size)


def metadata_version_key(version: int) -> tuple[str, int]:
    """Returns the key on which an entry is parked that needs a later definition of the table."""
    return ("definition", version)


class ActionKind(Enum):
    """The kinds of work by which an entry is executed."""

    FETCH = "fetch the part from a replica that has it"
    MERGE = "merge the sources"
    MUTATE = "mutate the source"
    DROP_RANGE = "drop the parts of the range"
    REPLACE = "bring the parts that come, then exchange them for those that go"
    SKIP = "nothing to do: remove the entry"


@dataclass(frozen=True, slots=True)
class Action:
    """An entry that may run now, and how."""

    kind: ActionKind
    name: str
    """The entry's node in the queue."""
    entry: LogEntry
    reason: str = ""


_SMALL_BYTES = 256 * 1024


def is_small_insert(entry: LogEntry) -> bool:
    """Tells whether the entry's part may be fetched together with others from the same replica."""
    return entry.type is EntryType.GET_PART and entry.quorum < 2 and 0 < entry.size_bytes <= _SMALL_BYTES


def find_removal_kind(entry: LogEntry) -> ActionKind:
    """Returns the kind of action for an entry that drops or replaces parts."""
    return ActionKind.REPLACE if entry.type is EntryType.REPLACE_RANGE else ActionKind.DROP_RANGE


@dataclass(frozen=True, slots=True)
class PoolLimits:
    """The free capacity of the pools, and the settings that decide between merging and fetching."""

    free_merge_slots: int
    free_fetch_slots: int
    max_merge_bytes: int
    """Larger merges (in source bytes) wait until more slots are free."""
    always_fetch_merged_part: bool = False
    prefer_fetch_seconds: float = 3600.0
    prefer_fetch_bytes: int = 10 * 1024**3
    metadata_version: int = 0
    """Version of the definition that this replica has applied."""

    def allow(self, key: Hashable) -> bool:
        """Tells whether entries parked on the key may be examined again."""
        if not isinstance(key, tuple):
            return False
        what, least = key
        if what == "size":
            return self.free_merge_slots > 0 and least <= self.max_merge_bytes
        return what == "definition" and least <= self.metadata_version


class LocalParts(Protocol):
    """The replica's active parts, as the queue asks for them. Must not block."""

    def covering_active(self, part: PartName) -> PartName | None:
        """Returns the active part that covers ``part``, or is ``part``."""

    def size_bytes(self, part: PartName) -> int:
        """Returns the size of an active part."""


@dataclass(frozen=True, slots=True)
class EntryWait:
    """The reason why an entry may not run now, and the key on which it is parked until then."""

    reason: str
    key: Hashable
    until: float = math.inf


@dataclass(frozen=True, slots=True)
class QueueRules:
    """The rules applied to one state of the queue.

    ``inserting``: this replica's own INSERTs between their commit and their activation. ``now`` is monotonic.
    """

    replica_name: str
    index: QueueIndex
    inserting: Collection[PartName]
    now: float
    shows_cuts: bool = False
    """Queries read the parts of a cut, held since. So a mutation may go before batches, whose cut may wait for it."""

    def decide(self, item: QueueItem, local: LocalParts, limits: PoolLimits) -> Action | EntryWait:
        """Returns how to execute the entry now, or why it must wait."""
        entry = item.entry
        if entry.type is EntryType.REPLACE_RANGE:
            return self._judge_replacement(item, local, limits)
        if entry.new_part is None:
            return EntryWait(
                f"Not executing log entry {item.name} of type {entry.type.value}: it is not supported", NEVER
            )
        if entry.removed_ranges:
            return self.why_drop_waits(item) or Action(ActionKind.DROP_RANGE, item.name, entry)
        if (drop := self.find_later_drop(item)) is not None:
            return self._wait(item, "a drop range over it is queued", drop.name)
        if local.covering_active(entry.new_part) is not None:
            return Action(ActionKind.SKIP, item.name, entry, "the part, or one that covers it, is here")
        if (made := self._made_elsewhere(item)) is not None:
            return made
        if (older := self._replacement_before(item, (entry.new_part,))) is not None:
            # A covering part would make some rows of the replacement visible before the others.
            return self._wait(item, f"log entry {older.name} that makes a part of it has not been executed", older.name)
        if entry.new_part in self.inserting:
            # This replica's own INSERT may be in the log some moments before its part is active here.
            return self._wait(item, "this replica is committing it", entry.new_part)
        waits_for_batches = entry.type is EntryType.MUTATE_PART and not self.shows_cuts
        if waits_for_batches and (wait := self._why_batch_waits(item)) is not None:
            return wait
        if entry.source_parts and not item.must_fetch:
            return self._judge_merge(item, local, limits)
        return self._judge_fetch(item, limits, "")

    @staticmethod
    def _wait(item: QueueItem, reason: str, key: Hashable, until: float = math.inf) -> EntryWait:
        entry = item.entry
        what = f"part {entry.new_part}" if entry.new_part is not None else f"{len(entry.created_parts)} parts"
        return EntryWait(f"Not executing log entry {item.name} for {what} because {reason}.", key, until)

    def list_entries_to_join(self, names: Collection[str], parts: Collection[PartName]) -> list[QueueItem]:
        """Lists the entries that must run as one step with the entries ``names``, which add ``parts``.

        - Replacements that add parts of the same blocks: a merged part may come instead of its sources.
        - Replacements where one entry drops what the other adds. The dropped part is then not fetched.
        - Batches of links that come before one of these, if that is a batch.
        - Batches with blocks below a mutation that a part comes with: the part shows the state after them.
        - Drops of one part or into ``detached/`` that one of ``names`` has to wait for. Such a drop may itself wait for
          another of ``names``. If it stayed outside, neither could ever run.

        With these the step lacks nothing that one of its entries waits for. So the oldest entry that drops or replaces
        something can always run as soon as the running entries have ended: every queue drains.

        A replica that gets the entries later, or one by one, ends with the same parts. In any order, the remaining
        parts are those that the entries add and none of them drops. No drop covers what a later entry adds, because
        that has a higher block number. A drop into ``detached/`` moves what is active before the later entry drops it.
        """
        group = [item for name in names if (item := self.index.get(name)) is not None]
        replacements = [
            other
            for other in self.index.list_replacements()
            if _find_overlap(other.entry.created_parts, parts) is not None
            or (other.entry.is_batch and _has_mutated_past(parts, other.entry.created_parts))
            or any(
                _find_overlap(other.entry.removed_ranges, item.entry.created_parts)
                for item in group
                if item.name < other.name
            )
            or any(
                _find_overlap(item.entry.removed_ranges, other.entry.created_parts)
                for item in group
                if other.name < item.name
            )
        ]
        drops = [drop for item in group for drop in self._drops_before(item, item.entry.removed_ranges)]
        joined = {other.name: other for other in (*replacements, *drops, *group)}
        batches = self._batches_between([name for name, other in joined.items() if other.entry.is_batch])
        return list({o.name: o for o in (*joined.values(), *batches) if o.name not in names}.values())

    def _batches_between(self, names: Collection[str]) -> Iterator[QueueItem]:
        """Yields the batches of links before the last of these: none may become visible before an earlier one."""
        older = self.index.find_batch_before(max(names)) if names else None
        while older is not None:
            yield older
            older = self.index.find_batch_before(older.name)

    def why_drop_waits(self, item: QueueItem, beside: Collection[str] = ()) -> EntryWait | None:
        """Returns why the entry's ranges may not be dropped yet, or ``None``.

        ``beside``: entries that run in the same step. An earlier replacement adds its parts first: it is one step, of
        which no part may be left out for a drop of another part.
        """
        entry = item.entry
        for other in self.index.list_executing():
            if other.name in beside:
                continue
            touched = (*other.entry.created_parts, *other.entry.removed_ranges, *other.entry.source_parts)
            part = _find_overlap(touched, (*entry.removed_ranges, *entry.created_parts))
            if part is not None:
                return self._wait(item, f"another log entry for part {part} is executing", other.name)
        part = _find_overlap(self.inserting, entry.removed_ranges)
        if part is not None:
            return self._wait(item, f"an INSERT of part {part} is being committed", part)
        older = next(self._drops_before(item, entry.removed_ranges), None) or self._replacement_before(
            item, entry.removed_ranges
        )
        if older is not None and older.name not in beside:
            return self._wait(item, f"log entry {older.name} has not been executed", older.name)
        return self._why_batch_waits(item, beside) if entry.is_batch else None

    def _why_batch_waits(self, item: QueueItem, beside: Collection[str] = ()) -> EntryWait | None:
        """Returns the wait for the last batch of a link before the entry that does not run in the same step."""
        older = self.index.find_batch_before(item.name)
        while older is not None and older.name in beside:
            older = self.index.find_batch_before(older.name)
        if older is None:
            return None
        return self._wait(item, f"batch {older.name} of a link, which is before it, has not been executed", older.name)

    def _judge_replacement(self, item: QueueItem, local: LocalParts, limits: PoolLimits) -> Action | EntryWait:
        if (wait := self.why_drop_waits(item)) is not None:
            return wait
        needs_fetch = any(
            staged.replica != self.replica_name and local.covering_active(staged.part) is None
            for staged in item.entry.replace_parts
        )
        if needs_fetch and limits.free_fetch_slots <= 0:
            return self._wait(item, "no fetch slot is free", FETCH_SLOT)
        return Action(ActionKind.REPLACE, item.name, item.entry)

    def _replacement_before(self, item: QueueItem, parts: Collection[PartName]) -> QueueItem | None:
        """Returns an earlier replacement that adds parts of these blocks."""
        for older in self.index.list_replacements():
            if older.name < item.name and _find_overlap(older.entry.created_parts, parts) is not None:
                return older
        return None

    def _drops_before(self, item: QueueItem, parts: Collection[PartName]) -> Iterator[QueueItem]:
        """Yields earlier drops of one part, or into ``detached/``, that touch these blocks."""
        for partition_id in {part.partition_id for part in parts}:
            for older in self.index.list_drops(partition_id):
                is_exact = older.entry.detach or older.entry.type is EntryType.DROP_PART
                if is_exact and older.name < item.name and _find_overlap(older.entry.removed_ranges, parts) is not None:
                    yield older

    def find_later_drop(self, item: QueueItem) -> QueueItem | None:
        """Returns a queued drop of any block that the entry adds or reads.

        The order in the queue does not matter. A later drop removes the entry too. After a drop of all blocks up to a
        number, nothing of these blocks is logged or queued. After the drop of one part, merges over its gap may be
        logged. If such a merge ran first, the part would count as gone and could not be moved to ``detached/``.
        """
        part = item.entry.new_part
        assert part is not None
        for drop in self.index.list_drops(part.partition_id):
            if _find_overlap(drop.entry.removed_ranges, (part,)) is not None:
                return drop
        return None

    def _made_elsewhere(self, item: QueueItem) -> EntryWait | None:
        """Returns a wait for a running entry of the same blocks, or one that makes a source."""
        part = item.entry.new_part
        assert part is not None
        for other in self.index.list_executing():
            made = _find_overlap((*other.entry.removed_ranges, *other.entry.created_parts), (part,))
            if made is None:
                continue
            if made in other.entry.removed_ranges:
                reason = f"the range {made} is being dropped"
            elif made.covers(part):
                reason = f"it is covered by part {made} that is currently executing"
            elif part.covers(made):
                reason = f"part {made} is not ready yet (log entry for that part is being processed)"
            else:
                reason = f"it intersects part {made} that is currently executing"
            return self._wait(item, reason, other.name)
        return None

    def _judge_merge(self, item: QueueItem, local: LocalParts, limits: PoolLimits) -> Action | EntryWait:
        """Decides about a merge or a mutation."""
        entry = item.entry
        if limits.metadata_version < entry.alter_version:
            reason = f"it is of version {entry.alter_version} of the table's definition, which is not here yet"
            return self._wait(item, reason, metadata_version_key(entry.alter_version))
        missing = [part for part in entry.source_parts if local.covering_active(part) != part]
        if missing:
            return self._judge_fetch(item, limits, f"source part {missing[0]} is not here")
        size = sum(local.size_bytes(part) for part in entry.source_parts)
        if limits.always_fetch_merged_part and entry.source_replica != self.replica_name:
            return self._judge_fetch(item, limits, "always_fetch_merged_part is set")
        old_at = math.inf
        if entry.source_replica != self.replica_name and size > limits.prefer_fetch_bytes and not item.last_exception:
            old_at = item.queued_at + limits.prefer_fetch_seconds
            if self.now >= old_at:
                return self._judge_fetch(item, limits, "the entry is old and large")
        if limits.free_merge_slots <= 0:
            return self._wait(item, "no merge slot is free", MERGE_SLOT, old_at)
        if size > limits.max_merge_bytes:
            reason = f"source parts size ({size} bytes) is greater than the current maximum ({limits.max_merge_bytes})"
            return self._wait(item, reason, merge_size_key(size), old_at)
        is_merge = entry.type is EntryType.MERGE_PARTS
        return Action(ActionKind.MERGE if is_merge else ActionKind.MUTATE, item.name, entry)

    def _judge_fetch(self, item: QueueItem, limits: PoolLimits, reason: str) -> Action | EntryWait:
        if limits.free_fetch_slots <= 0:
            return self._wait(item, "no fetch slot is free", FETCH_SLOT)
        return Action(ActionKind.FETCH, item.name, item.entry, reason)


def _has_mutated_past(parts: Iterable[PartName], others: Collection[PartName]) -> bool:
    """Tells whether one of ``parts`` went through a mutation that is above one of the others in its partition."""
    return any(
        part.data_version > max(part.max_block, other.max_block) and part.partition_id == other.partition_id
        for part in parts
        for other in others
    )


def _find_overlap(parts: Iterable[PartName], others: Collection[PartName]) -> PartName | None:
    """Returns the first of ``parts`` that shares blocks with one of the others."""
    ranges: dict[str, list[PartName]] = {}
    for other in others:
        ranges.setdefault(other.partition_id, []).append(other)
    for part in parts:
        if any(not part.is_disjoint(other) for other in ranges.get(part.partition_id, ())):
            return part
    return None
