"""PROMOTE … FORCE at an old source: a table that is shut opens again, with a fork of its own."""

from __future__ import annotations

from dataclasses import replace

from coordination.links.positions import Position
from coordination.links.switching.fork_commit import ForkedTable, TableNow, fork_ops
from coordination.links.switching.lineage import Lineage
from coordination.links.switching.switching_gate import FORK_OWNER, TICKET, read_fact
from coordination.nodes.gate import Gate
from engine.links.switching.following import commit_at_once
from engine.links.switching.forking import make_table_fork
from engine.links.switching.local_tables import LocalTable, SwitchingServer, list_local_tables
from engine.links.switching.promotion_report import Facts, list_fork_facts
from parts.common.errors import ConflictError, UserError

_ATTEMPTS = 10


def find_shut_source(server: SwitchingServer, name: str) -> tuple[LocalTable, Gate] | None:
    """Returns the table from which a link of this name went out; ``None`` if this server has none."""
    for local in list_local_tables(server):
        gate = local.read_gate()
        ticket = read_fact(gate, TICKET)
        is_ticket = ticket is not None and name in (ticket["link"], ticket["link"].rpartition("/")[2])
        if is_ticket or local.find_outgoing(gate, name) is not None:
            return local, gate
    return None


def promote_old_source(server: SwitchingServer, local: LocalTable, name: str, *, force: bool) -> Facts:
    """Opens an old source again. Its epoch ends at its last own change, and another one begins.

    Raises 36 (BAD_ARGUMENTS) if the table is open, or without ``force``.
    """
    for _ in range(_ATTEMPTS):
        now = local.read_now(with_changes=True)
        lineage, ticket = Lineage.read(now.gate), read_fact(now.gate, TICKET)
        if not any(bar.owner in (FORK_OWNER, TICKET) for bar in now.gate.bars):
            raise UserError("BAD_ARGUMENTS", f"Table {local.name} is the source of link {name!r} already, and is open")
        if not force:
            where = lineage.met[-1].cluster if lineage.met else ticket["cluster"] if ticket else ""
            raise UserError(
                "BAD_ARGUMENTS",
                f"Table {local.name} is shut: cluster {where} is the source in its place, or becomes it. FORCE opens "
                "the table all the same, and then both write: one of them must REJOIN the other later",
            )
        if now.last_own is None:  # its journal begins behind its last own change
            now = _with_last_own(now)
        fork = make_table_fork(local, now, now.own)
        if commit_at_once(local, fork_ops([ForkedTable(now, fork, "")])):  # it goes on keeping what a REJOIN tells
            server.links.wake()
            return list_fork_facts(local.name, fork)
    raise ConflictError("KEEPER_EXCEPTION", f"Others keep changing table {local.name}; repeat the statement")


def _with_last_own(now: TableNow) -> TableNow:
    return replace(now, last_own=Position(now.own, now.newest))
