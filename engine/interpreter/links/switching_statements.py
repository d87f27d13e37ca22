"""Statements that switch over: PROMOTE, SWITCH and REJOIN of links."""

from __future__ import annotations

from collections.abc import Sequence

from coordination.links.link_names import DatabaseLink, LinkName, find_link_name
from coordination.links.link_nodes import StoredLink, find_link, make_unknown_error
from engine.interpreter.result_rows import STRING, make_result
from engine.interpreter.statement_kind import define_owner_statement
from engine.links.switching.local_tables import list_local_tables
from engine.links.switching.old_source import find_shut_source, promote_old_source
from engine.links.switching.promotion import cancel_promotion, promote
from engine.links.switching.promotion_report import Facts
from engine.links.switching.rejoin import rejoin
from engine.links.switching.switch import cancel_switch, find_unfinished, switch
from engine.queries.context import OwnerContext
from engine.queries.session import QueryResult
from parts.common.errors import UserError
from parts.types import DataType, IntegerType
from sql.grammar.statements.link_statements import PromoteLink, RejoinLink, SwitchLink

_COUNT = IntegerType(64, signed=False)


def promote_link(statement: PromoteLink, context: OwnerContext) -> QueryResult:
    """Executes SYSTEM PROMOTE REPLICATION LINK; returns the report."""
    _refuse_group(statement.name, "PROMOTE", is_group=statement.is_group)
    server = context.server
    link = _find_link(statement.name, context)
    if link is None:
        unfinished = find_unfinished(server, list_local_tables(server), statement.name)
        if unfinished is not None:
            return _report(unfinished)
        shut = find_shut_source(server, statement.name)
        if shut is None or statement.cancel:
            raise make_unknown_error(server.replication.require_keeper(), statement.name)
        return _report(promote_old_source(server, shut[0], statement.name, force=statement.force))
    if statement.cancel:
        return _report(cancel_promotion(server, link))
    return _report(promote(server, [link], context.status, force=statement.force))


def switch_link(statement: SwitchLink, context: OwnerContext) -> QueryResult:
    """Executes SYSTEM SWITCH REPLICATION LINK; returns the report."""
    _refuse_group(statement.name, "SWITCH", is_group=statement.is_group)
    server = context.server
    link = _find_link(statement.name, context)
    if link is None:
        unfinished = find_unfinished(server, list_local_tables(server), statement.name)
        if unfinished is None:
            raise make_unknown_error(server.replication.require_keeper(), statement.name)
        return _report(unfinished)
    if statement.cancel:
        return _report(cancel_switch(server, link))
    return _report(switch(server, [link], context.settings.receive_timeout, context.status))


def rejoin_link(statement: RejoinLink, context: OwnerContext) -> QueryResult:
    """Executes SYSTEM REJOIN REPLICATION LINK; returns what lies behind the fork."""
    _refuse_group(statement.name, "REJOIN", is_group=statement.is_group)
    rows = rejoin(context.server, statement.name, statement.cluster, context.status, detach=statement.detach)
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


def _find_link(name: str, context: OwnerContext) -> StoredLink | None:
    """Returns the link whose target is here. Raises 48 (NOT_IMPLEMENTED) for one of a database."""
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
    return found if isinstance(found, StoredLink) else None


def _refuse_group(name: str, verb: str, *, is_group: bool) -> None:
    if is_group:
        raise UserError("NOT_IMPLEMENTED", f"SYSTEM {verb} REPLICATION LINK GROUP {name} is not supported yet")


def _report(facts: Facts) -> QueryResult:
    rows: Sequence[tuple[object, ...]] = facts
    return make_result([("fact", STRING), ("value", STRING)], list(rows))


STATEMENTS = (
    define_owner_statement(PromoteLink, promote_link),
    define_owner_statement(SwitchLink, switch_link),
    define_owner_statement(RejoinLink, rejoin_link),
)
