"""A table, and one replica of it that gives its parts away while it pulls, merges and mutates.

A block is a number with the mutations that it went through, in their order. The table commits operations, whose numbers
are taken earlier; a leader assigns merges and mutated parts as today's code does. The replica pulls entries and carries
them out in any order that the queue allows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from random import Random

from coordination.links.bootstrap_place import (
    RestingReplica,
    explain_unfinished,
    find_places,
    select_held_parts,
)
from coordination.links.stream.change_stream import LogRecord, MutationRecord
from coordination.links.stream.frontier import Lock, LockKind
from coordination.log.log_entry import EntryType, LogEntry, drop_range_name
from coordination.merges_mutations.mutation_set import MutationEntry
from parts.common.part_name import PartName

Rows = dict[int, tuple[int, ...]]
"""Block number → the numbers of the mutations that it went through."""
OWN, OTHER = "giver", "other"


@dataclass
class Operation:
    """What one client does: O an own INSERT of the giver, I another's, Q one with a quorum, M a mutation, D a drop."""

    kind: str
    number: int = -1
    zxid: int = 0
    is_over: bool = False


@dataclass
class Held:
    """What the giver held, and of which place."""

    place: int
    rows: Rows


@dataclass
class GiverModel:
    """The table and the giver."""

    program: str
    random: Random
    says_kinds: bool = True
    operations: list[Operation] = field(default_factory=list)
    zxid: int = 0
    numbers: int = 0
    log: list[LogRecord] = field(default_factory=list)
    mutations: list[MutationRecord] = field(default_factory=list)
    made: dict[PartName, Rows] = field(default_factory=dict)
    """The rows of every part that was ever made."""
    virtual: set[PartName] = field(default_factory=set)
    """Of the whole log."""
    pulled: int = 0
    todo: list[LogEntry] = field(default_factory=list)
    active: set[PartName] = field(default_factory=set)
    quorums: set[PartName] = field(default_factory=set)
    failed: set[PartName] = field(default_factory=set)
    held: Held | None = None
    work: int = 4
    hold_after: int = 0
    """The zxid before which the giver is not asked."""

    def __post_init__(self) -> None:
        self.operations = [Operation(kind) for kind in self.program]
        self.hold_after = self.random.randrange(len(self.program) + 3)

    # -- the table ----------------------------------------------------------------------------------------------------

    def locks(self) -> list[Operation]:
        return [each for each in self.operations if each.number >= 0 and not each.is_over]

    def take(self, operation: Operation) -> None:
        operation.number = self.numbers
        self.numbers += 1

    def commit(self, operation: Operation) -> None:
        mutated = [record.mutation.numbers["p"] for record in self.mutations]
        if operation.kind == "M" and max(mutated, default=-1) > operation.number:
            operation.number = -1  # another mutation got ahead
            return
        self.zxid += 1
        operation.zxid, operation.is_over = self.zxid, True
        number = operation.number
        if operation.kind == "M":
            entry = MutationEntry(f"{len(self.mutations):010d}", 1.0, OTHER, "UPDATE", {"p": number})
            self.mutations.append(MutationRecord(self.zxid, self.zxid, entry))
        elif operation.kind == "D":
            gone = drop_range_name("p", number)
            for other in self.locks():
                if other.number < number:
                    other.number = -1  # it takes another number
            self.quorums = {part for part in self.quorums if not gone.covers(part)}
            self.virtual = {part for part in self.virtual if not gone.covers(part)}
            if number:
                self._log(LogEntry(EntryType.DROP_RANGE, gone, 1.0, OTHER))
        else:
            part = PartName("p", number, number, 0)
            self.made[part] = {number: ()}
            self.virtual.add(part)
            if operation.kind == "Q":
                self.quorums.add(part)
            source = OWN if operation.kind == "O" else OTHER
            self._log(LogEntry(EntryType.GET_PART, part, 1.0, source, quorum=2 if operation.kind == "Q" else 0))
            if operation.kind == "O":
                self.active.add(part)

    def _log(self, entry: LogEntry) -> None:
        self.log.append(LogRecord(self.zxid, self.zxid, entry))

    def end_quorum(self, part: PartName) -> None:
        """The quorum is met."""
        self.quorums.discard(part)

    def fail_quorum(self, part: PartName) -> None:
        """The quorum fails: nobody has the block any more, once all have taken it back."""
        self.quorums.discard(part)
        self.virtual.discard(part)
        self.failed.add(part)
        self.todo = [entry for entry in self.todo if entry.new_part != part]

    def take_back(self) -> None:
        self.active -= self.failed

    def assign(self) -> list[Callable[[], None]]:
        """Merges and mutated parts that a leader may log now."""
        found: list[Callable[[], None]] = []
        parts = sorted(part for part in self.virtual if part not in self.quorums)
        taken = {each.number for each in self.locks()}
        known = [record.mutation.numbers["p"] for record in self.mutations]

        def version(part: PartName) -> int:
            return max((number for number in known if number <= part.data_version), default=0)

        everything = sorted(self.virtual)
        for left, right in pairwise(everything):
            if left not in parts or right not in parts or version(left) != version(right):
                continue
            if any(left.max_block < number < right.min_block for number in taken):
                continue
            merged = PartName("p", left.min_block, right.max_block, max(left.level, right.level) + 1,
                              max(left.mutation, right.mutation))  # fmt: skip
            found.append(lambda a=left, b=right, c=merged: self._merge(a, b, c))  # type: ignore[misc]
        for part in parts:
            ahead = sorted(number for number in known if number > part.data_version)
            if ahead:
                result = replace(part, mutation=ahead[-1])
                found.append(lambda a=part, b=result, m=tuple(ahead): self._mutate(a, b, m))  # type: ignore[misc]
        return found

    def _merge(self, left: PartName, right: PartName, result: PartName) -> None:
        self.zxid, self.work = self.zxid + 1, self.work - 1
        self.made[result] = {**self.made[left], **self.made[right]}
        self.virtual = self.virtual - {left, right} | {result}
        self._log(LogEntry(EntryType.MERGE_PARTS, result, 1.0, OTHER, source_parts=(left, right)))

    def _mutate(self, part: PartName, result: PartName, numbers: tuple[int, ...]) -> None:
        self.zxid, self.work = self.zxid + 1, self.work - 1
        self.made[result] = {block: (*went, *numbers) for block, went in self.made[part].items()}
        self.virtual = self.virtual - {part} | {result}
        self._log(LogEntry(EntryType.MUTATE_PART, result, 1.0, OTHER, source_parts=(part,)))

    # -- the giver ----------------------------------------------------------------------------------------------------

    def pull(self) -> None:
        entry = self.log[self.pulled].entry
        self.pulled += 1
        if entry.new_part in self.failed:
            return
        if not (entry.type is EntryType.GET_PART and entry.source_replica == OWN):
            self.todo.append(entry)

    def carry_out(self, entry: LogEntry) -> None:
        assert entry.new_part is not None
        self.todo.remove(entry)
        if entry.type is EntryType.DROP_RANGE:
            gone = entry.new_part
            self.active = {part for part in self.active if not gone.covers(part)}
            self.todo = [each for each in self.todo if each.new_part is None or not gone.covers(each.new_part)]
        elif not any(part.covers(entry.new_part) for part in self.active):
            self.active = {part for part in self.active if not entry.new_part.covers(part)} | {entry.new_part}

    def rest(self) -> RestingReplica:
        """What the giver reads while its pull rests."""
        floor = self.log[self.pulled - 1].zxid if self.pulled else 0
        kinds = {each.number: LockKind.COMMAND if each.kind in "MD" else LockKind.BLOCK for each in self.locks()}
        locks = tuple(Lock("p", number, kind if self.says_kinds else None) for number, kind in kinds.items())
        return RestingReplica(
            tuple(self.todo),
            floor,
            max((record.zxid for record in self.mutations), default=0),
            locks,
            frozenset(self.quorums),
            frozenset(self.failed),
            tuple(self.mutations),
            tuple(sorted(self.active)),
            tuple(self.log[self.pulled :]),
        )

    def try_to_hold(self) -> None:
        """Holds the parts if the decisions allow it."""
        resting = self.rest()
        place = next((place for place in find_places(resting) if not explain_unfinished(resting, place)), None)
        if place is None:
            return
        rows: Rows = {}
        for part in select_held_parts(resting):
            rows |= self.made[part]
        self.held = Held(place, rows)

    # -- the end ------------------------------------------------------------------------------------------------------

    def is_over(self) -> bool:
        return all(each.is_over for each in self.operations)

    def actions(self) -> list[Callable[[], None]]:
        """What may happen now."""
        found: list[Callable[[], None]] = []
        for each in self.operations:
            if each.is_over:
                continue
            found.append((lambda o=each: self.take(o)) if each.number < 0 else (lambda o=each: self.commit(o)))  # type: ignore[misc]
        if self.work:
            found += self.assign()
        if self.pulled < len(self.log):
            found += [self.pull] * 2
        found += [lambda e=entry: self.carry_out(e) for entry in self.todo]  # type: ignore[misc]
        found += [lambda p=part: self.end_quorum(p) for part in sorted(self.quorums)]  # type: ignore[misc]
        found += [lambda p=part: self.fail_quorum(p) for part in sorted(self.quorums)]  # type: ignore[misc]
        if self.active & self.failed:
            found.append(self.take_back)
        if self.held is None and (self.zxid >= self.hold_after or self.is_over()):
            found += [self.try_to_hold] * 2
        return found

    def run(self) -> None:
        """Runs to the end."""
        for _ in range(400):
            actions = self.actions()
            if (self.is_over() and self.held is not None and not self.quorums) or not actions:
                return
            self.random.choice(actions)()

    def _is_inserted(self, operation: Operation) -> bool:
        part = PartName("p", operation.number, operation.number, 0)
        return operation.kind in "OIQ" and operation.is_over and part not in self.failed

    def expected(self) -> dict[int, list[int]]:
        """Each block of the end, with the mutations above it."""
        drops = [each.number for each in self.operations if each.kind == "D" and each.is_over]
        mutated = [each.number for each in self.operations if each.kind == "M" and each.is_over]
        return {
            each.number: sorted(number for number in mutated if number > each.number)
            for each in self.operations
            if self._is_inserted(each) and not any(each.number < number for number in drops)
        }

    def bootstrapped(self) -> dict[int, list[int]]:
        """Each block of a target that took what was held and then the changes behind its place."""
        assert self.held is not None
        later = [each for each in self.operations if each.is_over and each.zxid > self.held.place]
        drops = [each.number for each in later if each.kind == "D" and each.number]
        mutated = [each.number for each in later if each.kind == "M"]
        # What was held has lower numbers than everything that comes later.
        rows = {block: sorted([*went, *mutated]) for block, went in self.held.rows.items() if not drops}
        for each in later:
            if self._is_inserted(each) and not any(each.number < number for number in drops):
                assert each.number not in rows, f"block {each.number} twice"
                rows[each.number] = sorted(number for number in mutated if number > each.number)
        return rows
