"""An engine with tables of all kinds for the statements of :mod:`tests.fuzz.statements`: plain ones, one with
partitions, one that is replicated (over a ZooKeeper in memory), with every type and the borders of its values.
"""

from __future__ import annotations

import contextlib
import io
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from coordination.keeper.memory_keeper import MemoryEnsemble
from coordination.nodes.replica_activation import ReplicaAddress
from engine.engine import Engine
from engine.interserver.part_client import InterserverClient
from engine.interserver.replication import Replication
from engine.queries.session import Session
from engine.server.config import Config
from parts.common.errors import PandoError
from sql.formats.registry import write_blocks
from tests.sql.functions import rows
from tests.sql.run.dataset import TABLES

_ROWS = 150
_BODY = "FORMAT Native"


@contextlib.contextmanager
def opened_server() -> Iterator[Server]:
    with tempfile.TemporaryDirectory(prefix="pando-fuzz-") as name:
        server = Server(Path(name))
        try:
            yield server
        finally:
            server.engine.stop()
            server.replication.stop()


class Server:
    """``restore`` brings back the tables as they were, so that equal seeds meet equal tables."""

    def __init__(self, path: Path) -> None:
        self.engine = Engine(Config.local(path))
        self.engine.start()
        macros = {"shard": "s1", "replica": "r1"}
        address = ReplicaAddress("127.0.0.1", 1, 1)
        self.replication = Replication(MemoryEnsemble(time.time).connect(), InterserverClient(None), address, macros)
        self.engine.replication = self.replication
        self._body = _all_types()
        self._makers = _makers()
        self._first: dict[str, tuple[object, int]] = {}
        self.restore()

    def restore(self) -> None:
        state = self._state()
        if state == self._first and self._first:
            return
        for database in self.engine.catalog.databases():
            if database != "default":
                self.engine.catalog.drop_database(database, if_exists=True, detach=False)
        if "default" not in self.engine.catalog.databases():
            self._do("CREATE DATABASE default")
        for name in self._state():
            if name not in self._first or state.get(name) != self._first[name]:
                self._do(f"DROP TABLE `{name}` SYNC")
        there = self._state()
        for name, statements in self._makers.items():
            if name not in there:
                for statement in statements:
                    self._do(statement, self._body if statement.endswith(_BODY) else None)
        self._first = self._state()

    def _state(self) -> dict[str, tuple[object, int]]:
        catalog = self.engine.catalog
        found = {}
        for database in catalog.databases():
            for table in catalog.tables(database):
                name = table.definition.name
                rows = sum(part.rows for part in table.store.list_active())
                found[name if database == "default" else f"{database}.{name}"] = (id(table), rows)
        return found

    def _do(self, statement: str, body: bytes | None = None) -> None:
        with contextlib.suppress(PandoError):
            self.engine.execute(statement, Session(), io.BytesIO(body) if body else None).close()


def _all_types() -> bytes:
    columns = [(column.name, column.type) for column in rows.schema().columns]
    return b"".join(write_blocks("Native", columns, iter(rows.table(_ROWS).to_batches())))


def _makers() -> dict[str, list[str]]:
    """The statements that make each table and fill it."""
    columns = ", ".join(f"{column.name} {column.type}" for column in rows.schema().columns)
    makers = {
        "t": [
            f"CREATE TABLE t ({columns}) ENGINE = MergeTree ORDER BY id SETTINGS index_granularity = 64",
            f"INSERT INTO t {_BODY}",
        ],
        "parted": [
            "CREATE TABLE parted (id UInt32, su8 UInt8, s String DEFAULT 'x', v Float64 MATERIALIZED su8 / 2) "
            "ENGINE = MergeTree PARTITION BY su8 % 3 ORDER BY (su8, id) SAMPLE BY id",
            "INSERT INTO parted SELECT number, number % 7, toString(number % 5) FROM numbers(60)",
            "INSERT INTO parted SELECT number, number % 7, toString(number % 5) FROM numbers(40, 40)",
        ],
        "kept": [
            "CREATE TABLE kept (id UInt32, su8 UInt8, s LowCardinality(String)) "
            "ENGINE = ReplicatedMergeTree('/f/kept', '{replica}') ORDER BY id",
            "INSERT INTO kept SELECT number, number % 11, toString(number % 3) FROM numbers(90)",
        ],
        "small": [
            "CREATE TABLE small (a UInt8, b String) ENGINE = MergeTree ORDER BY a",
            "INSERT INTO small VALUES (1, 'x')",
        ],
    }
    for name, (columns, query) in TABLES.items():
        key = columns.split()[0]
        create = f"CREATE TABLE {name} ({columns}) ENGINE = MergeTree ORDER BY {key}"
        makers[name] = [create, f"INSERT INTO {name} {query}"]
    return makers
