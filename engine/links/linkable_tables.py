"""Which tables links can take, and why others not."""

from __future__ import annotations

from typing import Any

from coordination.keeper.interface import NoNode
from engine.catalog.databases import Databases
from engine.tables.capabilities.table_links import TableLinks
from engine.tables.owned_table import OwnedTable
from parts.common.errors import PandoError, UserError
from sql.definitions.engines.replica_location import DEFAULT_ZOOKEEPER


def explain_unlinkable(table: OwnedTable) -> str:
    """Says why a table cannot be linked; "" if it can."""
    name, replica = table.definition.full_name, table.replication
    if replica is None or table.links is None:
        return f"Only tables of Replicated engines can be linked, and {name} is {table.definition.engine_name}"
    if replica.zookeeper_name != DEFAULT_ZOOKEEPER:
        return (
            f"Table {name} is in the auxiliary ZooKeeper {replica.zookeeper_name!r}, and links are kept in that of "
            "the cluster"
        )
    return ""


def require_linkable(table: OwnedTable) -> TableLinks:
    """Returns both ends of a table's links. Raises 48 (NOT_IMPLEMENTED) for a table that cannot be linked."""
    problem = explain_unlinkable(table)
    if problem or table.links is None:
        raise UserError("NOT_IMPLEMENTED", problem)
    return table.links


def find_link_source(catalog: Databases[OwnedTable], database: str, table: str, link: str, uuid: str) -> OwnedTable:
    """Returns the source of a link: the table of this name, or the one that has the link and was renamed.

    Raises 60 (UNKNOWN_TABLE) and 81 (UNKNOWN_DATABASE) if there is neither.
    """
    if uuid and database in catalog.databases():
        found = catalog.find(database, table)
        if found is not None and _has_link(found, link, uuid):
            return found
    renamed = next((each for each in catalog.tables() if _has_link(each, link, uuid)), None) if uuid else None
    return renamed if renamed is not None else catalog.table(database, table)


def _has_link(table: OwnedTable, name: str, uuid: str) -> bool:
    if explain_unlinkable(table) or table.links is None:
        return False
    return any(link.name == name and link.uuid == uuid for link in table.links.source.list_gate_links())


def never_had_rows(table: OwnedTable) -> bool:
    """Returns whether no partition of a replicated table has taken a block number yet, on any replica."""
    replica = table.replication
    assert replica is not None, "only replicated tables have block numbers"
    keeper, paths = replica.require_keeper(), replica.paths
    keeper.sync(paths.root)
    try:
        return not keeper.children(paths.block_numbers)
    except NoNode:
        return True


def describe_tables(catalog: Databases[OwnedTable], database: str) -> list[dict[str, Any]]:
    """Returns the tables of a database: how each is made, or why it cannot be linked.

    Raises 81 (UNKNOWN_DATABASE).
    """
    return [_describe(table) for table in sorted(catalog.tables(database), key=lambda table: table.definition.name)]


def _describe(table: OwnedTable) -> dict[str, Any]:
    name, problem, create = table.definition.name, explain_unlinkable(table), ""
    if not problem and table.links is not None:
        try:
            create = table.links.source.describe().create_query
        except PandoError as error:  # it is read-only now, or its gate is not made yet
            problem = error.message
    return {"table": name, "create_query": create, "problem": problem}
