"""A source table by brute force: operations take numbers in one step and commit in a later one, and a reader reads.

Kinds of operations: I an INSERT, Q one with a quorum, J an INSERT of two partitions in two multis, T a transaction of
two partitions, M a mutation of all partitions, D a drop of the first partition, K a drop of all in one multi, R a
replacement in the first, A an ALTER.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from coordination.links.positions import Epoch, Origin
from coordination.links.stream.change import Definition
from coordination.links.stream.change_stream import DefinitionRecord, LogRecord, MutationRecord, Reading
from coordination.links.stream.frontier import Lock, LockKind, Observation, select_undecided
from coordination.log.log_entry import EntryType, LogEntry, StagedPart, drop_range_name
from coordination.merges_mutations.mutation_set import MutationEntry
from parts.common.part_name import PartName

PARTITIONS = ("p", "q")
BLOCK, DROP, MUTATION = "block", "drop", "mutation"
Row = tuple[str, tuple[str, ...]]
"""A block's name, and the mutations that changed it."""

_TAKES = {
    "I": [("p", BLOCK)],
    "Q": [("p", BLOCK)],
    "J": [("p", BLOCK), ("q", BLOCK)],
    "T": [("p", BLOCK), ("q", BLOCK)],
    "M": [("p", MUTATION), ("q", MUTATION)],
    "D": [("p", DROP)],
    "K": [("p", DROP), ("q", DROP)],
    "R": [("p", DROP), ("p", BLOCK)],
    "A": [],
}


def make_origin(digit: int, counter: int = 1) -> Origin:
    text = f"{digit:x}" * 8
    return Origin(f"{text}-0000-4000-8000-000000000000", 100 + digit, Epoch(counter, 0xABC + digit))


@dataclass
class Operation:
    name: str
    kind: str
    stage: str = "new"
    held: list[tuple[str, int, str]] = field(default_factory=list)


@dataclass
class Commit:
    zxid: int
    items: list[tuple[str, str, int, str]]
    """Kind, partition, number, name of the operation."""


