"""Ends the links into tables that are dropped, so that their sources keep nothing for them any more.

The nodes of a link go with the last replica of its table. What is left then is its name, and its registration at the
source.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress

from coordination.keeper.interface import BadVersion, Keeper, NoNode
from coordination.links.link_names import TableLinkName, find_link_name, name_path, parse_link_name
from coordination.links.link_nodes import is_left_over
from engine.links.link_creation import end_keeping
from engine.queries.context import OwnerServer
from engine.tables.owned_table import OwnedTable
from parts.common.errors import PandoError, UnavailableError

logger = logging.getLogger(__name__)


@contextmanager
def ending_links(server: OwnerServer, names: Iterable[tuple[str, str | None]]) -> Iterator[None]:
    """Ends the links into those of the tables of which the block drops the last replica.

    ``names`` are databases with a table, or with ``None`` for all of its tables; what is not there is left out.

    Raises 341 (UNFINISHED) if a source could not be told; the message says what to run there.
    """
    links = _list_links(server, list(_find_tables(server, names)))
    try:
        yield
    except BaseException:
        with suppress(PandoError):
            _end_links(server, links)
        raise
    _end_links(server, links)


def _find_tables(server: OwnerServer, names: Iterable[tuple[str, str | None]]) -> Iterator[OwnedTable]:
    for database, name in names:
        with suppress(PandoError):  # DROP says what is wrong
            found = server.catalog.tables(database) if name is None else [server.catalog.find(database, name)]
            yield from filter(None, found)


def _list_links(server: OwnerServer, tables: Iterable[OwnedTable]) -> list[TableLinkName]:
    """Lists the links into the tables, as far as ZooKeeper tells now: none of it keeps a table from being dropped."""
    replicas = [table.replication for table in tables if table.links is not None and table.replication is not None]
    keeper = server.replication.keeper
    if keeper is None or server.config.cluster_name is None or not replicas:
        return []
    try:
        incoming = keeper.children_many([replica.paths.linked.incoming for replica in replicas])
        found = [find_link_name(keeper, name) for names in incoming for name in names or ()]
    except PandoError as error:
        logger.info("links into a table that is dropped are not ended: %s", error.message)
        return []
    roots = {replica.paths.root for replica in replicas}
    return [link for link in found if isinstance(link, TableLinkName) and link.path in roots]


def _end_links(server: OwnerServer, links: Sequence[TableLinkName]) -> None:
    keeper, problems = server.replication.keeper, []
    for link in links:
        if keeper is None or not is_left_over(keeper, link):  # another replica goes on with it
            continue
        _remove_name(keeper, link)
        try:
            end_keeping(server, link)
        except PandoError as error:
            problems.append(error.message)
    if problems:
        raise UnavailableError("UNFINISHED", f"The table is dropped. {' '.join(problems)}")


def _remove_name(keeper: Keeper, link: TableLinkName) -> None:
    """Removes the name, unless another link has taken it over."""
    with suppress(NoNode, BadVersion):
        data, stat = keeper.get(name_path(link.name))
        found = parse_link_name(link.name, data)
        if isinstance(found, TableLinkName) and found.uuid == link.uuid:
            keeper.delete(name_path(link.name), stat.version)
