"""Asks for other modes of links, at their source: for statements, targets and the tracker.

A request moves the gates and returns at once: the link is ``enabling`` or ``disabling`` then, and an elected server of
the source carries the change out. How far it is, the gate says (``GateLink.state``)::

    request_modes(keeper, [
        ModeRequest(orders.paths, "west/orders", LinkMode.SYNC),
        ModeRequest(items.paths, "west/items", LinkMode.SYNC),
        ModeRequest(orders.paths, "north/orders", LinkMode.ASYNC),
    ])

All requests are one multi: either all links are on their way, or none is. A table may have several of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from coordination.keeper.interface import Keeper
from coordination.links.sync.mode_changes import GateChange, move_gates
from coordination.links.sync.sync_states import find_source_link, request_mode
from coordination.nodes.gate import Gate
from coordination.nodes.gate_link import LinkDirection, LinkMode
from coordination.nodes.paths import TablePaths
from parts.common.errors import UserError


@dataclass(frozen=True, slots=True)
class ModeRequest:
    """A mode that a link of a table, which is its source, is to have."""

    table: TablePaths
    link: str
    """``<target cluster>/<name>``."""
    mode: LinkMode | None
    """``None``: the one that it has."""
    is_paused: bool | None = None
    """Whether the target has disabled the link; ``None``: as it was."""
    uuid: str = ""
    """Of the link; empty for any."""


def request_modes(keeper: Keeper, requests: Sequence[ModeRequest]) -> list[Gate]:
    """Asks for modes of links, of one or of several tables, in one multi.

    Returns the gates by table, in the order in which tables are first named.

    Raises 36 (BAD_ARGUMENTS) for a link that a table does not have, 48 (NOT_IMPLEMENTED) if a replica does not know
    synchronous links, 999.
    """
    by_table: dict[str, list[ModeRequest]] = {}
    for request in requests:
        by_table.setdefault(request.table.root, []).append(request)

    def make(requested: Sequence[ModeRequest]) -> GateChange:
        return GateChange(requested[0].table, lambda gate: _with_modes(gate, requested))

    return move_gates(keeper, [make(requested) for requested in by_table.values()])


def _with_modes(gate: Gate, requests: Sequence[ModeRequest]) -> Gate:
    for request in requests:
        link = find_source_link(gate, request.link, request.uuid)
        if link is None:
            known = ", ".join(each.name for each in gate.links_of(LinkDirection.OUT)) or "none"
            raise UserError(
                "BAD_ARGUMENTS",
                f"Table {request.table.root} is not the source of link {request.link!r}, only of {known}",
            )
        gate = request_mode(gate, link, request.mode or link.mode, is_paused=request.is_paused)
    return gate
