"""A target table by brute force: it commits planned batches, and its rows are what its log and mutations say."""

from __future__ import annotations

from collections.abc import Sequence

from coordination.links.batches.batch_plan import BatchPlan, Target, count_numbers, plan_batch, surviving_blocks
from coordination.links.positions import Origin, Position
from coordination.links.stream.change import Change
from coordination.links.stream.change_stream import LogRecord, MutationRecord, Reading
from coordination.links.stream.frontier import Observation
from coordination.links.stream.gap_check import admit_changes
from coordination.links.version_vector import VersionVector
from coordination.log.log_entry import EntryType, LogEntry, StagedPart
from coordination.merges_mutations.mutation_set import MutationEntry
from parts.common.part_name import PartName
from tests.links.source_model import PARTITIONS, Row


class ModelTarget:
    def __init__(self, origin: Origin) -> None:
        self.origin = origin
        self.vector = VersionVector().to_bytes()
        self.counters = dict.fromkeys(PARTITIONS, 5)
        self.zxid = 1000 * origin.table
        self.log: list[LogRecord] = []
        self.mutations: list[MutationRecord] = []

    def applied(self, origin: Origin) -> int:
        return VersionVector.parse(self.vector).applied(origin)

    def begin(self, origin: Origin) -> int:
        entry = VersionVector.parse(self.vector).entries.get(origin)
        return entry.begin if entry is not None else 0

    def is_stopped(self, changes: Sequence[Change]) -> bool:
        return admit_changes(VersionVector.parse(self.vector), self.origin, changes).stop is not None

    def take(self, changes: Sequence[Change], end: Position) -> BatchPlan:
        """Admits and commits the changes. Raises ``AssertionError`` for a stop: no model makes one."""
        admission = admit_changes(VersionVector.parse(self.vector), self.origin, changes)
        assert admission.stop is None, str(admission.stop)
        firsts = {p: self._take_numbers(p, count) for p, count in count_numbers(admission.changes).items()}
        staged = {
            (change.position, block.part): StagedPart(
                block.part,
                block.content_hash,
                "t1",
                f"{change.position.zxid}-{block.part}",
                block.rows,
                block.size_bytes,
            )
            for change, block in surviving_blocks(admission.changes)
        }
        target = Target("t1", 2.0, "batch", staged)
        plan = plan_batch(admission.changes, firsts, admission.vector, end, target)
        self._commit(plan)
        return plan

    def _take_numbers(self, partition_id: str, count: int) -> int:
        first = self.counters[partition_id]
        self.counters[partition_id] += count
        return first

    def _commit(self, plan: BatchPlan) -> None:
        self.vector = plan.vector.to_bytes()
        if plan.entry is None:
            return
        self.zxid += 1
        self.log.append(LogRecord(self.zxid, self.zxid, LogEntry.parse(plan.entry.to_bytes())))
        for mutation in plan.mutations:
            id_ = f"{len(self.mutations):010d}"
            entry = MutationEntry(id_, 2.0, "t1", mutation.text, dict(mutation.numbers))
            self.mutations.append(MutationRecord(self.zxid, self.zxid, entry))

    def insert(self, name: str) -> None:
        """A client's INSERT, where the table takes some."""
        number = self._take_numbers("p", 1)
        self.zxid += 1
        part = PartName("p", number, number, 0)
        entry = LogEntry(EntryType.GET_PART, part, 2.0, "t1", block_id=f"p_{name}", content_hash=name, rows=1)
        self.log.append(LogRecord(self.zxid, self.zxid, entry))

    def observe(self) -> Observation:
        """All is decided: nobody else commits here."""
        reading = Reading(tuple(self.log), tuple(self.mutations))
        return Observation(reading, (), frozenset(), frozenset(), reading)

    def last_own(self, zxid: int) -> int:
        own = [r.zxid for r in self.log if r.entry.type is EntryType.GET_PART and r.zxid <= zxid]
        return max(own, default=0)

    def rows(self) -> dict[str, list[Row]]:
        parts: dict[PartName, str] = {}
        for record in self.log:
            entry = record.entry
            for gone in entry.removed_ranges:
                parts = {part: name for part, name in parts.items() if not gone.covers(part)}
            parts |= entry.content_hashes
        return {
            partition_id: [
                (name, self._mutations_of(part))
                for part, name in sorted(parts.items())
                if part.partition_id == partition_id
            ]
            for partition_id in PARTITIONS
        }

    def _mutations_of(self, part: PartName) -> tuple[str, ...]:
        found = [record.mutation for record in self.mutations if record.mutation.must_change(part)]
        ids = [mutation.mutation_id for mutation in found]
        assert ids == sorted(ids)
        return tuple(mutation.text for mutation in sorted(found, key=lambda m: m.numbers[part.partition_id]))
