"""The change stream of a table: its log, mutations and definitions as changes.

Changes come in the order of their commits.

Rules:

- What has one zxid is one change and is sent whole. A batch of another link is the exception: each change that it
  carries keeps its own position.
- Merges, mutated parts, and parts that come back (``is_restored``) change no rows: they are not in the stream.
- A block whose quorum failed was refused: it is left out, and a change of which nothing is left is not sent.
- Each change names the one *sent* before it in its origin's stream, so a target notices a hole. A lost block is sent
  without its rows, for it still counts there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from itertools import chain, groupby

from coordination.links.positions import Origin, Position
from coordination.links.stream.carried_changes import is_batch, read_carried_changes
from coordination.links.stream.change import Block, Change, Definition, Drop, Mutation
from coordination.links.stream.own_origins import OwnOrigins
from coordination.log.log_entry import EntryType, LogEntry
from coordination.merges_mutations.mutation_set import MutationEntry
from parts.common.errors import UserError
from parts.common.part_name import PartName

_BLOCKS = (EntryType.GET_PART, EntryType.ATTACH_PART, EntryType.REPLACE_RANGE)
_CHANGES = (*_BLOCKS, EntryType.DROP_RANGE, EntryType.DROP_PART)


@dataclass(frozen=True, slots=True)
class LogRecord:
    """A log entry, with the zxid and the time (milliseconds since the epoch) of its node."""

    zxid: int
    created_ms: int
    entry: LogEntry


@dataclass(frozen=True, slots=True)
class MutationRecord:
    """A mutation, with the zxid and the time of its node."""

    zxid: int
    created_ms: int
    mutation: MutationEntry


@dataclass(frozen=True, slots=True)
class DefinitionRecord:
    """A definition that an ALTER made, with the zxid and the time of its node."""

    zxid: int
    created_ms: int
    definition: Definition


Record = LogRecord | MutationRecord | DefinitionRecord


@dataclass(frozen=True, slots=True)
class Reading:
    """The log, the mutations and the definitions of a table.

    Each is read at a moment of its own, in this order.
    """

    log: tuple[LogRecord, ...] = ()
    mutations: tuple[MutationRecord, ...] = ()
    definitions: tuple[DefinitionRecord, ...] = ()

    def __iter__(self) -> Iterator[Record]:
        yield from chain(self.log, self.mutations, self.definitions)

    @property
    def newest(self) -> int:
        """The largest zxid; 0 for nothing."""
        return max((record.zxid for record in self), default=0)

    def complete(self, later: Reading) -> Reading:
        """Returns what this reading or the later one has. A list may have been trimmed between them."""
        return Reading(
            tuple(dict.fromkeys((*self.log, *later.log))),
            tuple({record.mutation.mutation_id: record for record in (*self.mutations, *later.mutations)}.values()),
            tuple(dict.fromkeys((*self.definitions, *later.definitions))),
        )


def build_changes(
    records: Iterable[Record],
    own: Origin | OwnOrigins,
    *,
    after: int = 0,
    previous: int = 0,
    failed: Collection[PartName] = (),
    lost: Collection[PartName] = (),
) -> list[Change]:
    """Returns the changes behind the place ``after``, in the order of their places.

    ``own``: the origin of the table's own changes, or the origins of its epochs; ``previous``: the zxid of the last
    of them that was sent up to ``after``. ``failed``: parts whose quorum failed. ``lost``: blocks of which no rows are
    left anywhere; some may be left of a merged part that was given up.

    Raises ``UserError`` 48 for a command that has no place in the order of blocks.
    """
    ordered = sorted((record for record in records if record.zxid > after), key=lambda record: record.zxid)
    changes: list[Change] = []
    refused, gone, origins = frozenset(failed), frozenset(lost), OwnOrigins.of(own)
    for zxid, together in groupby(ordered, key=lambda record: record.zxid):
        group = list(together)
        batches = [r.entry for r in group if isinstance(r, LogRecord) and is_batch(r.entry)]
        if batches:  # its mutations and definitions have the same zxid, and are in the entry
            changes += chain.from_iterable(read_carried_changes(entry, zxid) for entry in batches)
            continue
        origin = origins.find(zxid)
        before = previous if previous and origins.find(previous) == origin else 0  # each epoch is a stream of its own
        change = _own_change(Position(origin, zxid), group, before, refused, gone)
        if change is not None:
            changes.append(change)
            previous = zxid
    return changes


def _own_change(
    position: Position, group: Sequence[Record], previous: int, failed: Set[PartName], lost: Set[PartName]
) -> Change | None:
    """Returns the change of the records of one zxid; ``None`` if they change no rows."""
    change = Change(position, position.zxid, min(record.created_ms for record in group), previous)
    for record in group:
        if isinstance(record, MutationRecord):
            change = _with_mutation(change, record.mutation)
        elif isinstance(record, DefinitionRecord):
            change = replace(change, definitions=(*change.definitions, record.definition))
        elif record.entry.type in _CHANGES:
            change = _with_entry(change, record.entry, failed, lost)
    return None if change.is_empty else change


def _with_mutation(change: Change, mutation: MutationEntry) -> Change:
    added = Mutation(mutation.text, tuple(sorted(mutation.numbers.items())))
    return replace(change, mutations=(*change.mutations, added))


def _with_entry(change: Change, entry: LogEntry, failed: Set[PartName], lost: Set[PartName]) -> Change:
    if entry.type is EntryType.DROP_PART:
        raise UserError(
            "NOT_IMPLEMENTED",
            f"The stream cannot pass the drop of part {entry.new_part}: it has no place in the order of blocks. "
            "Start behind it, or with a bootstrap",
        )
    drops = [Drop(gone.partition_id, gone.max_block + 1) for gone in entry.removed_ranges]
    blocks = [block for block in _entry_blocks(entry) if block.part not in failed]
    if lost:
        blocks = [replace(block, is_lost=block.part in lost) for block in blocks]
    return replace(change, blocks=(*change.blocks, *blocks), drops=(*change.drops, *drops))


def _entry_blocks(entry: LogEntry) -> list[Block]:
    if entry.type is EntryType.REPLACE_RANGE:
        return [Block(s.part, s.content_hash, s.rows, s.size_bytes) for s in entry.replace_parts]
    if entry.type not in _BLOCKS or entry.is_restored or entry.new_part is None:
        return []
    return [Block(entry.new_part, entry.content_hash, entry.rows, entry.size_bytes, entry.block_id)]
