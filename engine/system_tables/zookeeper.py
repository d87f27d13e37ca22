"""``system.zookeeper``: the children of the nodes that the query names in WHERE.

The condition is ``path = …`` or ``path IN (…)``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from coordination.keeper.interface import Keeper, NoNode, SessionState
from engine.queries.context import (
    Row,
    Server,
)
from engine.system_tables.system_table import (
    define_server_table,
    select_values,
)
from parts.common.errors import UserError
from parts.table.table_description import TableSchema
from sql.definitions.engines.replica_location import split_zookeeper

TABLE = define_server_table(
    "zookeeper",
    """
    name String
    value String
    czxid Int64
    mzxid Int64
    ctime DateTime
    mtime DateTime
    version Int32
    cversion Int32
    ephemeralOwner Int64
    dataLength Int32
    numChildren Int32
    path String
    """,
    lambda _: (),
)


def _connections(server: Server) -> Iterator[Row]:
    for view in server.replication.list_connected():
        keeper = view.keeper
        assert keeper is not None
        yield (view.zookeeper_name, int(keeper.state is not SessionState.CONNECTED), keeper.session_id)


CONNECTIONS = define_server_table(
    "zookeeper_connection",
    """
    name String
    is_expired UInt8
    client_id Int64
    """,
    _connections,
)
"""The ZooKeepers that this server has connected to: the default one, and auxiliary ones of its tables."""


@dataclass(frozen=True)
class ZooKeeperRelation:
    """The table bound to a server. Implements ``sql.relations.KeyedRelation``."""

    server: Server
    key_column: str = "path"

    @property
    def schema(self) -> TableSchema:
        """The columns of the table."""
        return TABLE.schema

    def read(self, columns: Sequence[str]) -> pa.Table:
        """Raises 36 (BAD_ARGUMENTS), because the query names no path."""
        return self.read_keys(None, columns)

    def read_keys(self, values: Sequence[str] | None, columns: Sequence[str]) -> pa.Table:
        """Returns the children of the nodes in ``values``, with these columns.

        Raises 36 (BAD_ARGUMENTS) without paths, 225 (NO_ZOOKEEPER), 999 (KEEPER_EXCEPTION) for a node that does not
        exist.
        """
        if values is None:
            raise UserError(
                "BAD_ARGUMENTS", "SELECT from system.zookeeper needs a condition such as path = '/' or path IN (…)"
            )
        return TABLE.block(select_values(TABLE.schema, self.server.zookeeper_rows(values), columns), columns)


def list_children(keeper_of: Callable[[str], Keeper], paths: Sequence[str]) -> list[Row]:
    """Returns the rows of the nodes' children; ``name:/path`` is in the auxiliary ZooKeeper of that name.

    Raises 999 (KEEPER_EXCEPTION) for a node that does not exist, and the errors of ``keeper_of``.
    """
    return [row for path in paths for row in _list_node_children(keeper_of, path)]


def _list_node_children(keeper_of: Callable[[str], Keeper], path: str) -> Iterator[Row]:
    zookeeper, parent = split_zookeeper(path)
    keeper, parent = keeper_of(zookeeper), parent or "/"
    try:
        names = keeper.children(parent)
    except NoNode:
        raise UserError("KEEPER_EXCEPTION", f"There is no node {parent} in ZooKeeper") from None
    prefix = "/" if parent == "/" else f"{parent}/"
    for name, answer in zip(names, keeper.get_many([prefix + name for name in names]), strict=True):
        if answer is None:
            continue
        data, stat = answer
        yield (
            name,
            data.decode(errors="replace"),
            stat.created_zxid,
            stat.modified_zxid,
            stat.created_ms // 1000,
            stat.modified_ms // 1000,
            stat.version,
            stat.children_version,
            stat.ephemeral_owner,
            stat.data_length,
            stat.children_count,
            path,
        )
