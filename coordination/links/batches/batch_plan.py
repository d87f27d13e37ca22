"""The plan of a batch: what one multi commits at a link's target.

The operations of single changes cannot be put one behind the other into a multi: a block and the drop above it delete
one lock, two drops of a partition expect one version, and a block id may come twice. So a batch is planned as one:

- In each partition the blocks and commands take new numbers, in the order of their numbers at the sender. A command
  covers the same blocks of the batch as there, and all that the target has.
- Only the last drop of a partition counts. Blocks below it are left out; they are not even sent.
- Block ids are netted: the last block with an id has it, and an id that the target has already is set to the new part.
- The log entry is one REPLACE_RANGE that every replica carries out as one exchange, and names the changes
  (``carried_changes``). Mutations are nodes of their own in the same multi.

YTsaurus' replicated tables likewise apply a run of changes and advance the replica's progress in one transaction.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from coordination.keeper.request_limits import MAX_MULTI_BYTES, MAX_REQUEST_BYTES
from coordination.links.groups.cut_mark import CutMark
from coordination.links.positions import Position
from coordination.links.stream.carried_changes import carried_document
from coordination.links.stream.change import Block, Change, Definition, Drop, Mutation
from coordination.links.version_vector import VersionVector
from coordination.log.log_entry import LINK_KEY, EntryType, LogEntry, StagedPart, drop_range_name
from parts.common.part_name import PartName


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """The place where a batch ends.

    ``entry_bytes`` and ``request_bytes`` are ZooKeeper's; the others are settings.
    """

    rows: int
    size_bytes: int
    entry_bytes: int = MAX_MULTI_BYTES
    request_bytes: int = MAX_REQUEST_BYTES


_EMPTY_REQUEST_BYTES = 96 * 1024
"""The vector, the checks, and the operations of a batch that do not depend on its changes."""
_EMPTY_ENTRY_BYTES = 1024
_CHANGE_BYTES = 160
_NAME_BYTES = 48
"""Two numbers and a level, in digits."""
_STAGED_BYTES = 320
"""A staged part's replica, place and sizes."""
_OPERATION_BYTES = 256
"""The header and path of an operation without the variable name at its end."""


def select_batch_end(changes: Sequence[Change], cuts: Sequence[int], limits: BatchLimits) -> int:
    """Returns the cut at which the batch ends: the last within the limits, at least the first cut.

    What lies before the first cut is committed together even if it is larger: its parts are then staged over many
    requests, and its entry may have to be a list.
    """
    end = cuts[0]
    rows = size = 0
    entry, request = _EMPTY_ENTRY_BYTES, _EMPTY_REQUEST_BYTES
    waiting = iter(sorted(changes, key=lambda change: change.place))
    change = next(waiting, None)
    for cut in cuts:
        while change is not None and change.place <= cut:
            rows, size = rows + change.rows, size + change.size_bytes
            of_entry, of_request = estimate_bytes(change)
            entry, request = entry + of_entry, request + of_entry + of_request
            change = next(waiting, None)
        is_within = rows <= limits.rows and size <= limits.size_bytes
        if not (is_within and entry <= limits.entry_bytes and request <= limits.request_bytes):
            break
        end = cut
    return end


def estimate_bytes(change: Change) -> tuple[int, int]:
    """Returns upper bounds of what a change adds to the log entry, and to the rest of the request."""
    entry, request = _CHANGE_BYTES + len(str(change.position.origin)), 0
    for block in change.blocks:
        name = len(block.partition_id) + _NAME_BYTES
        entry += 2 * name + len(block.content_hash) + _json_bytes(block.block_id) + _STAGED_BYTES
        request += name + 4 * len(block.block_id) + 3 * _OPERATION_BYTES
    for drop in change.drops:
        entry += 2 * (len(drop.partition_id) + _NAME_BYTES)
        request += 2 * _OPERATION_BYTES
    for mutation in change.mutations:
        own = _json_bytes(mutation.text) + sum(len(p) + _NAME_BYTES for p, _ in mutation.numbers)
        entry += own
        request += own + _OPERATION_BYTES * (1 + len(mutation.numbers))
    for definition in change.definitions:
        own = _json_bytes(definition.metadata) + _json_bytes(definition.columns)
        entry += own + _NAME_BYTES
        request += own + 2 * _OPERATION_BYTES
    return entry, request


def _json_bytes(text: str) -> int:
    return len(json.dumps(text, ensure_ascii=False).encode())


def count_numbers(changes: Sequence[Change]) -> dict[str, int]:
    """Returns how many block numbers the changes need, by partition."""
    counts: dict[str, int] = {}
    for change in changes:
        for partition_id, _ in change.numbers():
            counts[partition_id] = counts.get(partition_id, 0) + 1
    return counts


def surviving_blocks(changes: Sequence[Change]) -> Iterator[tuple[Change, Block]]:
    """Yields the blocks whose parts the target needs.

    They are not lost, and not dropped in the same batch.
    """
    last = last_drops(changes)
    for change in changes:
        for block in change.blocks:
            if not block.is_lost and block.number >= last.get(block.partition_id, 0):
                yield change, block


def last_drops(changes: Sequence[Change]) -> dict[str, int]:
    """Returns by partition the largest number of a drop."""
    last: dict[str, int] = {}
    for change in changes:
        for partition_id, number in change.drop_numbers():
            last[partition_id] = max(number, last.get(partition_id, 0))
    return last


