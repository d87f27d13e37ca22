"""The lineage of a table: the forks that it follows or has met, and its own former epochs.

A *fork* is the vector at which a promotion began a new epoch. What the promoted table's source committed behind it is
not part of the table for those who follow. The lineage stands in the table's gate, so that it changes in the multi that
moves the gate::

    "lineage": {"forks":[<fork>,…],"met":[<fork>,…],"epochs":[["<origin>",120],…],"settled":["<origin>",…]}
    <fork>:    {"ended":"<origin>:131","by":"<origin>","cluster":"east","database":"d","table":"t","vector":{…},
                "made_ms":1700000000000,"ticket":"","link":"orders"}

A fork has the last change of the epoch that ended, the origin that begins, its table, and that table's vector then;
``ticket`` is that of the SWITCH which made it, ``link`` the one that was promoted: "" for none. ``"group":"trade"``
names the transactional group of links that was promoted as one: its tables have their forks at one moment.

``forks`` are those that the table follows, its own among them, the newest last. ``met`` are forks that it was told of
and does not follow: of the epoch in which it writes, and then its gate is shut, or of its source's, which the link
follows next. ``epochs`` are the table's own former epochs, each with a zxid that none of its commits is above and every
later commit is above. ``settled`` names the forks whose tail was taken out of this table. Each list keeps its newest
20. Unknown keys are kept.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from coordination.links.positions import Origin, Position
from coordination.links.stream.gap_check import Fork
from coordination.links.version_vector import VersionVector
from coordination.nodes.gate import Gate
from parts.common.errors import CorruptionError, UserError

LINEAGE_KEY = "lineage"
REJOIN_KEY = "rejoin"
"""Of a link's definition: the fork whose tail was taken out before the link copies its source."""
MOST_FORKS = 20
"""Older ones are forgotten: each takes some hundred bytes of the gate."""


@dataclass(frozen=True, slots=True)
class EpochFork:
    """One fork."""

    ended: Position
    """The epoch that ended, and the last of its changes that counts."""
    by: Origin
    """The table and epoch that began."""
    cluster: str
    """The name of the new source's cluster."""
    database: str
    table: str
    """The new source."""
    vector: VersionVector
    """The new source's, when its epoch began."""
    made_ms: int = 0
    ticket: str = ""
    """That of the SWITCH which made it; empty for PROMOTE."""
    link: str = ""
    """The link that was promoted; empty for an old source's own fork."""
    extra: tuple[tuple[str, object], ...] = field(default=(), compare=False)
    group: str = ""
    """The group of links that was promoted as one; empty for none."""

    @property
    def name(self) -> str:
        """Tells the fork from all others."""
        return str(self.by)

    def describe(self) -> str:
        """Names the fork for people."""
        return f"{self.ended}, where cluster {self.cluster} began epoch {self.by.epoch}"

    def to_json(self) -> dict[str, Any]:
        """Returns the fork as nodes and messages have it."""
        return {
            **dict(self.extra),
            "ended": str(self.ended),
            "by": str(self.by),
            "cluster": self.cluster,
            "database": self.database,
            "table": self.table,
            "vector": json.loads(self.vector.to_bytes()),
            "made_ms": self.made_ms,
            "ticket": self.ticket,
            "link": self.link,
            **({"group": self.group} if self.group else {}),
        }

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> EpochFork:
        """Reads one fork. Raises ``UserError`` 36 (BAD_ARGUMENTS) for what is none."""
        try:
            rest = dict(document)
            vector = VersionVector.parse(json.dumps(rest.pop("vector")).encode())
            ended, by = Position.parse(rest.pop("ended")), Origin.parse(rest.pop("by"))
            names = [str(rest.pop(key)) for key in ("cluster", "database", "table")]
            made_ms, ticket, link = int(rest.pop("made_ms", 0)), str(rest.pop("ticket", "")), str(rest.pop("link", ""))
            group = str(rest.pop("group", ""))
        except (ValueError, KeyError, TypeError, AttributeError, CorruptionError) as error:
            raise UserError("BAD_ARGUMENTS", f"{repr(document)[:200]} is no fork: {error}") from None
        return cls(ended, by, names[0], names[1], names[2], vector, made_ms, ticket, link, tuple(rest.items()), group)


