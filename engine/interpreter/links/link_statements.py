"""Statements about links between clusters."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace

from coordination.links.forgotten_origin import forget_origin, require_forgettable
from coordination.links.link_definition import LinkDefinition
from coordination.links.link_names import DatabaseLink, find_link_name
from coordination.links.link_nodes import StoredLink, find_link, make_unknown_error, request_copy, require_link
from coordination.links.link_settings import (
    DEFAULTS,
    LinkSettings,
    changes_with_alter,
    format_link_setting,
    parse_link_setting,
)
from coordination.links.origin_survey import find_objections, refuse_objections
from coordination.links.positions import Origin
from coordination.nodes.gate_link import LinkMode
from engine.interpreter.result_rows import STRING, make_result
from engine.interpreter.shared_steps import refuse_system_database
from engine.interpreter.statement_kind import define_owner_statement
from engine.links.databases.database_link_changes import change_database_link, create_database_link, drop_database_link
from engine.links.databases.database_links import list_members
from engine.links.groups.group_changes import refuse_drop, refuse_member_change
from engine.links.link_changes import change_table_link
from engine.links.link_creation import NewLink, create_table_link, drop_outgoing_link, drop_table_link
from engine.links.link_wait import wait_for_link
from engine.links.linkable_tables import require_linkable
from engine.links.origin_survey import OriginSurveys
from engine.links.sync.source_statements import change_mode_at_source
from engine.queries.context import OwnerContext
from engine.queries.session import QueryResult
from parts.common.errors import ConflictError, UserError
from sql.grammar.clause_types import SettingLiteral, TableRef
from sql.grammar.statements.link_statements import (
    AlterLink,
    BootstrapLink,
    CreateLink,
    DropLink,
    ForgetLinkOrigin,
    ShowCreateLink,
    WaitLink,
    render_create_link,
)

logger = logging.getLogger(__name__)


def create_link(statement: CreateLink, context: OwnerContext) -> QueryResult:
    """Executes CREATE REPLICATION LINK."""
    server = context.server
    if statement.if_not_exists and find_link(server.replication.require_keeper(), statement.name) is not None:
        return QueryResult()
    settings = {name: value for name, value in _parse_settings(statement.settings).items() if value is not None}
    if statement.target is None:
        assert statement.database is not None
        refuse_system_database(statement.database)
        source = statement.source_database or statement.database
        create_database_link(server, statement.name, statement.database, statement.cluster, source, settings)
        server.links.wake()
        return QueryResult()
    database = context.database(statement.target.database)
    refuse_system_database(database)
    given = statement.source or TableRef(database, statement.target.table)
    new = NewLink(
        statement.name,
        database,
        statement.target.table,
        statement.cluster,
        given.database or database,
        given.table,
        settings,
    )
    create_table_link(server, new)
    return QueryResult()


def alter_link(statement: AlterLink, context: OwnerContext) -> QueryResult:
    """Executes ALTER REPLICATION LINK."""
    if "/" in statement.name and statement.settings.keys() == {"mode"}:
        change_mode_at_source(context.server, statement.name, statement.settings["mode"])
        return QueryResult()
    _refuse_source_name(statement.name, "ALTER")
    settings, keeper = _parse_settings(statement.settings), context.server.replication.require_keeper()

    def change(link: LinkDefinition) -> LinkDefinition:
        return change_settings(link, settings)

    mode = LinkMode(settings["mode"] or DEFAULTS["mode"]) if "mode" in settings else None
    if isinstance(require_link(keeper, statement.name), DatabaseLink):
        change_database_link(context.server, statement.name, change, mode)
    else:
        change_table_link(context.server, statement.name, change, mode=mode)
    return QueryResult()


def change_settings(link: LinkDefinition, changed: Mapping[str, object]) -> LinkDefinition:
    """Returns the link with other values; ``None`` is the default.

    Raises 36 (BAD_ARGUMENTS) for a setting that is fixed when the link is made, and the errors of the values.
    """
    now = LinkSettings.parse(link.settings)
    for name, value in changed.items():
        wanted = DEFAULTS[name] if value is None else value
        if not changes_with_alter(name) and getattr(now, name) != wanted:
            raise UserError(
                "BAD_ARGUMENTS",
                f"Setting {name} is fixed when a link is made. DROP REPLICATION LINK {link.name}, and make it anew "
                "with start_position = 'vector'",
            )
    new_values = {name: value for name, value in {**link.settings, **changed}.items() if value is not None}
    new_values.pop("enabled", None)
    refuse_member_change(link.name, link.group, LinkSettings.parse(new_values))
    settings = {**link.settings, **{name: value for name, value in changed.items() if name != "enabled"}}
    new = {name: value for name, value in settings.items() if value is not None}
    LinkSettings.parse(new)
    enabled = changed.get("enabled", link.is_enabled)
    return replace(link, settings=new, is_enabled=enabled is None or bool(enabled))


def drop_link(statement: DropLink, context: OwnerContext) -> QueryResult:
    """Executes DROP REPLICATION LINK, at the target or at the source."""
    server, name = context.server, statement.name
    keeper = server.replication.require_keeper()
    if "/" in name:
        if not drop_outgoing_link(server, name) and not statement.if_exists:
            raise UserError("BAD_ARGUMENTS", f"No table of this server keeps changes for link {name!r}")
        return QueryResult()
    found = find_link_name(keeper, name)
    if found is None:
        if statement.if_exists:
            return QueryResult()
        raise make_unknown_error(keeper, name)
    if isinstance(found, DatabaseLink):
        drop_database_link(server, name)
    else:
        if found.database_link and find_link_name(keeper, found.database_link) is not None:
            raise UserError(
                "BAD_ARGUMENTS",
                f"Link {name!r} belongs to the link {found.database_link!r} of a database, which would make it anew: "
                f"ALTER REPLICATION LINK {name} DISABLE, or DROP REPLICATION LINK {found.database_link}",
            )
        stored = find_link(keeper, name)
        if isinstance(stored, StoredLink):
            refuse_drop(name, stored.definition.group)
        drop_table_link(server, name)
    server.links.wake()
    return QueryResult()


def show_create_link(statement: ShowCreateLink, context: OwnerContext) -> QueryResult:
    """Executes SHOW CREATE REPLICATION LINK."""
    _refuse_source_name(statement.name, "SHOW CREATE")
    found = require_link(context.server.replication.require_keeper(), statement.name)
    return make_result([("statement", STRING)], [(render_create_link(describe_link(found)),)])


def describe_link(link: StoredLink | DatabaseLink) -> CreateLink:
    """Returns the statement that makes such a link."""
    if isinstance(link, DatabaseLink):
        return CreateLink(
            link.name,
            link.source_cluster,
            database=link.target_database,
            source_database=link.source_database,
            settings=_show_given(link.settings, is_enabled=link.is_enabled),
        )
    definition = link.definition
    return CreateLink(
        definition.name,
        definition.source_cluster,
        TableRef(definition.target_database, definition.target_table),
        TableRef(definition.source_database, definition.source_table),
        settings=_show_given(definition.settings, is_enabled=definition.is_enabled),
    )


def _show_given(settings: Mapping[str, object], *, is_enabled: bool) -> dict[str, SettingLiteral]:
    parsed = LinkSettings.parse(settings)
    shown: dict[str, SettingLiteral] = {}
    for name in settings:
        value = getattr(parsed, name)
        shown[name] = int(value) if isinstance(value, bool) else value
    return shown if is_enabled else {**shown, "enabled": 0}


def wait_link(statement: WaitLink, context: OwnerContext) -> QueryResult:
    """Executes SYSTEM WAIT REPLICATION LINK.

    For a link of a database it waits for the links of all its tables.
    """
    _refuse_source_name(statement.name, "SYSTEM WAIT")
    server, keeper = context.server, context.server.replication.require_keeper()
    timeout = statement.timeout_seconds
    seconds = context.settings.receive_timeout if timeout is None else timeout
    found = require_link(keeper, statement.name)
    if isinstance(found, StoredLink):
        wait_for_link(server, found, statement.position, seconds, context.status)
        return QueryResult()
    if statement.position is not None:
        raise UserError("BAD_ARGUMENTS", f"Link {statement.name!r} is of a database, and a POSITION is of one table")
    end = server.services.monotonic() + seconds
    for member in list_members(keeper, statement.name):
        link = find_link(keeper, member.name)
        if isinstance(link, StoredLink):
            left = max(0.0, end - server.services.monotonic())
            wait_for_link(server, link, None, left, context.status)
    return QueryResult()


def bootstrap_link(statement: BootstrapLink, context: OwnerContext) -> QueryResult:
    """Executes SYSTEM BOOTSTRAP REPLICATION LINK: the copy begins, and goes on when this returns."""
    _refuse_source_name(statement.name, "SYSTEM BOOTSTRAP")
    server, keeper = context.server, context.server.replication.require_keeper()
    if not server.links.can_copy:
        raise UserError("NOT_IMPLEMENTED", "SYSTEM BOOTSTRAP REPLICATION LINK is not supported by this server")
    found = require_link(keeper, statement.name)
    if isinstance(found, DatabaseLink):
        raise UserError(
            "BAD_ARGUMENTS",
            f"Link {statement.name!r} is of a database. SYSTEM BOOTSTRAP REPLICATION LINK takes the link of one table: "
            f"{', '.join(member.name for member in list_members(keeper, statement.name)) or 'it has none yet'}",
        )
    if not found.definition.is_enabled:
        raise UserError(
            "BAD_ARGUMENTS",
            f"Link {statement.name!r} is disabled, so it copies nothing: first ALTER REPLICATION LINK {statement.name} "
            "ENABLE",
        )
    request_copy(keeper, statement.name)
    server.links.wake()
    return QueryResult()


def forget_link_origin(statement: ForgetLinkOrigin, context: OwnerContext) -> QueryResult:
    """Executes SYSTEM FORGET LINK ORIGIN. With FORCE it returns what it went on in spite of."""
    origin = Origin.parse(statement.origin)
    database = context.database(statement.table.database)
    refuse_system_database(database)
    table = context.server.catalog.table(database, statement.table.table)
    require_linkable(table)
    assert table.replication is not None
    keeper, paths = table.replication.require_keeper(), table.replication.paths
    own = context.server.cluster_membership.get_identity(keeper)
    if require_forgettable(keeper, paths, own.uuid, origin).is_forgotten:
        return QueryResult()
    survey = OriginSurveys(context.server).survey(table, origin, context.status)
    objections = find_objections(survey)
    if not statement.force:
        refuse_objections(origin, objections)
    if not forget_origin(keeper, paths, origin, None if statement.force else survey.holders[0].applied):
        raise ConflictError("KEEPER_EXCEPTION", f"A change of {origin} came meanwhile; repeat the statement")
    for objection in objections:
        logger.warning("%s is forgotten in %s by FORCE although %s", origin, table.definition.full_name, objection)
    rows: list[tuple[object, ...]] = [(each.cluster, each.table, each.reason) for each in objections]
    return make_result([("cluster", STRING), ("table", STRING), ("reason", STRING)], rows) if rows else QueryResult()


def _parse_settings(given: Mapping[str, SettingLiteral]) -> dict[str, object]:
    """Checks each value; ``None`` stands for the default."""
    found: dict[str, object] = {}
    for name, value in given.items():
        is_default = value is None
        parsed = parse_link_setting(name, format_link_setting(DEFAULTS.get(name, "")) if is_default else value)
        found[name] = None if is_default else parsed
    return found


def _refuse_source_name(name: str, verb: str) -> None:
    if "/" in name:
        cluster, _, own = name.partition("/")
        raise UserError(
            "BAD_ARGUMENTS",
            f"{name!r} is the name of a link at its source. Run {verb} REPLICATION LINK {own} at its target, cluster "
            f"{cluster}; DROP REPLICATION LINK {name!r} ends the keeping here",
        )


STATEMENTS = (
    define_owner_statement(CreateLink, create_link),
    define_owner_statement(AlterLink, alter_link),
    define_owner_statement(DropLink, drop_link),
    define_owner_statement(ShowCreateLink, show_create_link, is_read_only=True),
    define_owner_statement(WaitLink, wait_link),
    define_owner_statement(BootstrapLink, bootstrap_link),
    define_owner_statement(ForgetLinkOrigin, forget_link_origin),
)
