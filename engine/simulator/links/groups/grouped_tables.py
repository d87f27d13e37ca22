"""The tables of a simulated group: making them and their links, reading all of them at one moment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from engine.simulator.links.groups.cut_history import Read, Rows
from engine.simulator.links.linked_cluster import LinkedCluster
from engine.simulator.simulated_servers import SimulatedServer
from engine.tables.replicated.replicated_table import ReplicatedTable

GROUP = "g"
_CREATE = """
CREATE TABLE {0} (p UInt8, k UInt64, v String)
ENGINE = ReplicatedMergeTree('/tables/{0}', '{{replica}}') PARTITION BY p ORDER BY k
"""
_LINK_SETTINGS = "start_position = 'now', replication_timeout = 5, link_batch_delay_ms = 0"


def create_tables(cluster: LinkedCluster, tables: Sequence[str]) -> None:
    """Makes the tables that every server does not have from its start."""
    for server in cluster.servers:
        for table in tables:
            if server.engine.catalog.find("default", table) is None:
                server.sql(_CREATE.format(table))


def render_link(table: str, source: str) -> str:
    """Returns the statement that links a table; the link has the table's name."""
    return f"CREATE REPLICATION LINK {table} ON {table} FROM CLUSTER {source} SETTINGS {_LINK_SETTINGS}"


def render_group(tables: Sequence[str]) -> str:
    """Returns the statement that makes the group."""
    return f"CREATE REPLICATION LINK GROUP {GROUP} ({', '.join(tables)}) SETTINGS transactional = 1"


def render_insert(table: str, keys: Sequence[int], partitions: int) -> str:
    """Returns the end of an INSERT of these keys."""
    values = ", ".join(f"({key % partitions}, {key}, 'value {key}')" for key in keys)
    return f"VALUES {values}"


def read_group(server: SimulatedServer, tables: Sequence[str], *, is_by_sql: bool) -> tuple[str, Read]:
    """Reads all tables at one moment; returns the UUID of the source of its cut, and what was shown.

    By SQL it is one statement; else the view that a statement would take, which costs a tenth.

    Raises 369 (ALL_REPLICAS_ARE_STALE) where no cut is shown, and 36 (BAD_ARGUMENTS) for a table that is in no group.
    """
    cut, rows = _select(server, tables) if is_by_sql else _read_view(server, tables)
    uuid, _, place = cut.rpartition(":")
    reader = f"{cast(LinkedCluster, server.cluster).name} {server.name}"
    return uuid, Read(reader, rows, int(place))


def _select(server: SimulatedServer, tables: Sequence[str]) -> tuple[str, Rows]:
    cuts = [f"lastCut('default.{table}')" for table in tables]
    keys = [f"(SELECT arraySort(groupArray(k)) FROM {table})" for table in tables]
    (row,) = server.sql(f"SELECT {', '.join([*cuts, *keys])}")[1]
    (cut,) = {str(text) for text in row[: len(tables)]}
    return cut, {table: cast("list[int]", found) for table, found in zip(tables, row[len(tables) :], strict=True)}


def _read_view(server: SimulatedServer, tables: Sequence[str]) -> tuple[str, Rows]:
    rows: dict[str, list[int]] = {}
    with server.acting(), server.engine.open_group_view(GROUP, "", 0.0) as view:
        for name in tables:
            table = cast(ReplicatedTable, server.engine.catalog.table("default", name))
            with view.snapshot(table) as snapshot:
                batches = [batch for part in snapshot.parts for batch in part.read(["k"])]
            rows[name] = [key for batch in batches for key in batch.column(0).to_pylist()]
        server.cluster.trace.add(f"{server.name} shows {rows} at {view.cut}")
        return view.cut, rows
