"""Takes what a sibling has and the table that is being promoted lacks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import cast

from coordination.keeper.interface import Check, SetData
from coordination.links.batches.batch_plan import BatchLimits
from coordination.links.batches.batch_selection import select_batch
from coordination.links.link_nodes import StoredLink
from coordination.links.positions import Position
from engine.links.exchange.cluster_client import ClusterClient
from engine.links.link_upstream import LinkUpstream
from engine.links.switching.following import commit_at_once, read_place
from engine.links.switching.local_tables import LocalTable, SwitchingServer
from engine.links.switching.requests import encode_vector
from engine.links.switching.siblings import Sibling
from engine.tables.capabilities.table_links import IncomingBatch, TargetState
from parts.common.errors import UnavailableError, UserError
from parts.common.query_status import QueryStatus

_IDLE_PAGES = 50
_WAIT_SECONDS = 0.5


def take_tail(
    server: SwitchingServer,
    link: StoredLink,
    local: LocalTable,
    sibling: Sibling,
    ahead: Sequence[Position],
    status: QueryStatus,
) -> int:
    """Brings the changes up to these positions from a sibling, which takes nothing more. Returns the rows.

    Raises 36 (BAD_ARGUMENTS) if the sibling does not keep what the table lacks.
    """
    target, rows, idle = local.links.target, 0, 0
    with opening_sibling(server, link, local, sibling) as (client, upstream):
        place = find_place(client, sibling, target.read_target())
        while True:
            state = _begin(target.read_target(), place)
            status.check()
            answer = upstream.read_changes(state.vector, 0, _WAIT_SECONDS)
            origin, limits = (
                answer.source.origin,
                BatchLimits(upstream.settings.link_max_batch_rows, upstream.settings.link_max_batch_bytes),
            )
            found = select_batch(answer.changes, answer.cuts, state.vector, origin, state.own, state.forks, limits)
            if found.end is None and found.stop is None and state.vector.applied(origin) >= answer.frontier:
                if _reach(local, ahead):
                    return rows
                continue
            if found.end is None:
                idle += 1
                if found.stop is not None or idle > _IDLE_PAGES:
                    raise UserError(
                        "BAD_ARGUMENTS",
                        f"Cluster {sibling.cluster} is further ahead, at {ahead[0]}, and does not give what lies "
                        f"between: {found.stop or 'it sends nothing'}. Promote it instead, or FORCE goes on",
                    )
                continue
            end = Position(origin, found.end)
            batch = IncomingBatch(
                link.definition, state, answer.source, found.changes, found.vector, end, upstream.fetch
            )
            applied = target.apply_batch(batch, status)
            rows += applied.rows if applied.is_applied else 0
            server.services.failpoint("promote.after_tail_batch")


@contextmanager
def opening_sibling(
    server: SwitchingServer, link: StoredLink, local: LocalTable, sibling: Sibling
) -> Iterator[tuple[ClusterClient, LinkUpstream]]:
    """Opens a sibling as the source of a table's link. It keeps what the table lacks while it is open."""
    own = server.cluster_membership.get_identity(local.keeper)
    client = cast(ClusterClient, server.links.connect(sibling.cluster))
    definition = replace(
        link.definition,
        source_cluster=sibling.cluster,
        source_database=sibling.database,
        source_table=sibling.table,
        source_origin="",
        is_begun=False,
    )
    upstream = LinkUpstream(definition, client, (own.name, own.uuid), (), lambda: False)
    upstream.register()
    try:
        yield client, upstream
    finally:
        client.unregister(sibling.database, sibling.table, upstream.name, definition.uuid)


def find_place(client: ClusterClient, sibling: Sibling, state: TargetState) -> Position:
    """Returns the place in a sibling's stream at which a table goes on.

    Raises 33 (CANNOT_READ_ALL_DATA) if the sibling does not keep all that the table lacks.
    """
    answer = client.ask(
        "switching/place",
        {
            "database": sibling.database,
            "table": sibling.table,
            "vector": encode_vector(state.vector),
            "own": str(state.own),
        },
    )
    place = read_place(answer)[0]
    if place is None:
        raise UnavailableError(
            "CANNOT_READ_ALL_DATA",
            f"Cluster {sibling.cluster} is further ahead, and does not keep all that lies between: promote it instead",
        )
    return place


def _reach(local: LocalTable, ahead: Sequence[Position]) -> bool:
    """Writes that the table has everything that the sibling had. Returns false if its vector moved meanwhile."""
    now = local.read_now()
    vector = now.vector
    for position in ahead:
        vector = vector if vector.covers(position) else vector.advance(position)
    assert now.vector_version is not None
    return commit_at_once(
        local,
        [
            SetData(local.paths.linked.vector, vector.to_bytes(), now.vector_version),
            Check(local.paths.gate, now.gate_version),
        ],
    )


def _begin(state: TargetState, place: Position) -> TargetState:
    return replace(state, vector=state.vector.go_on_at(place))
