"""Decide which of the changes that arrive are applied, and which prove that the stream cannot go on.

A change is dropped if the vector covers it, or if this table made it under its present identity and epoch: in a ring it
comes back. What the table made under a former identity or epoch is another origin's. So each change is applied once,
through however many paths it comes.

A stream that cannot go on stops its link until a person says what to do: after a gap, a fork, another identity or
epoch, or a source that lost its past.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from coordination.links.positions import Origin, Position
from coordination.links.stream.change import Change
from coordination.links.version_vector import VersionVector
from parts.common.errors import UserError


@dataclass(frozen=True, slots=True)
class Gap:
    """Changes of one origin that were sent once, and that the target never got."""

    origin: Origin
    first: int
    last: int
    """The missing changes have zxids from ``first`` to ``last``; ``last`` is one of them."""

    def __str__(self) -> str:
        what = f"changes {self.first} to {self.last}" if self.first < self.last else f"change {self.last}"
        return f"missing {what} of cluster {self.origin.cluster} (origin {self.origin})"


@dataclass(frozen=True, slots=True)
class BehindFork:
    """A change of an epoch that ended before it, at a fork that this table follows."""

    position: Position
    fork: int
    """The last zxid of the epoch that counts."""

    def __str__(self) -> str:
        return (
            f"change {self.position} lies behind the fork at {self.fork}, which this table follows; "
            "SYSTEM REJOIN REPLICATION LINK at its cluster settles it"
        )


@dataclass(frozen=True, slots=True)
class Fork:
    """The end of an epoch: what lies behind ``zxid`` is not part of the table for those who follow."""

    origin: Origin
    zxid: int


@dataclass(frozen=True, slots=True)
class Admission:
    """The changes to apply, in their order, and the vector with them.

    ``stop`` says why the next change is refused.
    """

    changes: tuple[Change, ...]
    vector: VersionVector
    stop: Gap | BehindFork | None = None


def admit_changes(
    vector: VersionVector, own: Origin, changes: Iterable[Change], forks: Collection[Fork] = ()
) -> Admission:
    """Selects the changes that the table with this vector has to apply.

    The selection ends before the first change that proves a gap or a fork.

    ``own``: the table's present identity and epoch.
    """
    ends: dict[Origin, int] = {}
    for fork in forks:
        ends[fork.origin] = min(fork.zxid, ends.get(fork.origin, fork.zxid))
    admitted: list[Change] = []
    for change in changes:
        if is_known(vector, own, change.position):
            continue
        stop = _find_gap(vector, change) or _find_fork(ends, change)
        if stop is not None:
            return Admission(tuple(admitted), vector, stop)
        vector = vector.apply(change.position)
        admitted.append(change)
    return Admission(tuple(admitted), vector)


def is_known(vector: VersionVector, own: Origin, position: Position) -> bool:
    """Tells whether the change is dropped because the table has it already, or must not have it."""
    return position.origin == own or vector.covers(position)


def _find_gap(vector: VersionVector, change: Change) -> Gap | None:
    applied = vector.applied(change.position.origin)
    return Gap(change.position.origin, applied + 1, change.previous) if change.previous > applied else None


def _find_fork(ends: dict[Origin, int], change: Change) -> BehindFork | None:
    end = ends.get(change.position.origin)
    return BehindFork(change.position, end) if end is not None and change.position.zxid > end else None


def require_same_source(
    name: str, origin: Origin, newest: int, vector: VersionVector, known: Origin, forks: Collection[Fork] = ()
) -> None:
    """Checks that the source is still the one from which the link has taken changes.

    ``name``: the source cluster's. ``origin`` and ``newest``: what its table is now, and its newest zxid. ``known``:
    what it was at the last batch; ``vector``: the target's. ``forks``: those in the source's lineage.

    Raises ``UserError``: 36 (BAD_ARGUMENTS) for another identity, epoch or fork, 246 (CORRUPTED_DATA) for a source
    whose ZooKeeper lost commits that the target has.
    """
    if difference := known.explain_difference(origin):
        fork = next((fork for fork in forks if fork.origin == known), None)
        where = f". Its epoch {known.epoch} ended at the fork {Position(known, fork.zxid)}" if fork is not None else ""
        raise UserError("BAD_ARGUMENTS", f"The source in cluster {name!r} is {difference}{where}")
    applied = vector.applied(origin)
    if newest < applied:
        raise UserError(
            "CORRUPTED_DATA",
            f"The source in cluster {name!r} has lost its past: its newest zxid is {newest}, and the target has its "
            f"changes up to {applied}",
        )


def require_one_name(known: Mapping[str, str], name: str, cluster: str) -> None:
    """Checks that a cluster has one name and a name one cluster.

    ``known``: name → UUID of the linked clusters. Raises ``UserError`` 36 (BAD_ARGUMENTS).
    """
    if known.get(name, cluster) != cluster:
        raise UserError("BAD_ARGUMENTS", f"Cluster {name!r} is {cluster} here, and was {known[name]}: two share a name")
    other = next((other for other, uuid in known.items() if uuid == cluster and other != name), None)
    if other is not None:
        raise UserError("BAD_ARGUMENTS", f"Cluster {cluster} is named {name!r} here, and was named {other!r}")