@dataclass(frozen=True, slots=True)
class Lineage:
    """The forks of one table. Immutable."""

    forks: tuple[EpochFork, ...] = ()
    met: tuple[EpochFork, ...] = ()
    epochs: tuple[Position, ...] = ()
    settled: tuple[str, ...] = ()
    extra: tuple[tuple[str, object], ...] = field(default=(), compare=False)

    def find(self, name: str) -> EpochFork | None:
        """Returns the fork of this name that the table follows."""
        return next((fork for fork in self.forks if fork.name == name), None)

    def find_end(self, origin: Origin) -> EpochFork | None:
        """Returns the fork at which the epoch of this origin ended for the table."""
        return next((fork for fork in reversed(self.forks) if fork.ended.origin == origin), None)

    def find_successor(self, origin: Origin) -> EpochFork | None:
        """Returns the fork, followed or met, that ended the epoch of this origin."""
        return next((fork for fork in reversed((*self.forks, *self.met)) if fork.ended.origin == origin), None)

    def has_given_up(self, position: Position) -> bool:
        """Tells whether a change lies behind a fork that the table follows: its tail was taken out."""
        fork = self.find_end(position.origin)
        return fork is not None and position.zxid > fork.ended.zxid

    def list_ends(self) -> tuple[Fork, ...]:
        """Returns where epochs of others end, for those who check changes."""
        return tuple(Fork(fork.ended.origin, fork.ended.zxid) for fork in self.forks)

    def explain_conflict(self, fork: EpochFork) -> str:
        """Says which fork of the same epoch the table follows that is not this one; "" if there is none."""
        other = self.find_end(fork.ended.origin)
        if other is None or other.by == fork.by:
            return ""
        return f"it follows another fork of the same epoch: {other.describe()}"

    def follow(self, fork: EpochFork) -> Lineage:
        """Returns the lineage of a table that follows the fork: in place of another one of the same epoch."""
        others = [each for each in self.forks if each.ended.origin != fork.ended.origin and each.by != fork.by]
        met = tuple(each for each in self.met if each.ended.origin != fork.ended.origin)
        return replace(self, forks=(*others, fork)[-MOST_FORKS:], met=met)

    def meet(self, fork: EpochFork) -> Lineage:
        """Returns the lineage of a table that was told of a fork of the epoch in which it writes.

        It may have followed the fork since somebody looked.
        """
        if any(each.by == fork.by for each in (*self.met, *self.forks)):
            return self
        return replace(self, met=(*self.met, fork)[-MOST_FORKS:])

    def end_epoch(self, own: Position) -> Lineage:
        """Returns the lineage with an own epoch that ended: no commit of it is above the zxid."""
        return replace(self, epochs=(*self.epochs, own)[-MOST_FORKS:])

    def settle(self, name: str) -> Lineage:
        """Returns the lineage with the note that the tail behind a fork was taken out of the table."""
        return self if name in self.settled else replace(self, settled=(*self.settled, name)[-MOST_FORKS:])

    def to_json(self) -> dict[str, Any]:
        """Returns the value of the gate's key."""
        return {
            **dict(self.extra),
            "forks": [fork.to_json() for fork in self.forks],
            "met": [fork.to_json() for fork in self.met],
            "epochs": [[str(each.origin), each.zxid] for each in self.epochs],
            "settled": list(self.settled),
        }

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Lineage:
        """Reads a lineage. Raises ``UserError`` 36 (BAD_ARGUMENTS) for what is none."""
        try:
            rest = dict(document)
            forks, met = (tuple(map(EpochFork.of, rest.pop(key, ()))) for key in ("forks", "met"))
            epochs = tuple(Position(Origin.parse(text), int(zxid)) for text, zxid in rest.pop("epochs", ()))
            return cls(forks, met, epochs, tuple(map(str, rest.pop("settled", ()))), tuple(rest.items()))
        except (ValueError, TypeError, AttributeError) as error:
            raise UserError("BAD_ARGUMENTS", f"{repr(document)[:200]} is no lineage: {error}") from None

    @classmethod
    def read(cls, gate: Gate) -> Lineage:
        """Returns the lineage that a gate has. Raises ``CorruptionError``."""
        try:
            return cls.of(gate.others.get(LINEAGE_KEY, {}))
        except UserError as error:
            raise CorruptionError(error.message, name="CORRUPTED_DATA") from error

    def write(self, gate: Gate) -> Gate:
        """Returns the gate with this lineage."""
        return replace(gate, others={**gate.others, LINEAGE_KEY: self.to_json()})


def find_surplus(vector: VersionVector, known: Collection[VersionVector], by: Origin) -> list[Position]:
    """Lists the last changes that a table with this vector has and a new source has not.

    It may follow only if there are none. ``known``: the vector of the source's fork, and its present one, since a
    place may have the old epoch. ``by``: the new source. What that table itself made in a former epoch lies before the
    fork of its new one.
    """
    return [
        last
        for last in (Position(origin, vector.last_change(origin)) for origin in sorted(vector.entries))
        if not (vector.entries[last.origin].is_forgotten or vector.entries[last.origin].is_place)
        and (last.origin.cluster, last.origin.table) != (by.cluster, by.table)
        and last.zxid
        and not any(each.covers(last) for each in known)
    ]


def list_ahead(vector: VersionVector, known: VersionVector, by: Origin) -> list[Origin]:
    """Lists the origins of which a follower without surplus has read on behind what its new source has.

    No change lies there. ``by``: the new source.
    """
    return [
        position.origin
        for position in known.missing_from(vector)
        if (position.origin.cluster, position.origin.table) != (by.cluster, by.table)
        and not (vector.entries[position.origin].is_forgotten or vector.entries[position.origin].is_place)
    ]


def find_own_fork(known: Origin, present: Origin, lineage: Lineage) -> EpochFork | None:
    """Returns the fork that a link which follows ``known`` must follow; ``None`` while its epoch goes on.

    ``present`` and ``lineage``: of the link's source. Either somebody was promoted in its place, or it was promoted
    itself and its former epoch was another one.
    """
    successor = lineage.find_successor(known)
    if successor is not None:
        return successor
    if present == known or not lineage.forks:
        return None
    promoted = next((fork for fork in lineage.forks if fork.by == present), None)
    was_there = any(end.origin == known for end in lineage.epochs)  # since then it was promoted, and follows again
    return promoted or (lineage.forks[-1] if was_there else None)


def find_heard_fork(gate: Gate | None, source_origin: str) -> EpochFork | None:
    """Returns the fork that ended the epoch of a link's source, if the gate's table was told of one."""
    if gate is None or LINEAGE_KEY not in gate.others or not source_origin:
        return None
    return Lineage.read(gate).find_successor(Origin.parse(source_origin))
