"""The vector of a linked table: for each origin, the last change that the table has.

The changes of one origin arrive in their order through any path, so one zxid for each origin says which of them are
applied. Tarantool keeps the same ("vclock"). The node's content is JSON::

    {"version":1,"origins":{"<origin>":{"applied":120,"begin":7}, "<origin>":{"applied":9,"forgotten":true}}}

``begin`` is where the table's copy of the origin begins: a link that starts at a position has nothing before it. With
``"place":true`` the entry only says how far a link has gone through a stream whose table made no changes itself.
``"idle":[98,120]`` says that the origin has no change between these places. It counts while the second one is
``applied``: a server that does not know the key moves that one alone.
Unknown keys are kept and written back, those of an origin too. An unknown version is refused.

Invariants: no entry goes back over a change (only a follower of a fork gives a place without changes up), and none is
removed: a forgotten origin leaves a mark, which covers all its changes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from coordination.links.positions import MAX_ZXID, Origin, Position
from parts.common.errors import ConflictError, CorruptionError, UserError

FORMAT_VERSION = 1
MAX_VECTOR_BYTES = 64 * 1024
"""Every batch rewrites the vector, so it must stay a small part of a request."""


@dataclass(frozen=True, slots=True)
class VectorEntry:
    """The changes of one origin that a table has: those after ``begin`` up to ``applied``."""

    applied: int
    begin: int = 0
    is_forgotten: bool = False
    """The origin is gone for good: whatever still arrives of it is dropped."""
    is_place: bool = False
    """The entry is a place in a source's stream alone: no change of the origin was applied."""
    extra: tuple[tuple[str, object], ...] = field(default=(), compare=False)
    idle_after: int | None = field(default=None, compare=False)
    """The origin has no change behind this zxid, up to ``applied``; ``None``: nobody knows."""

    @property
    def last_change(self) -> int:
        """No change of the origin lies between this zxid and ``applied``."""
        return self.applied if self.idle_after is None else self.idle_after

    def move(self, applied: int, last_change: int) -> VectorEntry:
        """Returns the entry at another place, with no change between ``last_change`` and that one."""
        return replace(self, applied=applied, idle_after=last_change if last_change < applied else None)

    def join(self, other: VectorEntry) -> VectorEntry:
        """Returns what a table has that has the changes of both.

        If there is a hole between them, only the later ones count as a whole.
        """
        later, earlier = (self, other) if self.applied >= other.applied else (other, self)
        if later.applied == earlier.applied:
            later = later.move(later.applied, min(later.last_change, earlier.last_change))
        has_hole = earlier.applied < later.begin
        return replace(
            later,
            begin=later.begin if has_hole else min(later.begin, earlier.begin),
            is_forgotten=later.is_forgotten or earlier.is_forgotten,
            is_place=later.is_place and earlier.is_place,
            extra=tuple({**dict(earlier.extra), **dict(later.extra)}.items()),
        )

    def to_document(self) -> dict[str, object]:
        """Returns the entry as a JSON object, without values that are defaults."""
        document: dict[str, object] = {"applied": self.applied}
        if self.begin:
            document["begin"] = self.begin
        if self.is_forgotten:
            document["forgotten"] = True
        if self.is_place:
            document["place"] = True
        if self.idle_after is not None:
            document["idle"] = [self.idle_after, self.applied]
        return {**document, **dict(self.extra)}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> VectorEntry:
        """Parses the JSON object. Raises ``ValueError``, ``KeyError`` or ``TypeError``."""
        rest = dict(document)
        applied, begin, forgotten = rest.pop("applied"), rest.pop("begin", 0), rest.pop("forgotten", False)
        place = rest.pop("place", False)
        idle_after, idle_until = rest.pop("idle", (applied, applied))
        for zxid in (applied, begin, idle_after):
            if type(zxid) is not int or not 0 <= zxid <= MAX_ZXID:
                raise ValueError(f"{zxid!r} is no zxid")
        if type(forgotten) is not bool or type(place) is not bool:
            raise ValueError(f"forgotten is {forgotten!r}, place is {place!r}")
        entry = cls(applied, begin, forgotten, place, tuple(rest.items()))
        return entry.move(applied, idle_after) if idle_until == applied else entry


