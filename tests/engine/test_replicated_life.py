"""A replicated table in a server: its life from CREATE to DROP, on a ZooKeeper in memory."""

from __future__ import annotations

import errno
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from coordination.keeper.memory_keeper import MemoryEnsemble
from engine.tables.replicated.replicated_table import ReplicatedTable
from parts.common.errors import PandoError, UnavailableError
from tests.engine.conftest import Local

PATHS = ["'/t/{database}/{table}', 'r1'", "'/t/x', 'r1'", ""]


class Server(Local):
    """Every start has a new session."""

    ensemble: MemoryEnsemble

    def connect(self) -> None:
        self.keeper = self.ensemble.connect()
        self.engine.replication._keeper = self.keeper
        self.engine.replication.macros.update(shard="1", replica="r1")

    def table(self, name: str) -> ReplicatedTable:
        table = self.engine.catalog.table("default", name)
        assert isinstance(table, ReplicatedTable)
        return table


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    running = Server(tmp_path / "data")
    running.ensemble = MemoryEnsemble(time.time)
    running.connect()
    yield running
    running.engine.stop()


def create(name: str, engine: str = "'/t/x', 'r1'") -> str:
    return f"CREATE TABLE {name} (k UInt32) ENGINE = ReplicatedMergeTree({engine}) ORDER BY k"


def test_create_is_repeated_when_zookeeper_is_back(server: Server) -> None:
    server.keeper.disconnect()
    with pytest.raises(PandoError) as refused:
        server.run(create("t"))
    assert refused.value.code == 999
    server.keeper.reconnect()
    server.run(create("t"))
    server.run("INSERT INTO t VALUES (1)")
    assert server.value("SELECT count() FROM t") == 1


@pytest.mark.parametrize("engine", PATHS)
def test_renamed_table_keeps_its_place_in_zookeeper(server: Server, engine: str) -> None:
    server.run(create("t", engine))
    server.run("INSERT INTO t VALUES (1)")
    place = server.table("t").replication.replica.root
    server.run("RENAME TABLE t TO u")
    server.run("INSERT INTO u VALUES (2)")
    assert server.value("SELECT sum(k) FROM u") == 3
    assert server.table("u").replication.replica.root == place
    server.run("DETACH TABLE u")
    server.run("ATTACH TABLE u")
    server.run("INSERT INTO u VALUES (3)")
    assert server.table("u").replication.replica.root == place
    server.run(create("t", "'/t/other', 'r1'"))
    server.run("DROP TABLE u")
    assert server.keeper.exists(place) is None
    assert server.value("SELECT count() FROM t") == 0


def test_detached_and_attached_table_goes_on(server: Server) -> None:
    server.run(create("t"))
    for key in range(3):
        server.run(f"INSERT INTO t VALUES ({key})")
        server.run("DETACH TABLE t")
        server.run("ATTACH TABLE t")
    server.run("OPTIMIZE TABLE t FINAL")
    assert server.value("SELECT count() FROM t") == 3
    assert not server.table("t").store.list_detached()


def test_a_table_goes_on_whose_drop_failed(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    server.run(create("t"))
    server.run("INSERT INTO t VALUES (1)")

    def refuse() -> None:
        raise UnavailableError("KEEPER_EXCEPTION", "No connection to ZooKeeper; try again later")

    monkeypatch.setattr(server.table("t").session, "drop_replica", refuse)
    with pytest.raises(PandoError) as refused:
        server.run("DROP TABLE t")
    assert refused.value.code == 999
    server.run("INSERT INTO t VALUES (2)")
    assert server.value("SELECT count() FROM t") == 2
    place = server.table("t").replication.replica.root
    server.run("DROP TABLE t")
    assert server.keeper.exists(place) is None
    assert server.value("EXISTS TABLE t") == 0


def test_a_drop_whose_last_fsync_failed_is_done(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    server.run(create("t"))
    server.run("INSERT INTO t VALUES (1)")

    def fail(path: Path) -> None:
        raise OSError(errno.EIO, f"Input/output error: {path}")

    with monkeypatch.context() as patch:
        patch.setattr("engine.tables.owned_table.sync_directory", fail)
        server.run("DROP TABLE t")  # its definition says durably that it is dropped
        assert server.value("EXISTS TABLE t") == 0
    server.run(create("t"))
    assert server.value("SELECT count() FROM t") == 0


def test_table_truncated_takes_the_same_rows_again(server: Server) -> None:
    """No memory of this server, but ZooKeeper's alone, says what a duplicate is."""
    server.run(create("t"))
    for _ in range(2):
        server.run("INSERT INTO t VALUES (1)")
        server.run("INSERT INTO t VALUES (1)")
        assert server.value("SELECT count() FROM t") == 1
        server.run("TRUNCATE TABLE t")
    assert server.value("SELECT count() FROM t") == 0


def test_forced_restore_is_for_the_start_of_the_server_only(tmp_path: Path) -> None:
    """A table that is attached weeks later must not skip the limits."""
    flag = tmp_path / "data" / "flags" / "force_restore_data"
    flag.parent.mkdir(parents=True)
    flag.touch()
    server = Server(tmp_path / "data")
    try:
        assert not flag.exists()
        server.ensemble = MemoryEnsemble(time.time)
        server.connect()
        server.run(create("t"))
        server.run("INSERT INTO t VALUES (1)")
        data = server.table("t").definition.data_path
        server.run("DETACH TABLE t")
        data.rename(data.with_name("away"))
        server.run("ATTACH TABLE t")
        assert "231" in server.table("t").state.readonly_reason
    finally:
        server.engine.stop()
