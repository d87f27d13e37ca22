"""The copy of a table at a place F of its change stream, as the target of a link plans it.

The giver holds its parts as of F (:class:`HeldTable`). The taker copies them under the same plan again and again, each
time with a later F, while everything else goes on: what it has by name and content is kept. When little is left, it
closes its own table and copies the last difference. Then one commit puts the parts in the place of what the table had.

Decisions, without I/O:

- Parts get new names: one number each, in the order of the giver's blocks. A part that was merged or mutated there is a
  level-0 part here, with files that stay as they are.
- The vector afterwards is the giver's. It must be at or above this table's in every origin, or changes would be undone.
- The log entry is a batch that carries a mark for each origin: its changes up to a zxid came at once. Whoever follows
  this table and has them passes the mark; others find a gap there, and must be copied anew too.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from coordination.links.change import Change
from coordination.links.positions import Origin, Position
from coordination.links.version_vector import VersionVector
from parts.common.part_name import PartName

MOST_ROUNDS = 6
"""After so many copies the table is closed even if much is left: the giver changes faster than its parts travel."""


@dataclass(frozen=True, slots=True)
class HeldPart:
    """A part of the giver as of F. The name is the giver's."""

    name: PartName
    content_hash: str
    rows: int
    size_bytes: int
    """As in log entries: uncompressed."""
    file_bytes: int
    """What travels."""

    @property
    def key(self) -> str:
        """What tells it from other parts; a plain file name."""
        return f"{self.name}-{self.content_hash}"


@dataclass(frozen=True, slots=True)
class HeldTable:
    """A giver's table as of F, held for one link."""

    lease: str
    """The name of the hold."""
    origin: Origin
    """Identity and epoch of the giver's table."""
    place: int
    """F."""
    vector: VersionVector
    """What the parts contain, with the giver's own changes up to F."""
    fingerprint: str
    """Equal fingerprints of two tables: files can be taken as they are."""
    parts: tuple[HeldPart, ...]
    block_ids: tuple[tuple[str, PartName], ...] = ()
    """Deduplication ids and the parts of their blocks as they were inserted; the newest id first."""

    @property
    def position(self) -> Position:
        """F in the giver's stream."""
        return Position(self.origin, self.place)


@dataclass(frozen=True, slots=True)
class CopyPlan:
    """What to do with each held part, and what to throw away."""

    kept: tuple[HeldPart, ...]
    """Copied in an earlier round."""
    linked: tuple[tuple[HeldPart, PartName], ...]
    """The same rows are in an active part of this table."""
    fetched: tuple[HeldPart, ...]
    surplus: tuple[str, ...]
    """Keys of earlier copies that F no longer has."""

    @property
    def fetch_bytes(self) -> int:
        """The bytes that must travel."""
        return sum(part.file_bytes for part in self.fetched)


def plan_copy(
    parts: Iterable[HeldPart], copied: Collection[str], active: Mapping[tuple[str, str], PartName]
) -> CopyPlan:
    """Plans one round.

    ``copied``: the keys that are here already. ``active``: (partition, content hash) → an active part of this table,
    of which files can be linked.
    """
    kept, linked, fetched, keys = [], [], [], set()
    for part in parts:
        keys.add(part.key)
        same = active.get((part.name.partition_id, part.content_hash))
        if part.key in copied:
            kept.append(part)
        elif same is not None:
            linked.append((part, same))
        else:
            fetched.append(part)
    surplus = tuple(sorted(key for key in copied if key not in keys))
    return CopyPlan(tuple(kept), tuple(linked), tuple(fetched), surplus)


def is_little_left(missing_bytes: int, rounds: int, little_bytes: int) -> bool:
    """Tells whether the table can be closed for the last copy: after so many rounds it is."""
    return missing_bytes <= little_bytes or rounds >= MOST_ROUNDS


def number_parts(parts: Iterable[HeldPart], firsts: Mapping[str, int]) -> dict[PartName, PartName]:
    """Returns the names here by the names there.

    ``firsts``: by partition the first of as many consecutive numbers as it has parts.
    """
    numbered: dict[PartName, PartName] = {}
    following = dict(firsts)
    for part in sorted((part.name for part in parts), key=lambda name: (name.partition_id, name.min_block)):
        number = following[part.partition_id]
        following[part.partition_id] = number + 1
        numbered[part] = PartName(part.partition_id, number, number, 0)
    return numbered


def count_parts(parts: Iterable[HeldPart]) -> dict[str, int]:
    """Returns how many numbers each partition needs."""
    counts: dict[str, int] = {}
    for part in parts:
        counts[part.name.partition_id] = counts.get(part.name.partition_id, 0) + 1
    return counts


def rename_block_ids(
    block_ids: Sequence[tuple[str, PartName]], numbered: Mapping[PartName, PartName]
) -> list[tuple[str, PartName]]:
    """Returns the ids with the parts here that hold their blocks, in the same order.

    Ids of blocks that no part holds any more are left out.
    """
    by_partition: dict[str, list[PartName]] = {}
    for part in sorted(numbered, key=lambda name: (name.partition_id, name.min_block)):
        by_partition.setdefault(part.partition_id, []).append(part)
    renamed = []
    for block_id, block in block_ids:
        parts = by_partition.get(block.partition_id, [])
        at = bisect_right(parts, block.min_block, key=lambda part: part.min_block) - 1
        if at >= 0 and block.max_block <= parts[at].max_block:
            renamed.append((block_id, numbered[parts[at]]))
    return renamed


def explain_missing(held: HeldTable, vector: VersionVector, own: Position | None) -> str:
    """Says what this table has and the held one lacks; "" if nothing.

    ``vector``: this table's. ``own``: the place of this table's last own change that must be kept, if there is one.
    """
    needed = [position for position in vector if not vector.entries[position.origin].is_forgotten]
    missing = [position for position in [*needed, *([own] if own else [])] if not held.vector.covers(position)]
    return f"it lacks changes up to {missing[0]}" if missing else ""


def bootstrap_vector(held: HeldTable, vector: VersionVector, own: Origin) -> VersionVector:
    """Returns the vector after the copy: the held one, and what this table must never take.

    ``own``: this table's own origin, which is not in its vector.
    """
    entries = {origin: entry for origin, entry in held.vector.entries.items() if origin != own}
    for origin, entry in vector.entries.items():
        if entry.is_forgotten:
            entries[origin] = replace(entries.get(origin, entry), is_forgotten=True)
    return VersionVector(entries, tuple({**dict(held.vector.extra), **dict(vector.extra)}.items()))


def make_marks(vector: VersionVector, commit_ms: int) -> list[Change]:
    """Returns the changes that the entry of a bootstrap carries.

    Each says that an origin's changes up to a zxid came at once: its predecessor is itself. So it is dropped where
    that zxid is applied, and a gap elsewhere.
    """
    return [
        Change(position, position.zxid, commit_ms, previous=position.zxid)
        for position in vector
        if position.zxid and not vector.entries[position.origin].is_forgotten
    ]