@dataclass(frozen=True, slots=True)
class VersionVector:
    """The vector of one table. Immutable: every change returns another vector."""

    entries: Mapping[Origin, VectorEntry] = field(default_factory=dict)
    extra: tuple[tuple[str, object], ...] = field(default=(), compare=False)

    def __hash__(self) -> int:
        return hash(frozenset(self.entries.items()))

    def applied(self, origin: Origin) -> int:
        """Returns the zxid up to which the origin's changes are applied; 0 if none is."""
        entry = self.entries.get(origin)
        return entry.applied if entry is not None else 0

    def last_change(self, origin: Origin) -> int:
        """Returns the zxid behind which the origin has no change up to the applied one; 0 if none is applied."""
        entry = self.entries.get(origin)
        return entry.last_change if entry is not None else 0

    def covers(self, position: Position) -> bool:
        """Tells whether the change at the position is applied, or must never be."""
        entry = self.entries.get(position.origin)
        return entry is not None and (entry.is_forgotten or position.zxid <= entry.applied)

    def missing_from(self, other: VersionVector) -> list[Position]:
        """Lists the positions of ``other`` that this vector does not cover."""
        return [position for position in other if not self.covers(position)]

    def covers_vector(self, other: VersionVector) -> bool:
        """Tells whether this vector is at or above ``other`` in every origin."""
        return not self.missing_from(other)

    def __iter__(self) -> Iterator[Position]:
        """Yields the last applied position of each origin, sorted by origin."""
        for origin in sorted(self.entries):
            yield Position(origin, self.entries[origin].applied)

    def __len__(self) -> int:
        return len(self.entries)

    def begin_at(self, position: Position) -> VersionVector:
        """Returns the vector of a table that takes the origin's changes after the position.

        The table has none of the changes before.
        """
        if position.origin in self.entries:
            raise ConflictError(
                "INCORRECT_DATA", f"The table has changes of origin {position.origin}: it cannot begin at {position}"
            )
        return self._with(position.origin, VectorEntry(position.zxid, begin=position.zxid))

    def begin_with(self, source: VersionVector) -> VersionVector:
        """Returns the vector of a table that takes all that the source's table gets from now on.

        It takes nothing from before. ``source`` has the source's own origin too. Origins that this table has already
        stay as they are.
        """
        begun = {
            origin: VectorEntry(entry.applied, begin=entry.applied, idle_after=entry.idle_after)
            for origin, entry in source.entries.items()
        }
        return replace(self, entries={**begun, **self.entries})

    def advance(self, position: Position) -> VersionVector:
        """Returns the vector with the origin's changes applied up to the position.

        Raises ``ConflictError`` 117 (INCORRECT_DATA) if that is a step back.
        """
        entry = self.entries.get(position.origin, VectorEntry(0))
        if position.zxid < entry.applied:
            raise ConflictError(
                "INCORRECT_DATA",
                f"The vector would go back from {Position(position.origin, entry.applied)} to zxid {position.zxid}",
            )
        is_there = position.zxid == entry.applied
        return self._with(position.origin, entry if is_there else entry.move(position.zxid, position.zxid))

    def pass_idle(self, position: Position) -> VersionVector:
        """Returns the vector at the position; the origin has no change between there and where it was.

        Raises as :meth:`advance`.
        """
        found, entry = self.advance(position), self.entries.get(position.origin, VectorEntry(0))
        return found._with(position.origin, entry.move(position.zxid, entry.last_change))

    def apply(self, position: Position) -> VersionVector:
        """Returns the vector with the change at the position applied. Raises as :meth:`advance`."""
        found = self.advance(position)
        entry = found.entries[position.origin]
        return found._with(position.origin, replace(entry, is_place=False)) if entry.is_place else found

    def go_on_at(self, place: Position) -> VersionVector:
        """Returns the vector of a table that has a stream up to a place, from which a link goes on."""
        if place.origin in self.entries:
            return self if self.covers(place) else self.pass_idle(place)
        return self._with(place.origin, VectorEntry(place.zxid, begin=place.zxid, is_place=True))

    def lower_to(self, other: VersionVector, origins: Iterable[Origin]) -> VersionVector:
        """Returns the vector with these origins where ``other`` has them: no change of theirs lies between."""
        vector = self
        for origin in origins:
            entry = self.entries[origin]
            applied = max(other.applied(origin), entry.begin)
            vector = vector._with(origin, entry.move(applied, min(entry.last_change, applied)))
        return vector

    def keep_forgotten(self) -> VersionVector:
        """Returns the vector of which only the forgotten origins are left."""
        return replace(self, entries={origin: entry for origin, entry in self.entries.items() if entry.is_forgotten})

    def with_place(self, origin: Origin) -> VersionVector:
        """Returns the vector in which the origin's entry is a place alone."""
        return self._with(origin, replace(self.entries[origin], is_place=True))

    def join(self, other: VersionVector) -> VersionVector:
        """Returns the vector of a table that has the changes of both."""
        joined = dict(self.entries)
        for origin, entry in other.entries.items():
            joined[origin] = joined[origin].join(entry) if origin in joined else entry
        return VersionVector(joined, tuple({**dict(other.extra), **dict(self.extra)}.items()))

    def forget(self, origin: Origin) -> VersionVector:
        """Returns the vector with the mark that the origin is gone for good. Its zxid stays."""
        return self._with(origin, replace(self.entries.get(origin, VectorEntry(0)), is_forgotten=True))

    def _with(self, origin: Origin, entry: VectorEntry) -> VersionVector:
        return replace(self, entries={**self.entries, origin: entry})

    def to_bytes(self) -> bytes:
        """Returns the node's content. Raises ``UserError`` 290 (LIMIT_EXCEEDED) for too many origins."""
        origins = {str(origin): self.entries[origin].to_document() for origin in sorted(self.entries)}
        document = {"version": FORMAT_VERSION, "origins": origins, **dict(self.extra)}
        data = json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()
        if len(data) > MAX_VECTOR_BYTES:
            raise UserError(
                "LIMIT_EXCEEDED",
                f"The vector of {len(self.entries)} origins takes {len(data)} bytes, at most {MAX_VECTOR_BYTES} are "
                "allowed",
            )
        return data

    @classmethod
    def parse(cls, data: bytes) -> VersionVector:
        """Parses the node's content; no bytes are the empty vector. Raises ``CorruptionError``."""
        if not data:
            return cls()
        try:
            document = json.loads(data)
            version = document.pop("version")
            if version != FORMAT_VERSION:
                raise ValueError(f"version {version}, this server understands {FORMAT_VERSION}")
            origins = document.pop("origins")
            entries = {Origin.parse(text): VectorEntry.from_document(entry) for text, entry in origins.items()}
        except (ValueError, KeyError, TypeError, AttributeError, UserError) as error:
            raise CorruptionError(f"Cannot read the vector {data[:200]!r}: {error}", name="CORRUPTED_DATA") from error
        return cls(entries, tuple(document.items()))
