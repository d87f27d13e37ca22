"""Takes what siblings have and the tables of a group lack, as one cut.

It is one place of the source for all tables, at or below what the siblings have of each. A sibling that has more of one
table keeps it: what the source committed to the others meanwhile nobody knows.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from coordination.keeper.interface import SetData
from coordination.links.groups.cut_mark import CutMark
from coordination.links.groups.group_frontier import find_group_cut
from coordination.links.groups.group_switching import read_same_group
from coordination.links.groups.link_group import LinkGroup, group_path
from coordination.links.groups.tail_cuts import TailCuts
from coordination.links.link_nodes import StoredLink
from coordination.links.positions import Origin, Position
from coordination.links.stream.change import Change
from coordination.links.stream.gap_check import admit_changes
from engine.links.link_upstream import LinkUpstream
from engine.links.switching.local_tables import LocalTable, SwitchingServer
from engine.links.switching.siblings import Sibling
from engine.links.switching.tail_taking import find_place, opening_sibling
from engine.tables.capabilities.table_links import ChangesAnswer, GroupCut, IncomingBatch, TargetState
from parts.common.errors import ConflictError, UserError
from parts.common.query_status import QueryStatus

_ATTEMPTS = 10
_MOST_ANSWERS = 10_000
_WAIT_SECONDS = 0.5


@dataclass(frozen=True)
class TailTaker:
    """One table of the group, and its siblings, which take nothing more."""

    link: StoredLink
    local: LocalTable
    siblings: Sequence[Sibling]

    @property
    def source(self) -> Origin:
        """The table that is the source of all of them."""
        return Origin.parse(self.link.definition.source_origin)

    def find_best(self) -> tuple[Sibling | None, int]:
        """Returns the sibling that has most of the source, and up to where; ``None`` without one."""
        found = [(each.vector.applied(self.source), each) for each in self.siblings if each.vector is not None]
        place, best = max(found, key=lambda each: each[0], default=(0, None))
        return best, place


@dataclass(frozen=True)
class _Tail:
    """What a sibling gives."""

    cuts: TailCuts
    upstream: LinkUpstream
    answer: ChangesAnswer


def take_group_tail(
    server: SwitchingServer, group: LinkGroup, tables: Sequence[TailTaker], status: QueryStatus
) -> list[str]:
    """Brings all tables to the last place that the siblings have in common.

    Returns a sentence for each table, "" for none. Raises 36 (BAD_ARGUMENTS) for a tail that the group cannot take.
    """
    for _ in range(_ATTEMPTS):
        known, version = read_same_group(tables[0].local.keeper, group)
        best = [each.find_best() for each in tables]
        if not any(place > known.place for _, place in best):
            return [""] * len(tables)
        if any(place <= known.place for _, place in best):
            return [_say_left(sibling, place, known.place) for sibling, place in best]
        with ExitStack() as held:
            told = _take(server, tables, known, version, status, held)
        if told is not None:
            server.services.failpoint("promote.after_tail_batch")
            return told
    raise ConflictError("KEEPER_EXCEPTION", f"Others keep moving group {group.name!r}; repeat the statement")


def _take(
    server: SwitchingServer,
    tables: Sequence[TailTaker],
    group: LinkGroup,
    version: int,
    status: QueryStatus,
    held: ExitStack,
) -> list[str] | None:
    """Commits the cut; returns ``None`` if a vector moved meanwhile."""
    states = [each.local.links.target.read_target() for each in tables]
    tails = [_read_tail(server, each, state, status, held) for each, state in zip(tables, states, strict=True)]
    place = find_group_cut([tail.cuts for tail in tails], min(tail.cuts.reach for tail in tails))
    rows, best = [0] * len(tables), [each.find_best() for each in tables]
    if place > group.place:
        batches = [
            _make_batch(each, state, tail, place) for each, state, tail in zip(tables, states, tails, strict=True)
        ]
        rows = [sum(change.rows for change in batch.changes) for batch in batches]
        moved = SetData(group_path(group.name), group.advance(place, group.commit_ms).to_bytes(), version)
        cut = GroupCut(CutMark(place, group.place, group.uuid, commit_ms=group.commit_ms), (moved,), frozenset())
        targets = [each.local.links.target for each in tables]
        others = list(zip(targets[1:], batches[1:], strict=True))
        if not targets[0].apply_cut(batches[0], others, cut, status).is_applied:
            return None
    told = []
    for (sibling, reach), count in zip(best, rows, strict=True):
        assert sibling is not None
        text = f"cluster {sibling.cluster} was further ahead, at {reach}: {count} rows were taken from it"
        told.append(text + (f". {_say_left(sibling, reach, place)}" if reach > place else ""))
    return told


def _read_tail(
    server: SwitchingServer, table: TailTaker, state: TargetState, status: QueryStatus, held: ExitStack
) -> _Tail:
    """Reads all that the best sibling has and the table lacks; the sibling keeps it while ``held`` is open."""
    sibling, reach = table.find_best()
    assert sibling is not None
    client, upstream = held.enter_context(opening_sibling(server, table.link, table.local, sibling))
    vector, changes, cuts = state.vector.go_on_at(find_place(client, sibling, state)), list[Change](), list[int]()
    for _ in range(_MOST_ANSWERS):
        status.check()
        answer = upstream.read_changes(vector, 0, _WAIT_SECONDS)
        origin = answer.source.origin
        if answer.cuts and answer.cuts[-1] > vector.applied(origin):
            changes += [change for change in answer.changes if change.place <= answer.cuts[-1]]
            cuts += answer.cuts
            vector = vector.advance(Position(origin, answer.cuts[-1]))
        if vector.applied(origin) >= answer.frontier and not answer.waits:
            found = TailCuts(table.source, state.vector.applied(table.source), reach, changes, cuts)
            return _Tail(found, upstream, answer)
    raise _refuse(table, sibling.cluster, "it does not come to an end")


def _make_batch(table: TailTaker, state: TargetState, tail: _Tail, place: int) -> IncomingBatch:
    changes = tail.cuts.select(place)
    cluster = tail.upstream.definition.source_cluster
    admission = admit_changes(state.vector, state.own, changes, state.forks)
    if admission.stop is not None:
        raise _refuse(table, cluster, str(admission.stop))
    end, fetches = Position(table.source, place), (tail.upstream.fetch, tail.upstream.fetch_small)
    definition, source = table.link.definition, tail.answer.source
    return IncomingBatch(definition, state, source, admission.changes, admission.vector, end, *fetches)


def _refuse(table: TailTaker, cluster: str, why: str) -> UserError:
    definition = table.link.definition
    return UserError(
        "BAD_ARGUMENTS",
        f"Cluster {cluster} is further ahead with table {table.local.name}, and group {definition.group!r} cannot take "
        f"what lies between: {why}. Promote cluster {cluster} instead, or ALTER REPLICATION LINK GROUP "
        f"{definition.group} REMOVE {definition.name}",
    )


def _say_left(sibling: Sibling | None, reach: int, place: int) -> str:
    if sibling is None or reach <= place:
        return ""
    return (
        f"what cluster {sibling.cluster} has behind {place}, up to {reach}, was left there: the siblings do not have "
        "the other tables up to there"
    )
