"""Makes, changes and drops links of whole databases."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from coordination.keeper.interface import BadVersion, KeeperConnectionLoss, MultiFailed, NoNode
from coordination.links.link_definition import LinkDefinition
from coordination.links.link_names import (
    LINKS_PATH,
    DatabaseLink,
    TableLinkName,
    check_link_name,
    find_link_name,
    list_link_names,
    name_path,
    parse_link_name,
)
from coordination.links.link_nodes import is_left_over, make_taken_error, make_unknown_error, take_name
from coordination.links.link_settings import LinkSettings
from coordination.nodes.gate_link import LinkMode
from engine.links.databases.database_links import follow_database, list_members
from engine.links.link_changes import change_table_link, check_link_change
from engine.links.link_creation import drop_table_link, split_enabled
from engine.queries.context import OwnerServer
from parts.common.errors import ConflictError, PandoError, UnavailableError, UserError

logger = logging.getLogger(__name__)

_ATTEMPTS = 20


def create_database_link(
    server: OwnerServer, name: str, database: str, cluster: str, source_database: str, settings: Mapping[str, object]
) -> None:
    """Makes a link of a database, and the links of the tables that are there now.

    Raises what is wrong with it, and leaves nothing behind then. A table that cannot be linked now is no error: the
    link's message names it.
    """
    checked = LinkSettings.parse(settings)
    if checked.start_position not in ("", "now", "vector"):
        raise UserError(
            "BAD_ARGUMENTS",
            f"start_position = '{checked.start_position}' is a position of one table; a link of a database takes '', "
            "'now' or 'vector'",
        )
    if server.cluster_membership.shard.count > 1:
        raise UserError(
            "NOT_IMPLEMENTED",
            f"This cluster has {server.cluster_membership.shard.count} shards, and a link of a database is of one "
            "shard: make a link for each table, on a server of each shard",
        )
    server.catalog.tables(database)  # raises 81 for an unknown one
    keeper = server.replication.require_keeper()
    own = server.cluster_membership.get_identity(keeper)
    found = find_link_name(keeper, check_link_name(name))
    if found is not None and not is_left_over(keeper, found):
        raise make_taken_error(name)
    peer = server.links.connect(cluster)
    if peer.get_identity().uuid == own.uuid and source_database == database:
        raise UserError("BAD_ARGUMENTS", f"Database {database} cannot be linked to itself")
    peer.list_tables(source_database)
    for other in list_link_names(keeper):
        if isinstance(other, DatabaseLink) and (other.source_cluster, other.source_database, other.target_database) == (
            cluster,
            source_database,
            database,
        ):
            raise UserError("BAD_ARGUMENTS", f"Link {other.name!r} is of the same two databases")
    uuid = str(server.services.new_uuid())
    link = DatabaseLink(name, uuid, cluster, source_database, database, split_enabled(settings), checked.enabled)
    keeper.create_parents(LINKS_PATH)
    try:
        keeper.multi([take_name(keeper, link)])
    except MultiFailed as error:
        raise ConflictError("KEEPER_EXCEPTION", f"Another link {name!r} was just made; look at it") from error
    try:
        follow_database(server, link)
    except PandoError as error:  # the link is there: it looks again by itself, and says then what is wrong
        logger.warning("link %s of database %s looks later: %s", name, database, error)


def change_database_link(
    server: OwnerServer, name: str, change: Callable[[LinkDefinition], LinkDefinition], mode: LinkMode | None
) -> None:
    """Changes a link of a database, and the links of its tables.

    ``change`` and ``mode`` are those of a link of a table. Raises what it raises.
    """
    keeper = server.replication.require_keeper()
    for _ in range(_ATTEMPTS):
        try:
            data, stat = keeper.get(name_path(name))
        except NoNode:
            raise make_unknown_error(keeper, name) from None
        link = parse_link_name(name, data)
        assert isinstance(link, DatabaseLink)
        changed = change(_as_definition(link))
        members = list_members(keeper, name)
        for member in members:
            check_link_change(server, member.name, change)
        new = replace(link, settings=changed.settings, is_enabled=changed.is_enabled)
        try:
            keeper.set(name_path(name), new.to_bytes(), stat.version)
        except (BadVersion, NoNode, KeeperConnectionLoss):
            continue
        _for_all(members, lambda member: change_table_link(server, member, change, mode=mode), ", repeat the statement")
        return
    raise ConflictError("KEEPER_EXCEPTION", f"Others keep changing link {name!r}; repeat the statement")


def _as_definition(link: DatabaseLink) -> LinkDefinition:
    return LinkDefinition(
        link.name,
        link.uuid,
        link.source_cluster,
        link.source_database,
        "",
        link.target_database,
        "",
        link.settings,
        is_enabled=link.is_enabled,
    )


def drop_database_link(server: OwnerServer, name: str) -> None:
    """Drops a link of a database and the links of its tables.

    Raises 341 (UNFINISHED) if the source could not be told of one; the message says what to run there.
    """
    keeper = server.replication.require_keeper()
    keeper.delete_tree(name_path(name))  # nobody makes more of them from here on
    _for_all(list_members(keeper, name), lambda member: drop_table_link(server, member), "")


def _for_all(members: Sequence[TableLinkName], act: Callable[[str], object], advice: str) -> None:
    """Does the same to the links of all tables; what fails at one keeps it from none of the others.

    Raises 341 (UNFINISHED) with the messages of all that failed, and with the advice.
    """
    failed: dict[str, str] = {}
    for member in members:
        try:
            act(member.name)
        except PandoError as error:
            failed[member.name] = error.message
    if failed:
        told = "; ".join(f"{name}: {message}" for name, message in failed.items())
        raise UnavailableError("UNFINISHED", f"{len(failed)} of {len(members)} links failed{advice}: {told}")