class Source:
    """``cancels``: a mutation deletes the lower locks, as a drop does."""

    def __init__(self, program: str, *, cancels: bool = False, says_kinds: bool = True) -> None:
        self.origin = make_origin(1)
        self.operations = [Operation(f"{kind}{i}", kind) for i, kind in enumerate(program)]
        self.counters = dict.fromkeys(PARTITIONS, 1)
        self.zxid = 0
        self.log: list[LogRecord] = []
        self.mutations: list[MutationRecord] = []
        self.definitions: list[DefinitionRecord] = []
        self.commits: list[Commit] = []
        self.open_quorums: set[PartName] = set()
        self.failed: set[PartName] = set()
        self.cancelled: set[tuple[str, int]] = set()
        self.cancels, self.says_kinds = cancels, says_kinds

    def actions(self) -> Iterator[Callable[[], None]]:
        """Yields what may happen next."""
        for operation in self.operations:
            if operation.stage == "new" and not (operation.kind == "M" and self._mutation_is_open()):
                yield lambda operation=operation: self._take(operation)
            elif operation.stage == "taken":
                yield lambda operation=operation: self._commit(operation)
        for part in sorted(self.open_quorums):
            yield lambda part=part: self.open_quorums.discard(part)
            yield lambda part=part: self._fail(part)

    def _mutation_is_open(self) -> bool:
        return any(operation.kind == "M" and operation.stage == "taken" for operation in self.operations)

    def _take(self, operation: Operation) -> None:
        for partition_id, kind in _TAKES[operation.kind]:
            operation.held.append((partition_id, self.counters[partition_id], kind))
            self.counters[partition_id] += 1
        operation.stage = "taken"

    def _fail(self, part: PartName) -> None:
        self.open_quorums.discard(part)
        self.failed.add(part)

    def _commit(self, operation: Operation) -> None:
        if any((p, n) in self.cancelled for p, n, _ in operation.held):
            operation.stage, operation.held = "new", []
            return
        count = 1 if operation.kind == "J" else len(operation.held)
        used, operation.held = operation.held[:count], operation.held[count:]
        if not operation.held:
            operation.stage = "done"
        self.zxid += 1
        self.commits.append(Commit(self.zxid, [(kind, p, n, operation.name) for p, n, kind in used]))
        self._record(operation, used)
        for partition_id, number, kind in used:
            if kind == DROP or (kind == MUTATION and self.cancels):
                self._cancel_below(partition_id, number)

    def _cancel_below(self, partition_id: str, number: int) -> None:
        locks = {(p, n) for operation in self.operations for p, n, _ in operation.held}
        self.cancelled |= {(p, n) for p, n in locks if p == partition_id and n < number}
        for part in list(self.open_quorums):
            if part.partition_id == partition_id and part.max_block < number:
                self._fail(part)

    def _record(self, operation: Operation, used: list[tuple[str, int, str]]) -> None:
        zxid, time_ms, kind = self.zxid, 1000 + self.zxid, operation.kind
        parts = [PartName(p, n, n, 0) for p, n, what in used if what == BLOCK]
        drops = tuple(drop_range_name(p, n) for p, n, what in used if what == DROP)
        if kind in "IQJ":
            (part,) = parts
            quorum = 2 if kind == "Q" else 0
            name = operation.name
            entry = LogEntry(
                EntryType.GET_PART, part, 1.0, "r1", quorum=quorum, content_hash=name, rows=1, size_bytes=9
            )
            entry = replace(entry, block_id=f"{part.partition_id}_{name}")
            if kind == "Q":
                self.open_quorums.add(part)
        elif kind in "TR":
            staged = tuple(StagedPart(part, operation.name, "r1", str(part), 1, 10) for part in parts)
            entry = LogEntry(EntryType.REPLACE_RANGE, None, 1.0, "r1", drop_ranges=drops, replace_parts=staged)
        elif kind in "DK":
            *others, entry = (LogEntry(EntryType.DROP_RANGE, gone, 1.0, "r1") for gone in drops)
            self.log += [LogRecord(zxid, time_ms, other) for other in others]
        elif kind == "M":
            numbers = {p: n for p, n, _ in used}
            id_ = f"{len(self.mutations):010d}"
            self.mutations.append(MutationRecord(zxid, time_ms, MutationEntry(id_, 1.0, "r1", operation.name, numbers)))
            return
        else:
            definition = Definition(len(self.definitions) + 1, "", operation.name)
            self.definitions.append(DefinitionRecord(zxid, time_ms, definition))
            return
        self.log.append(LogRecord(zxid, time_ms, entry))

    def locks(self, partition_id: str) -> dict[int, LockKind | None]:
        return {
            n: None if not self.says_kinds else LockKind.BLOCK if kind == BLOCK else LockKind.COMMAND
            for operation in self.operations
            for p, n, kind in operation.held
            if p == partition_id and (p, n) not in self.cancelled
        }

    @property
    def is_finished(self) -> bool:
        return all(operation.stage == "done" for operation in self.operations) and not self.open_quorums

    def rows_at(self, zxid: int) -> dict[str, list[Row]]:
        """The rows of each partition after the commit, in the order of numbers."""
        return {partition_id: self._rows_of(partition_id, zxid) for partition_id in PARTITIONS}

    def _rows_of(self, partition_id: str, zxid: int) -> list[Row]:
        rows: list[Row] = []
        items = [item for commit in self.commits if commit.zxid <= zxid for item in commit.items]
        for kind, _, number, name in sorted((i for i in items if i[1] == partition_id), key=lambda item: item[2]):
            if kind == DROP:
                rows = []
            elif kind == MUTATION:
                rows = [(block, (*mutations, name)) for block, mutations in rows]
            elif PartName(partition_id, number, number, 0) not in self.failed:
                rows.append((name, ()))
        return rows

    def last_sent(self, zxid: int) -> int:
        """The zxid of the last change up to ``zxid`` that is sent."""
        sent = [
            commit.zxid
            for commit in self.commits
            if commit.zxid <= zxid
            and (not commit.items or any(PartName(p, n, n, 0) not in self.failed for _, p, n, _ in commit.items))
        ]
        return max(sent, default=0)

    def read_log(self) -> tuple[LogRecord, ...]:
        return tuple(self.log)


class Reader:
    """The reads of one observation, one at a time. ``order`` can be changed to show that it matters."""

    ORDER = (
        *("log", "mutations", "definitions"),
        *("list p", "list q", "kinds", "open", "failed"),
        *("log 2", "mutations 2", "definitions 2"),
    )

    def __init__(self, source: Source, order: tuple[str, ...] = ORDER) -> None:
        self.source = source
        self.left = list(order)
        self.seen: dict[str, tuple] = {}
        self.listed: dict[str, list[int]] = {}
        self.locks: tuple[Lock, ...] = ()

    def step(self) -> Observation | None:
        """Does the next read; returns the observation after the last."""
        what, source = self.left.pop(0), self.source
        if what.startswith("list "):
            self.listed[what[5:]] = sorted(source.locks(what[5:]))
        elif what == "kinds":
            found = {(p, n): kind for p in PARTITIONS for n, kind in source.locks(p).items()}
            self.locks = select_undecided(self.listed, found)
        elif what in ("open", "failed"):
            self.seen[what] = tuple(source.open_quorums if what == "open" else source.failed)
        else:
            self.seen[what] = tuple(getattr(source, what.split()[0]))
        return None if self.left else self._observation()

    def _observation(self) -> Observation:
        seen = self.seen
        return Observation(
            Reading(seen.get("log", ()), seen.get("mutations", ()), seen.get("definitions", ())),
            self.locks,
            frozenset(seen.get("open", ())),
            frozenset(seen.get("failed", ())),
            Reading(seen.get("log 2", ()), seen.get("mutations 2", ()), seen.get("definitions 2", ())),
        )
