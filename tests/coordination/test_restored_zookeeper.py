"""A real ZooKeeper that lost its data, or got an older copy of it back, under clients that have seen more."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from kazoo.client import KazooState
from kazoo.exceptions import SessionExpiredError

from coordination.keeper.chroot import Chroot
from coordination.keeper.embedded_zookeeper import EmbeddedZooKeeper, find_free_port
from coordination.keeper.interface import NodeExists, SessionState
from coordination.keeper.kazoo_keeper import KazooKeeper
from coordination.keeper.kazoo_session import KazooSession
from engine.server.zookeeper_config import ZooKeeperConfig
from parts.common.errors import PandoError
from tests.engine.conftest import Local

pytestmark = pytest.mark.cluster

_SESSION_SECONDS = 1.0


def _until(condition: Callable[[], bool], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "condition not met in time"
        time.sleep(0.02)


class _Server(EmbeddedZooKeeper):
    """``data`` is copied and put back while it is down."""

    def save(self) -> None:
        self.kill()
        shutil.copytree(self.directory / "data", self.directory / "copy")
        self.start()

    def empty(self) -> None:
        self.kill()
        shutil.rmtree(self.directory / "data")
        self.start()

    def restore(self) -> None:
        self.kill()
        shutil.rmtree(self.directory / "data")
        shutil.copytree(self.directory / "copy", self.directory / "data")
        self.start()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[_Server]:
    with _Server(tmp_path / "zookeeper") as running:
        assert isinstance(running, _Server)
        yield running


@contextmanager
def _keeper(server: _Server) -> Iterator[KazooKeeper]:
    keeper = KazooKeeper(server.hosts, _SESSION_SECONDS, "/root")
    try:
        yield keeper
    finally:
        keeper.close()


def _is_renewed(keeper: KazooKeeper, session: int) -> bool:
    return keeper.state is SessionState.CONNECTED and keeper.session_id not in (0, session)


@pytest.mark.long
def test_an_emptied_server_is_reached_again(server: _Server) -> None:
    with _keeper(server) as keeper:
        for number in range(20):
            keeper.create(f"/n{number}")
        states: list[SessionState] = []
        watched: list[str] = []
        keeper.add_listener(states.append)
        keeper.exists("/n1", watched.append)
        session = keeper.session_id
        server.empty()
        _until(lambda: _is_renewed(keeper, session))
        assert SessionState.EXPIRED in states
        assert watched == ["/n1"]
        assert keeper.children("/") == []  # the root was made again
        keeper.create("/n1", b"again", ephemeral=True)
        assert keeper.get("/n1")[0] == b"again"


@pytest.mark.long
def test_a_server_of_the_past_is_reached_again(server: _Server) -> None:
    with _keeper(server) as keeper:
        keeper.create("/before")
        server.save()
        _until(lambda: keeper.state is SessionState.CONNECTED)
        for number in range(20):
            keeper.create(f"/after{number}")
        session = keeper.session_id
        server.restore()
        _until(lambda: _is_renewed(keeper, session))
        assert keeper.children("/") == ["before"]
        with pytest.raises(NodeExists):
            keeper.create("/before")
        keeper.create("/after1")
        # and what the second session has seen does not stand in the way of a third
        session = keeper.session_id
        server.empty()
        _until(lambda: _is_renewed(keeper, session))
        assert keeper.children("/") == []


def test_a_session_is_given_up_only_when_servers_that_are_reached_do_not_take_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However long they were down, and though one that starts accepts connections before it serves them."""
    session = KazooSession(f"127.0.0.1:{find_free_port()}", _SESSION_SECONDS, Chroot(""))
    session.close()  # nobody else connects
    now = [1000.0]
    monkeypatch.setattr("coordination.keeper.kazoo_session.time.monotonic", lambda: now[0])

    def refuse() -> None:
        raise ConnectionRefusedError

    session._on_state(KazooState.SUSPENDED)
    for _ in range(10):
        session._attempt(lambda: "reached in time")
    now[0] += 2 * _SESSION_SECONDS
    for _ in range(10):
        with pytest.raises(ConnectionRefusedError):
            session._attempt(refuse)
    for _ in range(3):
        session._attempt(lambda: "reached, and closed again")
    with pytest.raises(SessionExpiredError):
        session._attempt(refuse)
    session._on_state(KazooState.LOST)
    session._attempt(lambda: "the next session")


@contextmanager
def _replica(server: _Server, path: Path) -> Iterator[Local]:
    zookeeper = ZooKeeperConfig.model_validate(
        {"nodes": [{"host": "127.0.0.1", "port": server.port}], "session_timeout_ms": int(_SESSION_SECONDS * 1000)}
    )
    local = Local(path, zookeeper=zookeeper)
    try:
        yield local
    finally:
        local.engine.stop()


def _readonly_reason(local: Local) -> str:
    rows = local.run("SELECT is_readonly, last_queue_update_exception FROM system.replicas WHERE table = 't'")
    return str(rows[0][1]) if rows[0][0] else ""


def _insert_when_writable(local: Local, sql: str) -> None:
    def is_done() -> bool:
        try:
            local.run(sql)
        except PandoError as error:
            if error.code in (242, 999, 319):
                return False
            raise
        return True

    _until(is_done)


_CREATE = "CREATE TABLE {} (k UInt64) ENGINE = ReplicatedMergeTree('/t/{}', 'r1') ORDER BY k"


@pytest.mark.long
def test_a_running_table_says_that_its_nodes_are_gone(server: _Server, tmp_path: Path) -> None:
    with _replica(server, tmp_path / "r1") as local:
        local.run(_CREATE.format("t", "t"))
        local.run("INSERT INTO t VALUES (1), (2)")
        server.empty()
        _until(lambda: "metadata is missing in ZooKeeper: /t/t" in _readonly_reason(local))
        assert local.value("SELECT sum(k) FROM t") == 3
        with pytest.raises(PandoError) as raised:
            local.run("INSERT INTO t VALUES (3)")
        assert raised.value.code == 242
        local.run(_CREATE.format("other", "other"))  # ZooKeeper itself is well
        _insert_when_writable(local, "INSERT INTO other VALUES (1)")


@pytest.mark.long
def test_a_running_table_goes_on_over_an_older_copy_that_has_all_of_it(server: _Server, tmp_path: Path) -> None:
    with _replica(server, tmp_path / "r1") as local:
        local.run(_CREATE.format("t", "t"))
        local.run("INSERT INTO t VALUES (1), (2)")
        server.save()
        _insert_when_writable(local, "INSERT INTO t VALUES (1), (2)")  # known already: no row, only another session
        local.run(_CREATE.format("other", "other"))
        for number in range(5):
            local.run(f"INSERT INTO other VALUES ({number})")
        server.restore()
        _until(lambda: local.run("SELECT table FROM system.replicas WHERE is_readonly") == [("other",)])
        _insert_when_writable(local, "INSERT INTO t VALUES (3)")
        assert local.value("SELECT sum(k) FROM t") == 6
