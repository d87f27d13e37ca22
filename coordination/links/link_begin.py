"""Decide where a link begins in its source's stream, and with which vector.

The first cut at or behind the asked place is the link's beginning: for ``'now'`` that place is the registration, so
that nothing is missed that was committed after the link was made. Of the source's own origin the target then counts as
having everything up to that cut. Of the other origins, which links brought to the source, it counts as having what the
source had *at the cut*: their changes behind it are sent.
"""

from __future__ import annotations

from collections.abc import Sequence

from coordination.links.change import Change
from coordination.links.positions import Origin, Position
from coordination.links.version_vector import VersionVector


def find_begin(
    source: Origin, cuts: Sequence[int], changes: Sequence[Change], vector: VersionVector, vector_zxid: int
) -> VersionVector | None:
    """Returns the vector of a target that begins at the first of the cuts.

    ``None``: it is not known yet.

    ``cuts`` and ``changes``: what the source sent of the stream behind the asked place. ``vector``: the source's, read
    at or after ``vector_zxid``, which committed it, and before the changes were.
    """
    if not cuts:
        return None
    begin = cuts[0]
    if vector_zxid > cuts[-1]:  # batches that came in later are not among the changes
        return None
    later: dict[Origin, int] = {}
    for change in changes:
        if change.place > begin and change.position.origin != source:
            later.setdefault(change.position.origin, change.previous)
    found = VersionVector()
    for position in vector:
        if position.origin == source:
            continue
        zxid = min(position.zxid, later.get(position.origin, position.zxid))
        if zxid:
            found = found.begin_at(Position(position.origin, zxid))
    return found.begin_at(Position(source, begin))
