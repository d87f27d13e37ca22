"""Carries out a fork: closes the tables, reads them, and sends the one multi.

The tables of a transactional group end their group in the same multi. Before, all of them are at its last cut, and
every active replica shows it: each of them is shown alone from then on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from coordination.keeper.interface import (
    BadVersion,
    Keeper,
    KeeperConnectionLoss,
    MultiFailed,
    NodeExists,
    NoNode,
    NotEmpty,
    Op,
)
from coordination.links.groups.group_switching import end_group, read_same_group, require_entered, require_one_cut
from coordination.links.groups.link_group import LinkGroup
from coordination.links.link_nodes import StoredLink
from coordination.links.positions import Origin
from coordination.links.switching.fork_commit import ForkedTable, TableNow, commit_fork, make_fork, next_epoch
from coordination.links.switching.lineage import EpochFork, Lineage
from coordination.links.switching.switching_gate import ASKED, PROMOTION, close_for_fork, read_fact
from coordination.nodes.gate import Gate
from coordination.nodes.table_lists import create_lists
from engine.links.switching.local_tables import LocalTable, move_all_gates
from engine.tables.capabilities.table_links import OutgoingLink
from engine.tables.replicated.links.source.outgoing_nodes import make_gate_link, register_ops
from parts.common.errors import ConflictError, UserError

logger = logging.getLogger(__name__)

_ATTEMPTS = 20


@dataclass(frozen=True)
class Promoted:
    """One table that becomes a source."""

    local: LocalTable
    link: StoredLink
    registered: Sequence[OutgoingLink] = ()
    """The links that will take changes from here."""
    telling: Sequence[dict[str, str]] = ()
    """Who must be told of the fork."""


def fork_tables(
    tables: Sequence[Promoted],
    *,
    ticket: str = "",
    group: LinkGroup | None = None,
    prepare: Callable[[LocalTable], object] = lambda local: None,
) -> list[EpochFork]:
    """Makes one fork of all these tables; returns it for each.

    Each has been marked as being promoted. With a ticket the fork uses it up: raises 36 (BAD_ARGUMENTS) if it is void,
    or a table is not at the last cut of its group. ``prepare`` is called for each table when all are closed.
    """
    services, keeper = tables[0].local.server.services, tables[0].local.keeper
    for each in tables:
        each.local.links.target.finish_lists(each.link.definition.uuid)
    move_all_gates([(each.local, partial(_close, link=each.link.definition.name, ticket=ticket)) for each in tables])
    for each in tables:
        each.local.links.target.finish_lists(each.link.definition.uuid)
        paths = each.local.paths
        create_lists(each.local.keeper, paths, paths.linked.outgoing, paths.linked.definitions)
    services.failpoint("promote.after_close")
    for each in tables:
        prepare(each.local)
    for _ in range(_ATTEMPTS):
        along = _end_group(keeper, tables, group) if group is not None else []
        forked = [_prepare(each, ticket, group.name if group is not None else "") for each in tables]
        services.failpoint("promote.before_fork")
        try:
            commit_fork(keeper, forked, along)
        except KeeperConnectionLoss:
            if _is_forked(tables, forked):
                break
            continue
        except MultiFailed as error:
            if not isinstance(error.cause, BadVersion | NoNode | NodeExists | NotEmpty):
                raise error.cause from error
            continue
        break
    else:
        raise ConflictError("KEEPER_EXCEPTION", "Others keep changing the tables; repeat the statement")
    services.failpoint("promote.after_fork")
    for done in forked:
        logger.warning("table %s is the source now: its fork is %s", done.now.table.root, done.fork.describe())
    tables[0].local.server.links.wake()
    return [done.fork for done in forked]


def _close(gate: Gate, link: str, ticket: str) -> Gate:
    asked = read_fact(gate, ASKED)
    if ticket and (asked is None or asked["id"] != ticket):
        raise UserError("BAD_ARGUMENTS", f"The SWITCH of link {link!r} was cancelled: its ticket is void")
    if not ticket and read_fact(gate, PROMOTION) is None:
        raise UserError("BAD_ARGUMENTS", f"The PROMOTE of link {link!r} was cancelled")
    return close_for_fork(gate, link)


def _end_group(keeper: Keeper, tables: Sequence[Promoted], group: LinkGroup) -> list[Op]:
    """Returns the operation that ends the group. The tables are closed, so none of them leaves its cut any more."""
    known, version = read_same_group(keeper, group)
    require_entered(known)
    ends = [(each.local, Origin.parse(each.link.definition.source_origin)) for each in tables]
    require_one_cut(known, [(local.name, source, local.read_now().vector) for local, source in ends])
    return [end_group(known, version)]


def _prepare(each: Promoted, ticket: str, group: str) -> ForkedTable:
    local, link = each.local, each.link
    now = local.read_now(with_changes=True)
    _close(now.gate, link.definition.name, ticket)  # it was not cancelled meanwhile: the multi expects this gate
    ended = Origin.parse(link.definition.source_origin)
    children = local.keeper.children(local.paths.linked.incoming_link(link.definition.name))
    registered = [(make_gate_link(out), register_ops(local.keeper, local.paths, out)) for out in each.registered]
    fork = replace(make_table_fork(local, now, ended), ticket=ticket, link=link.definition.name, group=group)
    telling = [{**told, "of": fork.name} for told in each.telling]
    return ForkedTable(now, fork, link.definition.name, children, registered, telling=telling)


def make_table_fork(local: LocalTable, now: TableNow, ended: Origin) -> EpochFork:
    """Returns the fork of a closed table of this server."""
    server = local.server
    by = next_epoch(now.own, server.services.new_uuid().int)
    own = server.cluster_membership.get_identity(local.keeper)
    definition, made_ms = local.table.definition, int(server.services.clock() * 1000)
    return make_fork(now, ended, by, (own.name, definition.database, definition.name), made_ms)


def _is_forked(tables: Sequence[Promoted], forked: Sequence[ForkedTable]) -> bool:
    """Tells whether a multi without an answer was carried out. All of it or nothing was."""
    return Lineage.read(tables[0].local.read_gate()).find(forked[0].fork.name) is not None