@dataclass(frozen=True, slots=True)
class Target:
    """The place where the batch is committed, and the parts staged there."""

    replica: str
    create_time: float
    """Seconds since the epoch."""
    staging: str
    """The name under which the replica holds the parts."""
    staged: Mapping[tuple[Position, PartName], StagedPart]
    """By change and part at the sender: the part as it is staged. Its name is not used."""
    commit_time: int = 0
    """The largest commit time among the versions of the staged parts' rows; 0 without ``last_writer_wins``."""


@dataclass(frozen=True)
class BatchPlan:
    """The content of the batch that the multi commits. Numbers are the target's."""

    end: Position
    """The place in the source's stream that the batch reaches."""
    vector: VersionVector
    changes: tuple[Change, ...]
    entry: LogEntry | None
    """``None`` if nothing was left to apply: the vector alone moves."""
    mutations: tuple[Mutation, ...]
    """In the order of the stream, so that ids and numbers grow together."""
    definition: Definition | None
    """The last one of the batch."""
    block_ids: Mapping[str, PartName]
    """The ids that the target has afterwards, of the blocks of the batch."""
    drops: Mapping[str, int]
    """Partition → the number below which everything is gone."""

    @cached_property
    def lost_rows(self) -> int:
        """The rows of the changes that were lost for good at their origin."""
        return sum(block.rows for change in self.changes for block in change.blocks if block.is_lost)

    @cached_property
    def commands(self) -> Mapping[str, int]:
        """Partition → the largest number of a command: inserts that hold lower ones must take new numbers."""
        largest = dict(self.drops)
        for mutation in self.mutations:
            for partition_id, number in mutation.numbers:
                largest[partition_id] = max(number, largest.get(partition_id, 0))
        return largest


def plan_batch(
    changes: Sequence[Change],
    first_numbers: Mapping[str, int],
    vector: VersionVector,
    end: Position,
    target: Target,
) -> BatchPlan:
    """Plans the commit of the changes, which ``admit_changes`` selected up to a cut.

    ``first_numbers``: by partition the first of ``count_numbers`` consecutive numbers, all taken and above those of the
    target's parts. ``vector``: the admission's. ``end``: of the sender's own origin.
    """
    numbers = _assign_numbers(changes, first_numbers)
    drops = {p: numbers[p, number] for p, number in last_drops(changes).items()}
    survivors = list(surviving_blocks(changes))
    renumbered = tuple(_renumber(change, numbers, drops) for change in changes)
    parts = [
        replace(target.staged[change.position, block.part], part=_renumber_block(block, numbers).part)
        for change, block in survivors
    ]
    definitions = [definition for change in changes for definition in change.definitions]
    return BatchPlan(
        end,
        vector.pass_idle(end),
        renumbered,
        _make_entry(renumbered, drops, parts, target) if changes else None,
        tuple(mutation for change in renumbered for mutation in change.mutations),
        definitions[-1] if definitions else None,
        net_block_ids(renumbered),
        drops,
    )


def mark_cut(plan: BatchPlan, target: Target, mark: CutMark) -> BatchPlan:
    """Returns the plan as one of a group's cut: it has a marked entry even if nothing changed."""
    entry = plan.entry if plan.entry is not None else _make_entry((), {}, (), target)
    return replace(plan, entry=mark.put_into(entry))


def _assign_numbers(changes: Sequence[Change], firsts: Mapping[str, int]) -> dict[tuple[str, int], int]:
    """Returns the target's number for each partition and number of the sender."""
    taken: dict[str, list[int]] = {}
    for change in changes:
        for partition_id, number in change.numbers():
            taken.setdefault(partition_id, []).append(number)
    assigned = {}
    for partition_id, numbers in taken.items():
        assert len(set(numbers)) == len(numbers), f"partition {partition_id} has a number twice: {sorted(numbers)}"
        for offset, number in enumerate(sorted(numbers)):
            assigned[partition_id, number] = firsts[partition_id] + offset
    return assigned


def _renumber(change: Change, numbers: Mapping[tuple[str, int], int], drops: Mapping[str, int]) -> Change:
    """Returns the change with the target's numbers, without the blocks that the batch drops again."""
    blocks = [_renumber_block(block, numbers) for block in change.blocks]
    return replace(
        change,
        blocks=tuple(block for block in blocks if block.number >= drops.get(block.partition_id, 0)),
        drops=tuple(Drop(p, numbers[p, number]) for p, number in change.drop_numbers()),
        mutations=tuple(
            Mutation(mutation.text, tuple((p, numbers[p, number]) for p, number in mutation.numbers))
            for mutation in change.mutations
        ),
    )


def _renumber_block(block: Block, numbers: Mapping[tuple[str, int], int]) -> Block:
    number = numbers[block.partition_id, block.number]
    return replace(block, part=PartName(block.partition_id, number, number, 0))


def _make_entry(
    changes: Sequence[Change], drops: Mapping[str, int], parts: Sequence[StagedPart], target: Target
) -> LogEntry:
    return LogEntry(
        EntryType.REPLACE_RANGE,
        None,
        target.create_time,
        target.replica,
        rows=sum(part.rows for part in parts),
        size_bytes=sum(part.size_bytes for part in parts),
        drop_ranges=tuple(drop_range_name(p, number) for p, number in sorted(drops.items()) if number > 0),
        replace_parts=tuple(parts),
        transaction=target.staging,
        commit_time=target.commit_time,
        extra=((LINK_KEY, carried_document(changes)),),
    )


def net_block_ids(changes: Sequence[Change]) -> dict[str, PartName]:
    """Returns the part of each id that a batch's changes leave. The block with the largest number has it.

    ``changes`` are as the batch's entry names them: without the blocks that it drops again.
    """
    blocks = [block for change in changes for block in change.blocks if block.block_id and not block.is_lost]
    return {block.block_id: block.part for block in sorted(blocks, key=lambda block: block.number)}
