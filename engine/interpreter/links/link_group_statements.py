"""Statements about transactional groups of links."""

from __future__ import annotations

from collections.abc import Mapping

from coordination.links.groups.link_group import require_group
from engine.interpreter.result_rows import STRING, make_result
from engine.interpreter.statement_kind import define_owner_statement
from engine.links.groups.group_changes import alter_group, create_group, drop_group
from engine.queries.context import OwnerContext
from engine.queries.session import QueryResult
from parts.common.errors import UserError
from sql.grammar.clause_types import SettingLiteral
from sql.grammar.statements.link_group_statements import (
    AlterLinkGroup,
    CreateLinkGroup,
    DropLinkGroup,
    ShowCreateLinkGroup,
    render_create_group,
)


def create_link_group(statement: CreateLinkGroup, context: OwnerContext) -> QueryResult:
    """Executes CREATE REPLICATION LINK GROUP."""
    settings = _parse_settings(statement.settings)
    create_group(context.server, statement.name, statement.links, settings, if_not_exists=statement.if_not_exists)
    return QueryResult()


def _parse_settings(given: Mapping[str, SettingLiteral]) -> dict[str, object]:
    for name, value in given.items():
        if name != "transactional":
            raise UserError("UNKNOWN_SETTING", f"A group of links has no setting {name!r}; it has: transactional")
        if value not in (1, True, "1", "true"):
            raise UserError(
                "NOT_IMPLEMENTED",
                f"A group of links with transactional = {value} is not supported: links that need no common moment "
                "need no group",
            )
    return {"transactional": 1}


def alter_link_group(statement: AlterLinkGroup, context: OwnerContext) -> QueryResult:
    """Executes ALTER REPLICATION LINK GROUP."""
    alter_group(context.server, statement.name, statement.link, is_added=statement.is_added)
    return QueryResult()


def drop_link_group(statement: DropLinkGroup, context: OwnerContext) -> QueryResult:
    """Executes DROP REPLICATION LINK GROUP."""
    drop_group(context.server, statement.name, if_exists=statement.if_exists)
    return QueryResult()


def show_create_link_group(statement: ShowCreateLinkGroup, context: OwnerContext) -> QueryResult:
    """Executes SHOW CREATE REPLICATION LINK GROUP."""
    group, _ = require_group(context.server.replication.require_keeper(), statement.name)
    links = tuple(member.link for member in group.members)
    made = CreateLinkGroup(group.name, links, settings={"transactional": 1})
    return make_result([("statement", STRING)], [(render_create_group(made),)])


STATEMENTS = (
    define_owner_statement(CreateLinkGroup, create_link_group),
    define_owner_statement(AlterLinkGroup, alter_link_group),
    define_owner_statement(DropLinkGroup, drop_link_group),
    define_owner_statement(ShowCreateLinkGroup, show_create_link_group, is_read_only=True),
)
