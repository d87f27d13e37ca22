"""Stable times of a ``last_writer_wins`` table: up to when no older row can still arrive.

A tombstone hides older rows of its key, which may come late by a link. It may go when none can come any more. Each
table knows *marks* of origins::

    <root>/links/marks    {"version":1,"origins":{"<origin>":1764230400000000, …}}

The mark of an origin is a commit time: this table has every row of that origin which has this time or an earlier one.

- A table's own mark is the largest time in its log, once all block numbers are decided that were taken before this time
  was read. Numbers that are taken later read the log, so their times are larger (``commit_times``).
- A link brings marks with its answers. The source tells those that were written at or below the frontier that it names,
  and the target takes them when it has everything up to there: it has then every row that the source had.

The table's stable time is the smallest mark of all origins: its own, those of its vector, and those that it has marks
of. One that tells none keeps tombstones; a forgotten one does not count. Marks are no changes, have no place in the
stream and ask for no marks: an idle table stays idle. (Sent as changes, each would be a batch at every target.)

Invariants: a mark never goes back. A table's own mark is set only by :func:`raise_marks` with what :class:`OpenMark`
gave.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from coordination.inserts.block_numbers import read_committing_numbers
from coordination.inserts.partition_nodes import read_partition_nodes
from coordination.keeper.interface import BadVersion, Keeper, NodeExists, NoNode
from coordination.links.positions import Origin
from coordination.links.version_vector import VersionVector
from coordination.nodes.paths import TablePaths
from parts.common.errors import CorruptionError, UserError

_FORMAT_VERSION = 1
_ATTEMPTS = 10

Numbers = frozenset[tuple[str, int]]
"""Partition and number of everything that is being committed."""


@dataclass(frozen=True, slots=True)
class Marks:
    """The content of the node: by origin a commit time, in microseconds since 1970."""

    times: Mapping[Origin, int] = field(default_factory=dict)
    zxid: int = 0
    """The zxid of the write; 0 if there is no node."""
    version: int = -1

    def join(self, other: Mapping[Origin, int]) -> Mapping[Origin, int]:
        """Returns the larger time of each origin."""
        return {o: max(self.times.get(o, 0), other.get(o, 0)) for o in {**self.times, **other}}

    @classmethod
    def parse(cls, data: bytes, zxid: int = 0, version: int = -1) -> Marks:
        """Parses the node's content. Raises ``CorruptionError``."""
        try:
            document = json.loads(data)
            if document["version"] != _FORMAT_VERSION:
                raise ValueError(f"version {document['version']}, this server understands {_FORMAT_VERSION}")
            times = {Origin.parse(origin): int(time) for origin, time in document["origins"].items()}
        except (ValueError, KeyError, TypeError, AttributeError, UserError) as error:
            message = f"Cannot read the marks {data[:200]!r}: {error}"
            raise CorruptionError(message, name="CORRUPTED_DATA") from error
        return cls(times, zxid, version)


def encode_marks(times: Mapping[Origin, int]) -> bytes:
    """Returns the node's content."""
    origins = {str(origin): times[origin] for origin in sorted(times)}
    return json.dumps({"version": _FORMAT_VERSION, "origins": origins}, separators=(",", ":")).encode()


def read_marks(keeper: Keeper, table: TablePaths) -> Marks:
    """Returns a table's marks; none if the node is missing."""
    (found,) = keeper.get_many([table.linked.marks])
    return Marks.parse(found[0], found[1].modified_zxid, found[1].version) if found is not None else Marks()


def raise_marks(keeper: Keeper, table: TablePaths, times: Mapping[Origin, int]) -> Marks:
    """Joins marks into a table's own, and returns these. Writes nothing if none is larger."""
    path = table.linked.marks
    for _ in range(_ATTEMPTS):
        found = read_marks(keeper, table)
        joined = found.join(times)
        if joined == found.times:
            return found
        data = encode_marks(joined)
        try:
            if found.zxid:
                keeper.set(path, data, found.version)
            else:
                keeper.create(path, data)
        except (BadVersion, NodeExists, NoNode):
            continue
    return read_marks(keeper, table)


def list_committing(keeper: Keeper, table: TablePaths) -> Numbers:
    """Returns what is being committed now."""
    found = read_committing_numbers(keeper, table, list(read_partition_nodes(keeper, table)))
    return frozenset((partition_id, number) for partition_id, numbers in found.items() for number in numbers)


@dataclass(frozen=True, slots=True)
class OpenMark:
    """A mark that waits for numbers: ``time`` was read from the log before ``numbers`` were listed."""

    time: int
    numbers: Numbers

    def is_decided(self, committing: Numbers) -> bool:
        """Tells whether the numbers that were taken before are committed or given up."""
        return self.numbers.isdisjoint(committing)


def find_stable_time(own: Origin, vector: VersionVector, marks: Mapping[Origin, int]) -> int:
    """Returns the largest time up to which the table has every row of all its origins; 0 for none."""
    forgotten = {origin for origin, entry in vector.entries.items() if entry.is_forgotten}
    origins: Collection[Origin] = {own, *vector.entries, *marks} - forgotten
    return min(marks.get(origin, 0) for origin in origins)


class StableTime:
    """The stable time of a table as one replica uses it: so many seconds after it was seen.

    The delay also covers the clocks of clusters that are linked later. Not thread-safe, but for ``ripe``.
    """

    def __init__(self) -> None:
        self.ripe = 0
        """Tombstones of this commit time or an earlier one may go."""
        self._seen = 0
        self._seen_at = 0.0

    def observe(self, time: int, now: float, delay_seconds: float) -> None:
        """Takes what is stable at the monotonic time ``now``."""
        if self._seen > self.ripe and now - self._seen_at >= delay_seconds:
            self.ripe = self._seen
        if self._seen <= self.ripe < time:
            self._seen, self._seen_at = time, now
            if not delay_seconds:
                self.ripe = time
