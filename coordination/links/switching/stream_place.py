"""Find the place in a table's stream at which a follower with a given vector goes on."""

from __future__ import annotations

from collections.abc import Sequence

from coordination.links.positions import Origin
from coordination.links.stream.change import Change
from coordination.links.version_vector import VersionVector


def find_follower_place(
    begin: int,
    end: int,
    changes: Sequence[Change],
    cuts: Sequence[int],
    vector: VersionVector,
    own: Origin,
    follower: VersionVector,
    follower_own: Origin | None = None,
) -> int | None:
    """Returns the last place up to which the follower has everything.

    ``None``: it lacks what is not kept. ``changes`` and ``cuts``: of the stream between ``begin``, where the journal
    begins, and the frontier ``end``. ``vector``: the table's at the frontier. ``own``: the table, of whatever epoch;
    its own changes before ``begin`` are told by nobody. ``follower_own``: the follower, which has everything that it
    made itself.
    """
    first: dict[Origin, int] = {}
    for change in changes:
        first.setdefault(change.position.origin, change.previous)
    for position in vector:
        origin = position.origin
        entry = vector.entries[origin]
        if _is_of(origin, own) or _is_of(origin, follower_own) or entry.is_forgotten or entry.is_place:
            continue
        before = min(first.get(origin, entry.last_change), entry.last_change)  # a mark's predecessor is itself
        if before > follower.applied(origin) and not _is_forgotten(follower, origin):
            return None
    lacking = (change for change in changes if not follower.covers(change.position))
    missing = next((change.place for change in lacking if change.position.origin != follower_own), None)
    if missing is None:
        return end
    return max((cut for cut in (begin, *cuts) if cut < missing), default=begin)


def _is_of(origin: Origin, table: Origin | None) -> bool:
    return table is not None and (origin.cluster, origin.table) == (table.cluster, table.table)


def _is_forgotten(vector: VersionVector, origin: Origin) -> bool:
    entry = vector.entries.get(origin)
    return entry is not None and entry.is_forgotten
