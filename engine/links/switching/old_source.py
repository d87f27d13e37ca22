"""PROMOTE … FORCE at an old source: a table that is shut opens again, with a fork of its own.

So do all tables that were closed by the switch or promotion of a group, in one multi.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from coordination.links.positions import Position
from coordination.links.switching.fork_commit import ForkedTable, TableNow, fork_ops
from coordination.links.switching.lineage import Lineage
from coordination.links.switching.switching_gate import FORK_OWNER, TICKET, read_fact
from engine.links.switching.following import commit_at_once
from engine.links.switching.forking import make_table_fork
from engine.links.switching.local_tables import LocalTable, SwitchingServer, list_local_tables
from engine.links.switching.promotion_report import Facts, list_fork_facts
from parts.common.errors import ConflictError, UserError

_ATTEMPTS = 10


def find_shut_source(server: SwitchingServer, name: str) -> list[LocalTable]:
    """Returns the table from which a link of this name went out; none if this server has none."""
    for local in list_local_tables(server):
        gate = local.read_gate()
        ticket = read_fact(gate, TICKET)
        is_ticket = ticket is not None and name in (ticket["link"], ticket["link"].rpartition("/")[2])
        if is_ticket or local.find_outgoing(gate, name) is not None:
            return [local]
    return []


def find_shut_group(server: SwitchingServer, name: str) -> list[LocalTable]:
    """Returns the tables that a SWITCH of this group closed, or that met the forks of its promotion."""
    found = []
    for local in list_local_tables(server):
        gate = local.read_gate()
        ticket = read_fact(gate, TICKET)
        is_ticket = ticket is not None and ticket.get("group", "") == name
        if is_ticket or any(fork.group == name for fork in Lineage.read(gate).met):
            found.append(local)
    return found


def promote_old_source(server: SwitchingServer, tables: Sequence[LocalTable], what: str, *, force: bool) -> Facts:
    """Opens old sources again, all in one multi.

    Their epochs end at their last own changes, and others begin. ``what`` names the links. Raises 36 (BAD_ARGUMENTS) if
    a table is open, or without ``force``.
    """
    for _ in range(_ATTEMPTS):
        forked = [
            ForkedTable(now, make_table_fork(local, now, now.own), "") for local, now in _read(tables, what, force)
        ]
        if commit_at_once(tables[0], fork_ops(forked)):  # they go on keeping what a REJOIN tells
            server.links.wake()
            facts: Facts = []
            for local, done in zip(tables, forked, strict=True):
                facts += [("table", local.name), *list_fork_facts(done.fork)]
            return facts
    raise ConflictError("KEEPER_EXCEPTION", f"Others keep changing table {tables[0].name}; repeat the statement")


def _read(tables: Sequence[LocalTable], what: str, force: bool) -> Iterator[tuple[LocalTable, TableNow]]:
    for local in tables:
        now = local.read_now(with_changes=True)
        lineage, ticket = Lineage.read(now.gate), read_fact(now.gate, TICKET)
        if not any(bar.owner in (FORK_OWNER, TICKET) for bar in now.gate.bars):
            raise UserError("BAD_ARGUMENTS", f"Table {local.name} is the source of {what} already, and is open")
        if not force:
            where = lineage.met[-1].cluster if lineage.met else ticket["cluster"] if ticket else ""
            raise UserError(
                "BAD_ARGUMENTS",
                f"Table {local.name} is shut: cluster {where} is the source in its place, or becomes it. FORCE opens "
                "the table all the same, and then both write: one of them must REJOIN the other later",
            )
        # without a last own change its journal begins behind it
        yield local, now if now.last_own is not None else _with_last_own(now)


def _with_last_own(now: TableNow) -> TableNow:
    return replace(now, last_own=Position(now.own, now.newest))
