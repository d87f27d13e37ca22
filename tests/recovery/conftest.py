"""Whole servers over one ZooKeeper in memory, whose disks an operator may edit while they are down."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.simulator.simulated_disk import (
    SimulatedDisk,
    read_directory,
    record_syncs,
)
from engine.simulator.simulated_servers import SimulatedServer, SimulatedServers
from engine.simulator.trace import Trace
from parts.common.thread_pool import (
    run_jobs_inline,
)
from tests.engine.conftest import local

__all__ = ["local"]

TABLE_PATH = "/clickhouse/tables/1/u"
COLUMNS = "p UInt8, k UInt64"
REPLICATED = f"ENGINE = ReplicatedMergeTree('{TABLE_PATH}', '{{replica}}') PARTITION BY p ORDER BY k"
PLAIN = "ENGINE = MergeTree PARTITION BY p ORDER BY k"


class Operator:
    """What a person does to servers ``r1`` and ``r2`` and to their files; most tests are about the table ``u``."""

    def __init__(self, servers: SimulatedServers) -> None:
        servers.power_cut_rate = 0.0
        self.servers = servers
        self.first, self.second = servers.servers

    def create_everywhere(self, table: str = "u") -> None:
        for server in self.servers.servers:
            server.sql(f"CREATE TABLE {table} ({COLUMNS}) {REPLICATED}")
        self.servers.settle()

    def insert(self, server: SimulatedServer, table: str = "u") -> None:
        """Rows of two partitions in four parts, of which two are then merged."""
        for first in (0, 10):
            values = ", ".join(f"({k % 2}, {k})" for k in range(first, first + 10))
            server.sql(f"INSERT INTO {table} VALUES {values}")
        server.sql(f"OPTIMIZE TABLE {table} PARTITION 0 FINAL")

    def rows(self, server: SimulatedServer, table: str = "u") -> list[tuple[object, ...]]:
        return server.sql(f"SELECT p, k FROM {table} ORDER BY k")[1]

    @staticmethod
    def data(server: SimulatedServer, table: str = "u") -> Path:
        return server.path / "data" / "default" / table

    @staticmethod
    def definition(server: SimulatedServer, table: str = "u") -> Path:
        return server.path / "metadata" / "default" / f"{table}.sql"

    def parts(self, server: SimulatedServer, table: str = "u") -> list[Path]:
        """The directories of all parts, those that are covered too."""
        return sorted(path for path in self.data(server, table).iterdir() if path.name[:2] in ("0_", "1_"))

    @staticmethod
    def start(server: SimulatedServer) -> None:
        """With the files as they are now."""
        server.found = read_directory(server.path)
        server.start()


ROWS = [(k % 2, k) for k in range(20)]


@pytest.fixture
def operator(tmp_path: Path) -> Iterator[Operator]:
    disks: dict[Path, SimulatedDisk] = {}
    with record_syncs(disks), run_jobs_inline():
        servers = SimulatedServers(tmp_path, 2, 1, Trace(None), disks)
        servers.settle()
        yield Operator(servers)
        servers.end()
