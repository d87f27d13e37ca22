"""The copy of a table at a place F of its change stream, as the target of a link plans it.

The giver holds its parts as of F (:class:`HeldTable`). The taker copies them under the same plan again and again, each
time with a later F, while everything else goes on: what it has by name and content is kept. When little is left, it
closes its own table and copies the last difference. Then one commit puts the parts in the place of what the table had.

Decisions, without I/O:

- Parts get new names: one number each, in the order of the giver's blocks. A part that was merged or mutated there is a
  level-0 part here, with files that stay as they are. Where definitions differ, its rows become one part or several.
- The vector afterwards is the giver's. It must be at or above this table's in every origin, or changes would be undone.
- The log entry is a batch that carries a mark for each origin: its changes up to a zxid came at once. Whoever follows
  this table and has them passes the mark; others find a gap there, and must be copied anew too.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from coordination.links.positions import Origin, Position
from coordination.links.stream.change import Change
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
    origin: str = ""
    """The origin of all its rows, if the part keeps one place for them (``parts.table.row_version``)."""
    position: int = 0
    """With ``origin``: the zxid of their commit there."""

    def key(self, variant: str = "") -> str:
        """Returns what tells its copy from others; a plain file name.

        ``variant`` tells how the copy was written, if its files did not stay as they are.
        """
        return f"{self.name}-{self.content_hash}{variant}"


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
    definition_version: int = 0
    create_query: str = ""
    """The statement that makes such a table."""
    columns: str = ""
    """The columns with the history of their changes, as ZooKeeper has them: how rows are read where files cannot be
    taken."""
    commit_time: int = 0
    """The largest commit time in the giver's table, also of rows that are gone; 0 if rows have no versions."""

    @property
    def position(self) -> Position:
        """F in the giver's stream."""
        return Position(self.origin, self.place)


@dataclass(frozen=True, slots=True)
class CopyPlan:
    """The work of one round: what becomes of each held part, and what is thrown away."""

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
    parts: Iterable[HeldPart], copied: Collection[str], active: Mapping[tuple[str, str], PartName], variant: str = ""
) -> CopyPlan:
    """Plans one round.

    ``copied``: the keys that are here already. ``active``: (partition, content hash) → an active part of this table,
    of which files can be linked. ``variant``: see :meth:`HeldPart.key`.
    """
    kept, linked, fetched, keys = [], [], [], set()
    for part in parts:
        key = part.key(variant)
        keys.add(key)
        same = active.get((part.name.partition_id, part.content_hash))
        if key in copied:
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


Pieces = Mapping[PartName, Sequence[str]]
"""The giver's parts → the partitions of what each became here, in order: one part of its partition if its files stay,
several parts where its rows are written anew."""


def count_pieces(pieces: Pieces) -> dict[str, int]:
    """Returns how many numbers each partition needs."""
    return dict(Counter(partition_id for became in pieces.values() for partition_id in became))


def list_portions(counts: Mapping[str, int], most: int) -> list[tuple[str, int]]:
    """Splits counts into portions of at most ``most``, by partition."""
    return [(p, min(most, count - at)) for p, count in sorted(counts.items()) for at in range(0, count, most)]


def number_pieces(pieces: Pieces, numbers: Mapping[str, Iterable[int]]) -> dict[PartName, list[PartName]]:
    """Returns the names here of what each of the giver's parts became.

    ``numbers``: by partition at least as many ascending numbers as it has pieces.
    """
    following, numbered = {p: iter(each) for p, each in numbers.items()}, dict[PartName, list[PartName]]()
    for part in sorted(pieces, key=lambda name: (name.partition_id, name.min_block)):
        numbered[part] = []
        for partition_id in pieces[part]:
            number = next(following[partition_id])
            numbered[part].append(PartName(partition_id, number, number, 0))
    return numbered


def rename_block_ids(
    block_ids: Sequence[tuple[str, PartName]], numbered: Mapping[PartName, Sequence[PartName]]
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
            here = next((name for name in numbered[parts[at]] if name.partition_id == block.partition_id), None)
            renamed += [(block_id, here)] if here is not None else []
    return renamed


def explain_missing(held: HeldTable, vector: VersionVector, own: Position | None) -> str:
    """Says what this table has and the held one lacks; "" if nothing.

    ``vector``: this table's. ``own``: the place of this table's last own change that must be kept, if there is one.
    """
    entries = vector.entries
    needed = [each for each in vector if not (entries[each.origin].is_forgotten or entries[each.origin].is_place)]
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


def bootstrap_bar_owner(link_uuid: str) -> str:
    """Returns the owner of the bar with which a link's bootstrap closes the table."""
    return f"bootstrap of link {link_uuid}"
