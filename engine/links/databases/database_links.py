"""Links of whole databases: they make missing tables, and a link for every table, those to come too.

Every server of the target makes the tables that it lacks, as replicas of its cluster. The server that holds the node
``/pando/links/<name>/leader`` makes the links of the tables, and tells the outcome in ``/pando/links/<name>/status``
(:class:`engine.tables.capabilities.link_status.LinkProgress`). Tables that cannot be linked are left out and named in
its message.

A source is trusted with data, not with statements: what it sends as a table's definition is parsed, must be a
Replicated table, and gets its place in ZooKeeper from this server's configuration.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import replace

from coordination.keeper.interface import Keeper, KeeperError, NodeExists, NoNode
from coordination.links.link_names import DatabaseLink, TableLinkName, find_link_name, list_link_names, name_path
from coordination.links.link_nodes import is_left_over
from engine.links.link_creation import NewLink, create_table_link, drop_table_link
from engine.queries.context import OwnerServer
from engine.remote.linked_cluster import LinkableTable
from engine.tables.capabilities.link_status import LinkProgress, UpstreamStatus
from parts.common.errors import PandoError, UserError
from parts.common.safe_names import encode_file_name
from sql.definitions.engines.replica_location import as_not_replicated
from sql.grammar.clause_types import TableRef
from sql.grammar.statement_parser import parse_statement
from sql.grammar.statements.statement import CreateTable, EngineClause

logger = logging.getLogger(__name__)

STEP_SECONDS = 5.0
"""Pause between two looks for tables that came."""
_IDLE_SECONDS = 15.0
"""The pause while there are no links of databases."""
_MAX_NAMED = 20


class DatabaseLinks:
    """The links of databases, as one server carries them out. :meth:`run_once` is a background task."""

    def __init__(self, server: OwnerServer) -> None:
        self._server = server

    def run_once(self) -> float:
        """Looks at each link once. Returns the seconds until the next look."""
        server = self._server
        if server.config.cluster_name is None or server.replication.keeper is None:
            return _IDLE_SECONDS
        try:
            links = [link for link in list_link_names(server.replication.require_keeper()) if _is_of_database(link)]
        except PandoError as error:
            logger.debug("links of databases are looked for later: %s", error)
            return STEP_SECONDS
        for link in links:
            assert isinstance(link, DatabaseLink)
            if link.is_enabled:
                self._look_at(link)
        return STEP_SECONDS if links else _IDLE_SECONDS

    def _look_at(self, link: DatabaseLink) -> None:
        try:
            follow_database(self._server, link)
        except PandoError as error:
            logger.warning("link %s of database %s: %s", link.name, link.target_database, error)
            self._tell_failure(link, error)

    def _tell_failure(self, link: DatabaseLink, error: PandoError) -> None:
        with suppress(PandoError):
            keeper = self._server.replication.require_keeper()
            if _take_lead(keeper, link, self._server.uuid):
                is_away = error.name in ("NETWORK_ERROR", "SOCKET_TIMEOUT")
                status = UpstreamStatus.DISCONNECTED if is_away else UpstreamStatus.PAUSED
                _tell(keeper, link, LinkProgress(status, error.message, last_exception=error.message))


def follow_database(server: OwnerServer, link: DatabaseLink) -> None:
    """Makes the tables and links that are missing now. Raises what keeps it from looking at the source."""
    keeper = server.replication.require_keeper()
    renamed = _list_renamed(keeper, link)
    found = server.links.connect(link.source_cluster).list_tables(link.source_database)
    tables = [each for each in found if each.table not in renamed]
    problems = [f"{each.table} ({each.problem})" for each in tables if each.problem]
    failed = _make_tables(server, link, tables)
    if not _take_lead(keeper, link, server.uuid):
        return
    failed |= _make_links(server, keeper, link, [each.table for each in tables if not each.problem], failed)
    message = f"Left out: {_enumerate(problems)}" if problems else ""
    if failed:
        reasons = _enumerate([f"{name} ({reason})" for name, reason in sorted(failed.items())])
        message = f"Not linked yet: {reasons}{'. ' * bool(message)}{message}"
    _tell(keeper, link, LinkProgress(UpstreamStatus.FOLLOW, message, errors=len(failed)))


def _list_renamed(keeper: Keeper, link: DatabaseLink) -> set[str]:
    """Returns the present names of tables that were renamed at the source: here they keep the name that they had."""
    return {
        each.source_table
        for each in list_members(keeper, link.name)
        if each.source_database == link.source_database and each.name != make_member_name(link.name, each.source_table)
    }


def _make_tables(server: OwnerServer, link: DatabaseLink, tables: Sequence[LinkableTable]) -> dict[str, str]:
    failed: dict[str, str] = {}
    for each in tables:
        if each.problem:
            continue
        try:
            if server.catalog.find(link.target_database, each.table) is not None:
                continue
            server.catalog.create_table(
                link.target_database, adopt_definition(each.create_query, link.target_database, each.table)
            )
            logger.info("link %s made table %s.%s", link.name, link.target_database, each.table)
        except PandoError as error:
            failed[each.table] = error.message
    return failed


def adopt_definition(create_query: str, database: str, table: str) -> CreateTable:
    """Returns the statement that makes a table like another cluster's here, at this cluster's own place.

    Raises 36 (BAD_ARGUMENTS) for anything but a Replicated table.
    """
    statement = parse_statement(create_query).statement
    if not isinstance(statement, CreateTable) or not statement.is_replicated or statement.is_temporary:
        raise UserError("BAD_ARGUMENTS", f"Not the definition of a Replicated table: {create_query[:200]!r}")
    if statement.as_select or statement.as_table is not None:
        raise UserError("BAD_ARGUMENTS", f"The definition of a table must be complete: {create_query[:200]!r}")
    engine = as_not_replicated(statement).engine
    assert engine is not None
    return replace(
        statement,
        table=TableRef(database, table),
        engine=EngineClause(f"Replicated{engine.name}", engine.arguments),
        if_not_exists=True,
        attach=False,
        replaces=False,
        must_exist=False,
        directory="",
        is_scratch=False,
    )


def _make_links(
    server: OwnerServer, keeper: Keeper, link: DatabaseLink, tables: Sequence[str], left_out: Collection[str]
) -> dict[str, str]:
    failed: dict[str, str] = {}
    known = {each.name for each in list_members(keeper, link.name)}
    for table in tables:
        name = make_member_name(link.name, table)
        if name in known or table in left_out or server.catalog.find(link.target_database, table) is None:
            continue
        settings = {**link.settings, "enabled": link.is_enabled}
        new = NewLink(
            name, link.target_database, table, link.source_cluster, link.source_database, table, settings, link.name
        )
        try:
            create_table_link(server, new)
            if not _is_there(keeper, link):  # its DROP has listed the links that it takes along
                drop_table_link(server, name)
        except PandoError as error:
            failed[table] = error.message
    return failed


def _is_there(keeper: Keeper, link: DatabaseLink) -> bool:
    keeper.sync(name_path(link.name))
    found = find_link_name(keeper, link.name)
    return found is not None and found.uuid == link.uuid


def make_member_name(link: str, table: str) -> str:
    """Returns the name of the link of one table of a database link."""
    return f"{link}.{encode_file_name(table)}"


def list_members(keeper: Keeper, name: str) -> list[TableLinkName]:
    """Lists the links of tables that a database link made."""
    return [
        each
        for each in list_link_names(keeper)
        if isinstance(each, TableLinkName) and each.database_link == name and not is_left_over(keeper, each)
    ]


def read_database_progress(keeper: Keeper, name: str) -> LinkProgress:
    """Returns what the server that carries out a database link last told."""
    try:
        return LinkProgress.parse(keeper.get(f"{name_path(name)}/status")[0])
    except NoNode:
        return LinkProgress()


def _is_of_database(link: object) -> bool:
    return isinstance(link, DatabaseLink)


def _take_lead(keeper: Keeper, link: DatabaseLink, server_uuid: str) -> bool:
    """Returns whether this server is the one that makes the links of tables."""
    path = f"{name_path(link.name)}/leader"
    try:
        keeper.create(path, server_uuid.encode(), ephemeral=True)
        return True
    except NodeExists:
        with suppress(NoNode):
            return keeper.get(path)[1].ephemeral_owner == keeper.session_id
    except NoNode:  # the link is gone
        pass
    return False


def _tell(keeper: Keeper, link: DatabaseLink, progress: LinkProgress) -> None:
    path, data = f"{name_path(link.name)}/status", progress.to_bytes()
    try:
        if keeper.get(path)[0] != data:
            keeper.set(path, data)
    except NoNode:
        with suppress(KeeperError):
            keeper.create(path, data)


def _enumerate(items: Sequence[str]) -> str:
    more = len(items) - _MAX_NAMED
    return ", ".join(items[:_MAX_NAMED]) + (f" and {more} more" if more > 0 else "")
