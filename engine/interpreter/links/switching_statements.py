"""Statements that switch over: PROMOTE, SWITCH and REJOIN of links."""

from __future__ import annotations

from collections.abc import Sequence

from coordination.links.groups.link_group import make_unknown_group_error
from coordination.links.link_names import DatabaseLink, LinkName, find_link_name
from coordination.links.link_nodes import StoredLink, find_link, make_unknown_error
from engine.interpreter.result_rows import STRING, make_result
from engine.interpreter.statement_kind import define_owner_statement
from engine.links.switching.local_tables import list_local_tables
from engine.links.switching.old_source import find_shut_group, find_shut_source, promote_old_source
from engine.links.switching.promotion import cancel_promotion, promote
from engine.links.switching.promotion_report import Facts
from engine.links.switching.rejoin import rejoin, rejoin_group
from engine.links.switching.switch import cancel_switch, find_unfinished, switch
from engine.links.switching.switched_links import SwitchedLinks, find_switched_group, take_one
from engine.queries.context import OwnerContext
from engine.queries.session import QueryResult
from parts.common.errors import UserError
from parts.types import DataType, IntegerType
from sql.grammar.statements.link_statements import PromoteLink, RejoinLink, SwitchLink

_COUNT = IntegerType(64, signed=False)


def promote_link(statement: PromoteLink, context: OwnerContext) -> QueryResult:
    """Executes SYSTEM PROMOTE REPLICATION LINK, of a link or of a group; returns the report."""
    server, name = context.server, statement.name
    links = _find_links(name, context, is_group=statement.is_group)
    if links is None:
        unfinished = find_unfinished(server, list_local_tables(server), name, is_group=statement.is_group)
        if unfinished is not None:
            return _report(unfinished)
        shut = find_shut_group(server, name) if statement.is_group else find_shut_source(server, name)
        if not shut or statement.cancel:
            raise _make_unknown(context, name, is_group=statement.is_group)
        what = f"group {name!r}" if statement.is_group else f"link {name!r}"
        return _report(promote_old_source(server, shut, what, force=statement.force))
    if statement.cancel:
        return _report(cancel_promotion(server, links))
    return _report(promote(server, links, context.status, force=statement.force))


def switch_link(statement: SwitchLink, context: OwnerContext) -> QueryResult:
    """Executes SYSTEM SWITCH REPLICATION LINK, of a link or of a group; returns the report."""
    server = context.server
    links = _find_links(statement.name, context, is_group=statement.is_group)
    if links is None:
        tables = list_local_tables(server)
        unfinished = find_unfinished(server, tables, statement.name, is_group=statement.is_group)
        if unfinished is None:
            raise _make_unknown(context, statement.name, is_group=statement.is_group)
        return _report(unfinished)
    if statement.cancel:
        return _report(cancel_switch(server, links))
    return _report(switch(server, links, context.settings.receive_timeout, context.status))


def rejoin_link(statement: RejoinLink, context: OwnerContext) -> QueryResult:
    """Executes SYSTEM REJOIN REPLICATION LINK, of a link or of a group; returns what lies behind the fork."""
    run = rejoin_group if statement.is_group else rejoin
    rows = run(context.server, statement.name, statement.cluster, context.status, detach=statement.detach)
    columns: list[tuple[str, DataType]] = [
        ("kind", STRING),
        ("table", STRING),
        ("partition_id", STRING),
        ("rows", _COUNT),
        ("blocks", _COUNT),
        ("position", STRING),
        ("detail", STRING),
        ("directory", STRING),
    ]
    return make_result(columns, list(rows))


def _find_links(name: str, context: OwnerContext, *, is_group: bool) -> SwitchedLinks | None:
    """Returns the link, or the group, whose target is here. Raises 48 (NOT_IMPLEMENTED) for a link of a database."""
    if is_group:
        return find_switched_group(context.server, name)
    keeper = context.server.replication.require_keeper()
    keeper.sync("/")
    found: StoredLink | LinkName | None = (
        None if "/" in name else find_link(keeper, name) or find_link_name(keeper, name)
    )
    if isinstance(found, DatabaseLink):
        raise UserError(
            "NOT_IMPLEMENTED",
            f"Link {name!r} is of a whole database, and such links are not switched over yet. Links of single tables "
            "are: DROP REPLICATION LINK ends it, CREATE REPLICATION LINK … SETTINGS start_position = 'vector' links a "
            "table where it was",
        )
    return take_one(context.server, found) if isinstance(found, StoredLink) else None


def _make_unknown(context: OwnerContext, name: str, *, is_group: bool) -> UserError:
    keeper = context.server.replication.require_keeper()
    return make_unknown_group_error(keeper, name) if is_group else make_unknown_error(keeper, name)


def _report(facts: Facts) -> QueryResult:
    rows: Sequence[tuple[object, ...]] = facts
    return make_result([("fact", STRING), ("value", STRING)], list(rows))


STATEMENTS = (
    define_owner_statement(PromoteLink, promote_link),
    define_owner_statement(SwitchLink, switch_link),
    define_owner_statement(RejoinLink, rejoin_link),
)
