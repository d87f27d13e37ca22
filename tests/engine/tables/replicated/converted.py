"""Servers that have plain tables, on one ZooKeeper in memory and with a place for replicated ones by default."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from coordination.keeper.memory_keeper import MemoryEnsemble, MemoryKeeper
from engine.interserver.replication import Replication
from engine.server.config import Config
from engine.simulator.simulated_disk import SimulatedDisk, record_syncs
from engine.simulator.simulated_node import SimulatedNode
from engine.simulator.simulated_servers import SimulatedServer, SimulatedServers
from engine.simulator.trace import Trace
from engine.tables.owned_table import OwnedTable
from engine.tables.replicated.replicated_table import ReplicatedTable
from parts.common.errors import PandoError
from parts.common.thread_pool import run_jobs_inline

ROOT = "/clickhouse/tables/default/t"
PLAIN = "CREATE TABLE t (p UInt8, k UInt64, v String) ENGINE = MergeTree PARTITION BY p ORDER BY k"


class PlainServer(SimulatedServer):
    """Its table is made by the test."""

    def create(self) -> None:
        return

    def connect(self, config: Config, path: Path, failpoint: Callable[[str], None]) -> Replication:
        replication = super().connect(config, path, failpoint)
        replication.default_path = "/clickhouse/tables/{database}/{table}"
        replication.connect_auxiliary = self._connect_auxiliary
        return replication

    def _connect_auxiliary(self, name: str) -> MemoryKeeper | None:
        colony = self.cluster
        assert isinstance(colony, PlainServers)
        if name != "aux":
            return None
        self.other_keeper = colony.other_ensemble.connect()
        return self.other_keeper

    @property
    def any_table(self) -> OwnedTable:
        return self.engine.catalog.table("default", "t")

    def rows(self, sql: str) -> list[tuple[object, ...]]:
        return self.sql(sql)[1]

    def keys(self, *, sequential: bool = False) -> list[int]:
        return [key for (key,) in self.rows("SELECT k FROM t ORDER BY k")]  # type: ignore[misc]

    def refusal(self, sql: str) -> tuple[int, str]:
        with pytest.raises(PandoError) as refused:
            self.sql(sql)
        return refused.value.code, refused.value.message

    def convert(self, how: str = "REPLICATED") -> None:
        self.sql("DETACH TABLE t")
        self.sql(f"ATTACH TABLE t AS {how}")

    def detached(self) -> list[str]:
        return self.any_table.store.list_detached()

    def problem(self) -> str:
        assert isinstance(self.any_table, ReplicatedTable)
        return self.any_table.state.readonly_reason


class PlainServers(SimulatedServers):
    """``other_ensemble`` is the auxiliary ZooKeeper ``aux``."""

    def __init__(self, *args: object, **settings: object) -> None:
        self.other_ensemble = MemoryEnsemble(clock=lambda: self.now)
        super().__init__(*args, **settings)  # type: ignore[arg-type]

    def make_node(self, name: str) -> SimulatedNode:
        return PlainServer(self, name)


MakeServers = Callable[..., list[PlainServer]]


@contextmanager
def making_servers(root: Path) -> Iterator[MakeServers]:
    """``make(count, **settings)``: so many servers with a plain table ``t``."""
    disks: dict[Path, SimulatedDisk] = {}
    made: list[PlainServers] = []

    def make(count: int = 1, **settings: object) -> list[PlainServer]:
        servers = PlainServers(root, count, 0, Trace(None), disks, **settings)
        servers.power_cut_rate = 0.0
        made.append(servers)
        found = [server for server in servers if isinstance(server, PlainServer)]
        for server in found:
            server.sql(PLAIN)
        return found

    with record_syncs(disks), run_jobs_inline():
        yield make
        for servers in made:
            servers.end()
            for disk in disks.values():
                disk.close()


@pytest.fixture
def make_servers(tmp_path: Path) -> Iterator[MakeServers]:
    with making_servers(tmp_path) as make:
        yield make


def work_on(server: PlainServer) -> list[int]:
    """Parts of several levels, a mutated one, a dropped and a detached partition."""
    for partition, keys in ((1, [1, 2]), (1, [3]), (2, [4]), (3, [5]), (4, [6]), (2, [7, 8])):
        server.insert(partition, keys)
    server.sql("OPTIMIZE TABLE t PARTITION 1 FINAL")
    server.sql("ALTER TABLE t UPDATE v = 'new' WHERE k = 4 SETTINGS mutations_sync = 2")
    server.sql("ALTER TABLE t DROP PARTITION 3")
    server.sql("ALTER TABLE t DETACH PARTITION 4")
    server.insert(5, [9])
    return [1, 2, 3, 4, 7, 8, 9]


def names(server: PlainServer) -> set[str]:
    return {str(part.name) for part in server.any_table.store.list_active()}


def files(server: PlainServer) -> set[int]:
    """Of the active parts, which nobody copies."""
    return {file.stat().st_ino for part in server.any_table.store.list_active() for file in part.path.iterdir()}


def copy_table(source: PlainServer, target: PlainServer) -> None:
    """As somebody does by hand."""
    target.sql("DETACH TABLE t")
    shutil.rmtree(target.path / "data" / "default" / "t")
    shutil.copytree(source.path / "data" / "default" / "t", target.path / "data" / "default" / "t")
    target.sql("ATTACH TABLE t")
