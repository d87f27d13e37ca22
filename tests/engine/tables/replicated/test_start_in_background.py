"""A server reads its replicated tables from disk and answers; they begin to replicate by themselves afterwards."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from coordination.keeper.memory_keeper import MemoryEnsemble
from coordination.nodes.replica_activation import ReplicaAddress
from engine.engine import Engine
from engine.environment import ServerEnvironment, make_system_services
from engine.front.http.status_pages import EngineStatusPages
from engine.front.prometheus_metrics import Metrics
from engine.interserver.part_client import InterserverClient
from engine.interserver.replication import Replication
from engine.queries.session import Session
from engine.server.config import Config
from engine.tables.replicated.replicated_table import ReplicatedTable
from parts.common.errors import PandoError

_WAIT_SECONDS = 30.0
_TABLES = 12


@dataclass
class Held:
    """A server with threads, whose requests to ZooKeeper are held up until ``go``."""

    path: Path
    ensemble: MemoryEnsemble = field(default_factory=lambda: MemoryEnsemble(time.time))
    go: threading.Event = field(default_factory=threading.Event)
    asked: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    """All of them, by kind: what is read by one call is one request."""
    engine: Engine = field(init=False)

    def start(self, *, in_background: bool = True) -> None:
        config = Config.model_validate(
            {"path": self.path, "http_port": None, "interserver_http_port": None, "macros": {"replica": "r1"}}
        )
        self.engine = Engine(config, ServerEnvironment(make_system_services, self._connect, has_watchdog=False))
        self.engine.start(in_background=in_background)

    def _connect(self, config: Config, path: Path, failpoint: Callable[[str], None]) -> Replication:
        keeper = _HeldKeeper(self)
        return Replication(
            keeper,  # type: ignore[arg-type]
            InterserverClient(None, failpoint),
            ReplicaAddress("", 0),
            dict(config.macros),
        )

    def run(self, sql: str) -> list[tuple[object, ...]]:
        result = self.engine.execute(sql, Session())
        return [tuple(row.values()) for batch in result.batches for row in batch.to_pylist()]

    def readonly(self) -> list[str]:
        return [str(name) for (name,) in self.run("SELECT table FROM system.replicas WHERE is_readonly")]

    def ready(self) -> int:
        return EngineStatusPages(self.engine, Metrics(self.engine)).ready().status  # type: ignore[arg-type]


class _HeldKeeper:
    """Every call waits until the server is let go."""

    def __init__(self, held: Held) -> None:
        self._held = held
        self._keeper = held.ensemble.connect()

    def __getattr__(self, name: str) -> object:
        found = getattr(self._keeper, name)
        if not callable(found) or name in ("close", "add_listener"):
            return found

        def call(*arguments: object, **named: object) -> object:
            if name == "sync":
                self._held.asked.append(str(arguments[0]))
            if arguments != ([],):  # nothing is sent then
                self._held.requests.append(name)
            assert self._held.go.wait(_WAIT_SECONDS)
            return found(*arguments, **named)

        return call


@pytest.fixture
def held(tmp_path: Path) -> Iterator[Held]:
    """Some tables of one row, and a start that cannot ask ZooKeeper anything."""
    held = Held(tmp_path)
    held.go.set()
    held.start()
    for number in range(_TABLES):
        held.run(f"CREATE TABLE t{number:02} (k UInt64) ENGINE = ReplicatedMergeTree('/t{number}', 'r1') ORDER BY k")
        held.run(f"INSERT INTO t{number:02} VALUES (1)")
    for number in range(_TABLES):  # else the start pulls what the stopped server had not pulled
        held.run(f"SYSTEM SYNC REPLICA t{number:02}")
    held.engine.stop()
    held.go.clear()
    held.asked.clear()
    held.requests.clear()
    held.start()
    yield held
    held.go.set()
    held.engine.stop()


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _WAIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_rows_are_read_before_zookeeper_was_asked(held: Held) -> None:
    assert held.run("SELECT k FROM t00") == held.run(f"SELECT k FROM t{_TABLES - 1:02}") == [(1,)]
    assert len(held.readonly()) == _TABLES
    why = {str(why) for (why,) in held.run("SELECT last_queue_update_exception FROM system.replicas")}
    assert why <= {"The table is starting", "The replica is starting"}
    assert held.ready() == 503
    held.go.set()
    wait_for(lambda: not held.readonly())
    assert held.ready() == 200


def test_a_table_starts_with_few_requests(held: Held) -> None:
    held.go.set()
    wait_for(lambda: not held.readonly())
    wait_for(lambda: held.requests.count("get") >= 4 * _TABLES)  # the last that a table makes
    assert len(held.requests) <= 13 * _TABLES


def test_nothing_to_clean_is_one_request(held: Held) -> None:
    held.go.set()
    held.run("INSERT INTO t03 VALUES (2)")
    table = held.engine.catalog.table("default", "t03")
    assert isinstance(table, ReplicatedTable)
    table.housekeeping.step()
    for pool in (held.engine.services.housekeeping, held.engine.services.workers):
        pool.stop()  # else other tasks ask, too
    held.requests.clear()
    table.housekeeping.step()
    assert held.requests == ["read_many"]


def test_an_insert_waits_for_its_table(held: Held) -> None:
    written = threading.Thread(target=lambda: held.run("INSERT INTO t05 VALUES (2)"))
    written.start()
    written.join(0.2)
    assert written.is_alive()
    held.go.set()
    written.join(_WAIT_SECONDS)
    assert held.run("SELECT sum(k) FROM t05") == [(3,)]


def test_a_table_that_is_written_to_comes_before_the_others(held: Held) -> None:
    """Some have begun: as many as there are threads."""
    wait_for(lambda: len(held.asked) >= 4)
    last = f"t{_TABLES - 1:02}"
    path = held.run(f"SELECT zookeeper_path FROM system.replicas WHERE table = '{last}'")[0][0]
    assert path not in held.asked
    written = threading.Thread(target=lambda: held.run(f"INSERT INTO {last} VALUES (2)"))
    written.start()
    written.join(0.2)
    held.go.set()
    written.join(_WAIT_SECONDS)
    roots = list(dict.fromkeys(name for name in held.asked if name.count("/") == 1))
    assert roots.index(str(path)) == 4


def test_a_dropped_table_does_not_wait(held: Held) -> None:
    held.go.set()
    held.run("DROP TABLE t03")
    wait_for(lambda: not held.readonly())
    assert held.ensemble.tree.get("/t3") is None


def test_a_table_that_zookeeper_lost_is_readonly_and_says_why(held: Held) -> None:
    for path in sorted((path for path in held.ensemble.tree if path.startswith("/t4/") or path == "/t4"), reverse=True):
        held.ensemble.connect().delete(path)
    held.go.set()
    with pytest.raises(PandoError) as caught:
        held.run("INSERT INTO t04 VALUES (2)")
    assert caught.value.code == 242
    assert "SYSTEM RESTORE REPLICA" in caught.value.message
    wait_for(lambda: held.readonly() == ["t04"])
    assert held.ready() == 200


def test_a_start_that_waits_leaves_nothing_to_begin(tmp_path: Path) -> None:
    held = Held(tmp_path)
    held.go.set()
    for _ in range(2):
        held.start(in_background=False)
        held.run("CREATE TABLE IF NOT EXISTS t (k UInt64) ENGINE = ReplicatedMergeTree('/t', 'r1') ORDER BY k")
        assert held.readonly() == []
        held.engine.stop()
