"""The contract on both keepers, and what only one of them can show: faults, expiry, a server that goes away."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kazoo.client import KazooState
from kazoo.exceptions import ConnectionLoss, UnimplementedError

from coordination.keeper.embedded_zookeeper import EmbeddedZooKeeper
from coordination.keeper.interface import (
    Create,
    Keeper,
    KeeperConnectionLoss,
    KeeperError,
    KeeperSessionExpired,
    KeeperUnavailable,
    SessionState,
)
from coordination.keeper.kazoo_keeper import KazooKeeper
from coordination.keeper.kazoo_multi_read import MultiRead
from coordination.keeper.memory_keeper import Fault, MemoryEnsemble
from coordination.nodes.active_keeper import ActiveKeeper
from coordination.nodes.part_record import PartRecord
from coordination.nodes.paths import TablePaths
from coordination.nodes.replica_activation import ReplicaAddress
from parts.common.part_name import PartName
from recovery.zookeeper_parts import read_part_records
from tests.coordination.keeper_contract import Connect, KeeperContract
from tests.coordination.members import fault_once
from tests.coordination.real_time import activate


class TestMemoryKeeper(KeeperContract):
    @pytest.fixture
    def connect(self) -> Connect:
        return MemoryEnsemble(time.time).connect


class TestMemoryKeeperInChroot(KeeperContract):
    @pytest.fixture
    def connect(self) -> Connect:
        ensemble = MemoryEnsemble(time.time)
        return lambda: ensemble.connect("/some/root")


class TestActiveKeeper(KeeperContract):
    """While its activation holds it is a keeper like any other."""

    @pytest.fixture
    def connect(self) -> Connect:
        ensemble, numbers = MemoryEnsemble(time.time), itertools.count()

        def connect() -> Keeper:
            keeper, replica = ensemble.connect(), TablePaths(f"/tables/{next(numbers)}").replica("r")
            keeper.create_parents(replica.host)
            return ActiveKeeper(keeper, activate(keeper, replica, ReplicaAddress("r", 1), "r"))

        return connect


class _Kazoo(KeeperContract):
    chroot = ""

    @pytest.fixture
    def connect(self, zookeeper: EmbeddedZooKeeper) -> Iterator[Connect]:
        opened: list[KazooKeeper] = []

        def connect() -> Keeper:
            opened.append(KazooKeeper(zookeeper.hosts, 5.0, self.chroot))
            return opened[-1]

        yield connect
        for keeper in opened:
            keeper.close()


@pytest.mark.cluster
class TestKazooKeeper(_Kazoo):
    pass


@pytest.mark.cluster
class TestKazooKeeperInChroot(_Kazoo):
    chroot = "/some/root"


@pytest.mark.cluster
class TestMultiRead:
    """Many nodes by one request, where the server can do that."""

    @pytest.fixture
    def keeper(self, zookeeper: EmbeddedZooKeeper) -> Iterator[KazooKeeper]:
        keeper = KazooKeeper(zookeeper.hosts, 5.0, f"/multi_read_{time.monotonic_ns()}")
        yield keeper
        keeper.close()

    @pytest.fixture
    def paths(self, keeper: KazooKeeper) -> list[str]:
        for _ in range(5):
            keeper.multi([Create("/n-", b"x" * 100, sequential=True) for _ in range(200)])
        return [f"/{name}" for name in keeper.children("/")]

    @staticmethod
    def sent(keeper: KazooKeeper, monkeypatch: pytest.MonkeyPatch, answer: Exception | None = None) -> list[int]:
        """The kinds of requests that go out; a multiRead gets the ``answer`` instead, if there is one."""
        kinds: list[int] = []
        call = keeper._client._call

        def count(request: Any, pending: Any) -> Any:
            kinds.append(request.type)
            if answer is not None and isinstance(request, MultiRead):
                return pending.set_exception(answer)
            return call(request, pending)

        monkeypatch.setattr(keeper._client, "_call", count)
        return kinds

    def test_a_thousand_nodes_are_two_requests(
        self, keeper: KazooKeeper, paths: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        kinds = self.sent(keeper, monkeypatch)
        assert [answer[0] for answer in keeper.get_many(paths) if answer] == [b"x" * 100] * 1000
        assert keeper.children_many(paths) == [[]] * 1000
        assert [stat.data_length for stat in keeper.exists_many(paths) if stat] == [100] * 1000
        assert kinds == [MultiRead.type] * 6

    @pytest.mark.parametrize("answer", [UnimplementedError(), ConnectionLoss()])
    def test_a_server_that_cannot_is_asked_once(
        self, keeper: KazooKeeper, paths: list[str], monkeypatch: pytest.MonkeyPatch, answer: Exception
    ) -> None:
        kinds = self.sent(keeper, monkeypatch, answer)
        for _ in range(2):
            assert [found[0] for found in keeper.get_many(paths) if found] == [b"x" * 100] * 1000
        assert kinds.count(MultiRead.type) == 1

    def test_one_lost_connection_does_not_end_it(
        self, keeper: KazooKeeper, paths: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        keeper.get_many(paths)
        with monkeypatch.context() as broken:
            self.sent(keeper, broken, ConnectionLoss())
            assert all(keeper.get_many(paths))
        kinds = self.sent(keeper, monkeypatch)
        assert all(keeper.get_many(paths))
        assert set(kinds) == {MultiRead.type}

    def test_a_replica_of_many_parts_is_surveyed_by_few_requests(
        self, keeper: KazooKeeper, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        replica = TablePaths("/t").replica("r")
        keeper.create_parents(replica.parts)
        record = PartRecord("0" * 32, 1, 1)
        for start in range(0, 2000, 200):
            parts = [PartName("all", number, number, 0) for number in range(start, start + 200)]
            keeper.multi([Create(replica.part(str(part)), record.to_bytes()) for part in parts])
        kinds = self.sent(keeper, monkeypatch)
        assert set(read_part_records(keeper, replica).values()) == {record}
        assert len(kinds) == 1 + 4


class TestMemoryFaults:
    def test_lost_request_and_lost_answer_look_alike_to_the_caller(self) -> None:
        ensemble = MemoryEnsemble(time.time)
        keeper, other = ensemble.connect(), ensemble.connect()
        for fault, name, applied in ((Fault.LOSE_REQUEST, "a", False), (Fault.LOSE_ANSWER, "b", True)):
            ensemble.faults = lambda session, kind, path, fault=fault: fault if kind == "create" else None
            with pytest.raises(KeeperConnectionLoss):
                keeper.create(f"/{name}")
            ensemble.faults = None
            assert keeper.state is SessionState.SUSPENDED
            keeper.reconnect()
            assert (other.exists(f"/{name}") is not None) is applied

    def test_disconnected_calls_fail_definitely_and_the_session_survives(self) -> None:
        keeper = MemoryEnsemble(time.time).connect()
        session = keeper.session_id
        keeper.create("/e", ephemeral=True)
        keeper.disconnect()
        with pytest.raises(KeeperUnavailable):
            keeper.create("/x")
        keeper.reconnect()
        assert keeper.session_id == session
        assert keeper.exists("/e") is not None

    def test_expiry_takes_ephemerals_and_fires_watches(self) -> None:
        keeper = MemoryEnsemble(time.time).connect()
        states: list[SessionState] = []
        fired: list[str] = []
        keeper.add_listener(states.append)
        keeper.create("/e", ephemeral=True)
        keeper.exists("/other", fired.append)
        session = keeper.session_id
        keeper.expire()
        assert fired == ["/other"]
        assert keeper.session_id == 0
        keeper.reconnect()
        assert keeper.session_id not in (0, session)
        assert keeper.exists("/e") is None
        assert states == [SessionState.EXPIRED, SessionState.CONNECTED]

    def test_lagging_server_shows_the_past_until_sync(self) -> None:
        ensemble = MemoryEnsemble(time.time)
        keeper, other = ensemble.connect(), ensemble.connect()
        keeper.lag()
        other.create("/new")
        assert keeper.exists("/new") is None
        keeper.sync("/")
        assert keeper.exists("/new") is not None

    def test_lagging_server_catches_up_at_an_answered_write(self) -> None:
        ensemble = MemoryEnsemble(time.time)
        keeper, other = ensemble.connect(), ensemble.connect()
        for write in (lambda: keeper.create("/mine"), lambda: keeper.create("/mine"), lambda: keeper.delete("/none")):
            keeper.lag()
            other.create("/new", sequential=True)
            assert len(keeper.children("/")) < len(other.children("/"))
            with contextlib.suppress(KeeperError):
                write()
            assert keeper.children("/") == other.children("/")

    def test_watch_on_the_past_fires_when_the_server_catches_up(self) -> None:
        ensemble = MemoryEnsemble(time.time)
        keeper, other = ensemble.connect(), ensemble.connect()
        keeper.lag()
        other.create("/new")
        seen: list[str] = []
        keeper.exists("/new", seen.append)
        keeper.children("/", seen.append)
        keeper.exists("/other", seen.append)
        keeper.catch_up()
        assert sorted(seen) == ["/", "/new"]

    def test_next_server_may_not_have_seen_the_write_whose_answer_was_lost(self) -> None:
        ensemble = MemoryEnsemble(time.time)
        keeper = ensemble.connect()
        fault_once(ensemble, Fault.LOSE_ANSWER, "create")
        with pytest.raises(KeeperConnectionLoss):
            keeper.create("/mine")
        keeper.reconnect(lagging=True)
        assert keeper.exists("/mine") is None
        keeper.sync("/")
        assert keeper.exists("/mine") is not None

    def test_closed_session_expires_a_request(self) -> None:
        ensemble = MemoryEnsemble(time.time)
        keeper = ensemble.connect()
        ensemble.faults = lambda session, kind, path: Fault.EXPIRE
        with pytest.raises(KeeperSessionExpired):
            keeper.multi([Create("/x")])


def _until(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "condition not met in time"
        time.sleep(0.01)


@pytest.mark.cluster
class TestKazooFaults:
    @pytest.mark.long
    def test_server_that_goes_and_comes_back(self, tmp_path: object) -> None:
        server = EmbeddedZooKeeper(str(tmp_path)).start()
        states: list[SessionState] = []
        keeper = KazooKeeper(server.hosts, 30.0, "/root", read_retry_seconds=0.5, write_connect_wait_seconds=0.2)
        try:
            keeper.add_listener(states.append)
            keeper.create("/e", ephemeral=True)
            session = keeper.session_id
            server.kill()
            _until(lambda: keeper.state is SessionState.SUSPENDED)
            started = time.monotonic()
            with pytest.raises(KeeperUnavailable, match="no connection to ZooKeeper"):
                keeper.create("/x")
            with pytest.raises(KeeperUnavailable):
                keeper.get_many(["/x", "/y"])
            assert time.monotonic() - started < 3
            server.start()
            assert keeper.wait_connected(15)
            assert keeper.session_id == session
            assert keeper.exists("/e") is not None
            assert states[:2] == [SessionState.SUSPENDED, SessionState.CONNECTED]
        finally:
            keeper.close()
            server.stop()

    def test_expired_session_is_replaced_by_itself(self, zookeeper: EmbeddedZooKeeper) -> None:
        """The session is ended behind the client's back, as by the server's time-out."""
        keeper = KazooKeeper(zookeeper.hosts, 5.0, "/expiry")
        twin = KazooKeeper(zookeeper.hosts, 5.0, "/expiry")
        states: list[SessionState] = []
        try:
            keeper.add_listener(states.append)
            keeper.create("/e", ephemeral=True)
            session = keeper.session_id
            _end_session(zookeeper, keeper)
            _until(lambda: keeper.session_id not in (0, session) and keeper.state is SessionState.CONNECTED)
            assert SessionState.EXPIRED in states
            _until(lambda: twin.exists("/e") is None)
            keeper.create("/e", ephemeral=True)
        finally:
            keeper.close()
            twin.close()

    @pytest.mark.long
    def test_silent_server_makes_a_write_unknown(self, tmp_path: object) -> None:
        """A stopped process keeps its connections open and answers nothing: the read time-out must tell."""
        server = EmbeddedZooKeeper(str(tmp_path)).start()
        keeper = KazooKeeper(server.hosts, 4.0, read_retry_seconds=0.5)
        try:
            keeper.create("/a")
            server.pause()
            with pytest.raises(KeeperConnectionLoss):
                keeper.create("/b")
            server.resume()
            assert keeper.wait_connected(30)
            assert keeper.exists("/a") is not None
        finally:
            if server.pid:
                os.kill(server.pid, signal.SIGCONT)
            keeper.close()
            server.stop()

    @pytest.mark.long
    def test_starts_without_a_server(self, tmp_path: object) -> None:
        server = EmbeddedZooKeeper(str(tmp_path)).start()
        server.stop()
        keeper = KazooKeeper(server.hosts, 5.0, "/late", connect_timeout_seconds=0.1, read_retry_seconds=0.1)
        try:
            assert keeper.state is SessionState.EXPIRED
            with pytest.raises(KeeperUnavailable):
                keeper.exists("/")
            server.start()
            assert keeper.wait_connected(15)
            assert keeper.children("/") == []
        finally:
            keeper.close()
            server.stop()


def _end_session(zookeeper: EmbeddedZooKeeper, keeper: KazooKeeper) -> None:
    """A second client takes over the session by its id and password, and closes it."""
    from kazoo.client import KazooClient

    thief = KazooClient(hosts=zookeeper.hosts, client_id=keeper._client.client_id)
    thief.start()
    assert thief.state == KazooState.CONNECTED
    thief.stop()
    thief.close()
