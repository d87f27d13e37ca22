"""The fork: one multi for all tables that are promoted together.

It sets, and does not only check, every vector node with the version that was read, and every gate with the new epoch
and the fork. So a batch under way fails, and nothing was committed between what was read and the fork.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from coordination.keeper.interface import Create, Delete, Keeper, Op, SetData
from coordination.links.link_names import name_path
from coordination.links.positions import Epoch, Origin, Position
from coordination.links.switching.lineage import EpochFork, Lineage
from coordination.links.switching.switching_gate import FORK_OWNER, TICKET, end_promotion, write_facts
from coordination.links.version_vector import VersionVector
from coordination.nodes.gate import Gate
from coordination.nodes.gate_link import GateLink
from coordination.nodes.paths import TablePaths


@dataclass(frozen=True, slots=True)
class TableNow:
    """A closed table, as it was read for its fork."""

    table: TablePaths
    own: Origin
    gate: Gate
    gate_version: int
    vector: VersionVector
    vector_version: int | None
    """``None``: there is no node."""
    last_own: Position | None
    """The last change of its present epoch."""
    newest: int
    """No commit is above this zxid."""


@dataclass(frozen=True, slots=True)
class ForkedTable:
    """The fork of one table."""

    now: TableNow
    fork: EpochFork
    link: str
    """The link that brought changes here, and ends; empty for the old source's own fork."""
    link_children: Sequence[str] = ()
    """Nodes below the link's definition."""
    registered: Sequence[tuple[GateLink, Sequence[Op]]] = ()
    """The links that take changes from here from now on."""
    telling: Sequence[dict[str, str]] = ()
    """Who must be told of the fork."""


def next_epoch(own: Origin, nonce: int) -> Origin:
    """Returns the origin of a table's next epoch. ``nonce`` is a random number."""
    return replace(own, epoch=Epoch(own.epoch.counter + 1, nonce & (2**64 - 1)))


def add_former_own(vector: VersionVector, last_own: Position | None) -> VersionVector:
    """Returns the vector of a table that takes a new epoch.

    What it made in the former one is another origin's.
    """
    if last_own is None or vector.covers(last_own):
        return vector
    return vector.advance(last_own)


def make_fork(now: TableNow, ended: Origin, by: Origin, source: tuple[str, str, str], made_ms: int) -> EpochFork:
    """Returns the fork of a table at its present vector, which ends the epoch of ``ended``.

    ``source``: cluster, database and table that begin the next one.
    """
    vector = add_former_own(now.vector, now.last_own)
    return EpochFork(Position(ended, vector.applied(ended)), by, *source, vector, made_ms)


def fork_ops(tables: Sequence[ForkedTable]) -> list[Op]:
    """Returns the operations of the fork of all these tables."""
    return [op for table in tables for op in _table_ops(table)]


def _table_ops(forked: ForkedTable) -> list[Op]:
    now, paths = forked.now, forked.now.table.linked
    gate = end_promotion(now.gate).without_bar(TICKET).without_bar(FORK_OWNER)
    for link, _ in forked.registered:  # before others go: a table that keeps changes goes on keeping them
        gate = gate.with_link(link)
    if forked.link:
        gate = gate.without_link(forked.link)
    lineage = Lineage.read(now.gate).follow(forked.fork).end_epoch(Position(now.own, now.newest))
    facts = {"ticket": None, "asked": None, "telling": list(forked.telling) or None}
    gate = write_facts(lineage.write(replace(gate, epoch=str(forked.fork.by.epoch))), **facts)
    vector = forked.fork.vector.to_bytes()
    ops: list[Op] = [
        Create(paths.vector, vector)
        if now.vector_version is None
        else SetData(paths.vector, vector, now.vector_version),
        SetData(now.table.gate, gate.to_bytes(), now.gate_version),
    ]
    for _, each in forked.registered:
        ops += each
    if forked.link:
        path = paths.incoming_link(forked.link)
        ops += [*(Delete(f"{path}/{child}") for child in forked.link_children), Delete(path)]
        ops.append(Delete(name_path(forked.link)))
    return ops


def commit_fork(keeper: Keeper, tables: Sequence[ForkedTable], along: Sequence[Op] = ()) -> None:
    """Carries the fork out, for all tables or none, with other operations. Raises what the multi raises."""
    keeper.multi([*fork_ops(tables), *along])
