"""The place F of a bootstrap: decides whether a replica's parts are its table as of F.

A target that takes the parts and then the changes behind F must have every change once. So F is a cut (``cuts``), what
is at or below it is carried out in the parts, and nothing above it is. The replica rests its pull while this is
examined; its parts then contain nothing above the last log entry that it pulled, but for its own INSERTs, which are
active before their entries are pulled (:func:`select_held_parts`).

F is not below the last pulled entry, nor below the definition, the vector and the registration of the link, and not at
or above the next entry. The newest mutation is the better F if it is such a place: nothing in the log says that a
mutation found no rows to change, and a target that has it must not be told for ever that its source lacks it. If there
is no such place, or something at or below it is not done, the replica pulls on, and a later F is looked for.
YugabyteDB likewise takes the place of a stream before it copies a table; its copy is then not of one place, and the
changes behind it are applied over it again.

The reads of a :class:`RestingReplica` have an order, which is the proof as in ``frontier``: a number that was taken
before a change at or below F is still locked, or its commit is among the entries and mutations that are read later.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from coordination.links.positions import Epoch, Origin
from coordination.links.stream.change_stream import LogRecord, MutationRecord, build_changes
from coordination.links.stream.frontier import Lock
from coordination.log.log_entry import LIST_KEY, EntryType, LogEntry
from parts.common.part_name import PartName

ROWS_STAY = (EntryType.MERGE_PARTS, EntryType.MUTATE_PART, EntryType.ALTER_METADATA)
"""Entries that may still be queued: what they leave undone is seen in the parts, or changes no rows."""
_NOBODY = Origin("", 0, Epoch(0, 0))
"""The origin of changes of which only the numbers are looked at."""


@dataclass(frozen=True, slots=True)
class RestingReplica:
    """A replica while its pull rests, read in the order of the fields."""

    queued: tuple[LogEntry, ...]
    """The entries that it has pulled and not carried out."""
    floor: int
    """The newest zxid among the last pulled entry, the definition, the vector and the link's registration."""
    last_mutation: int
    """The zxid of the newest mutation; 0 if there is none."""
    locks: tuple[Lock, ...]
    open_quorums: frozenset[PartName]
    """All parts that wait, those of transactions too."""
    failed_quorums: frozenset[PartName]
    mutations: tuple[MutationRecord, ...]
    parts: tuple[PartName, ...]
    """The active parts."""
    behind: tuple[LogRecord, ...]
    """The log entries that it has not pulled."""


def find_places(replica: RestingReplica) -> list[int]:
    """Returns what may be F, the best first.

    Nothing if an entry that is not pulled lies at or below the floor.
    """
    following = min((record.zxid for record in replica.behind), default=None)
    places = sorted({replica.floor, max(replica.floor, replica.last_mutation)}, reverse=True)
    return [place for place in places if following is None or place < following]


def select_held_parts(replica: RestingReplica) -> list[PartName]:
    """Returns the parts as of F: without own INSERTs that it has not pulled."""
    later = {part for record in replica.behind for part in record.entry.created_parts}
    return [part for part in replica.parts if part not in later]


def explain_unfinished(replica: RestingReplica, place: int, *, is_ordered: bool = False) -> str:
    """Says why the parts are not the table as of ``place``, or why that is no cut; "" if they can be held.

    ``is_ordered``: the order of blocks decides which row stays.
    """
    return next(_find_problems(replica, place, is_ordered), "")


def _find_problems(replica: RestingReplica, place: int, is_ordered: bool) -> Iterator[str]:
    for entry in replica.queued:
        if entry.type not in ROWS_STAY:
            yield f"the replica has not carried out {entry.type.value} {entry.new_part or entry.transaction}"
    parts = select_held_parts(replica)
    for part in parts:
        if any(part.covers(waiting) for waiting in replica.open_quorums):
            yield f"the quorum of part {part} is open"
        if part in replica.failed_quorums:
            yield f"the quorum of part {part} has failed, and the part is not taken back yet"
    for record in replica.mutations:
        lacking = record.mutation.list_parts_to_change(parts) if record.zxid <= place else []
        if lacking:
            yield f"mutation {record.mutation.mutation_id} is not applied to part {lacking[0]}"
    yield from _find_inversions(replica, parts, place, is_ordered)


def _find_inversions(replica: RestingReplica, parts: Sequence[PartName], place: int, is_ordered: bool) -> Iterator[str]:
    """Yields what would be parted by the place though its numbers contradict the order of commits."""
    for record in replica.behind:
        if record.entry.type is EntryType.DROP_PART or LIST_KEY in dict(record.entry.extra):
            yield f"log entry {record.entry.new_part or record.entry.transaction} has to be carried out first"
            return
    blocks = _highest((part.partition_id, part.max_block) for part in parts)
    before = [record.mutation for record in replica.mutations if record.zxid <= place]
    commands = _highest(pair for mutation in before for pair in mutation.numbers.items())
    behind = [record for record in replica.mutations if record.zxid > place]
    changes = build_changes([*replica.behind, *behind], _NOBODY)
    for lock in replica.locks:
        if _is_below(lock.partition_id, lock.number, commands) or (
            (is_ordered or lock.may_be_command) and _is_below(lock.partition_id, lock.number, blocks)
        ):
            yield f"block number {lock.number} of partition {lock.partition_id} is not decided"
    for change in changes:
        for partition_id, number in change.command_numbers():
            if _is_below(partition_id, number, blocks):
                yield f"a command behind the place has the lower number {number} of partition {partition_id}"
        for partition_id, number in change.block_numbers():
            if _is_below(partition_id, number, commands) or (is_ordered and _is_below(partition_id, number, blocks)):
                yield f"a block behind the place has the lower number {number} of partition {partition_id}"


def _highest(numbers: Iterable[tuple[str, int]]) -> dict[str, int]:
    highest: dict[str, int] = {}
    for partition_id, number in numbers:
        highest[partition_id] = max(number, highest.get(partition_id, number))
    return highest


def _is_below(partition_id: str, number: int, highest: Mapping[str, int]) -> bool:
    return number < highest.get(partition_id, number)
