"""Decide with which vector a link begins behind a place in its source's stream.

Of the source's own origin the target counts as having everything up to that place. Of the other origins, which links
brought to the source, it counts as having what the source had *there*: their changes behind it are sent.
"""

from __future__ import annotations

from collections.abc import Sequence

from coordination.links.positions import Origin, Position
from coordination.links.stream.change import Change
from coordination.links.version_vector import VersionVector


def find_begin(
    begin: Position, changes: Sequence[Change], cuts: Sequence[int], vector: VersionVector, at: int
) -> VersionVector | None:
    """Returns the vector of a target that begins at ``begin``, of the source's own origin.

    ``changes`` and ``cuts``: what the source sent of the stream behind it. ``vector``: what the source had of other
    origins at the later place ``at``. ``None``: what was sent does not reach that place.
    """
    if at > begin.zxid and not (cuts and cuts[-1] >= at):
        return None
    later: dict[Origin, int] = {}
    for change in changes:
        if change.position.origin != begin.origin:
            later.setdefault(change.position.origin, change.previous)
    found = VersionVector().begin_at(begin)
    for position in vector:
        if position.origin == begin.origin:
            continue
        zxid = min(position.zxid, later.get(position.origin, position.zxid))
        if zxid:
            found = found.begin_at(Position(position.origin, zxid))
    return found
