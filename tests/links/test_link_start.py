"""Servers that answer no query of linked tables until they have caught up with enough sources."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from coordination.keeper.memory_keeper import MemoryEnsemble
from coordination.links.link_definition import LinkDefinition
from engine.http_client.http_client import HttpClient
from engine.links.caught_up import CatchingUp
from engine.links.link_start import StartState
from engine.server.config import Config
from engine.tables.capabilities.table_links import SourceTable
from engine.workers.link_calls import ReplicaProcessLinkStart
from engine.workers.shared_page import SharedPage
from parts.common.errors import PandoError
from tests.links.linked_server import SOURCE
from tests.links.linked_servers import PASSWORD, USER, LinkedServer, create_table

QUORUM = {"replication_connect_quorum": 1, "replication_connect_timeout": 60, "replication_sync_lag": 20}
STALE, READ_ONLY = 369, 242


def wait(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.01)


class Servers:
    """Servers that can be started again."""

    def __init__(self, path: Path, stack: ExitStack) -> None:
        self._path = path
        self._stack = stack
        self._ensembles: dict[str, MemoryEnsemble] = {}
        self._running: dict[str, LinkedServer] = {}
        stack.callback(lambda: [server.close() for server in self._running.values()])

    def start(self, name: str, replica: str = "r1", **keys: Any) -> LinkedServer:
        """Starts a server; one of this name that runs is stopped before."""
        self.stop(name, replica)
        ensemble = self._ensembles.setdefault(name, MemoryEnsemble(clock=time.time))
        server = LinkedServer(name, replica, self._path / f"{name}-{replica}", ensemble, keys)
        self._running[f"{name}-{replica}"] = server
        return server

    def stop(self, name: str, replica: str = "r1") -> None:
        if (former := self._running.pop(f"{name}-{replica}", None)) is not None:
            former.close()


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Servers]:
    with ExitStack() as stack:
        yield Servers(tmp_path, stack)


def fails(client: HttpClient, text: str, **settings: str) -> PandoError:
    with pytest.raises(PandoError) as error:
        client.execute(text, settings=settings)
    return error.value


def page(client: HttpClient, path: str) -> tuple[int, str]:
    answer = client.get(path)
    return answer.status_code, answer.text


def link(target: LinkedServer, table: str = "t", **settings: object) -> None:
    text = ", ".join(f"{name} = {value!r}" for name, value in {"start_position": "now", **settings}.items())
    with target.client() as client:
        client.execute(f"CREATE REPLICATION LINK l_{table} ON {table} FROM CLUSTER west SETTINGS {text}")


def make_linked(servers: Servers, **settings: object) -> tuple[LinkedServer, LinkedServer]:
    """A table ``t`` of west with one row, linked to the server of east; ``own`` has no links."""
    west, east = servers.start("west"), servers.start("east")
    west.know(east=[east.url])
    east.know(west=[west.url])
    create_table([west, east])
    create_table([east], "own")
    link(east, **settings)
    with west.client() as source, east.client() as target:
        source.execute("INSERT INTO t VALUES (1, 'a')")
        target.execute("SYSTEM WAIT REPLICATION LINK l_t TIMEOUT 30")
        target.execute("INSERT INTO own VALUES (1, 'a')")
    return west, east


def test_a_server_answers_when_it_has_caught_up(servers: Servers) -> None:
    west, _ = make_linked(servers)
    east = servers.start("east", **QUORUM)  # it knows no address of west yet
    with east.client() as client, west.client() as source:
        source.execute("INSERT INTO t VALUES (2, 'b')")
        wait(lambda: "west" in east.engine.link_start._sources, "the look at the links")
        error = fails(client, "SELECT * FROM t")
        assert error.code == STALE
        assert "cluster west" in error.message
        assert "replication_connect_quorum" in error.message
        assert client.value("SELECT count() FROM own") == 1
        assert client.value("SELECT count() FROM system.tables WHERE name = 't'") == 1
        assert page(client, "/ping")[0] == 200
        status, text = page(client, "/replicas_status")
        assert status == 503
        assert "cluster west" in text
        assert json.loads(page(client, "/replicas_status?delays=1")[1])["default.t"] is None
        east.know(west=[west.url])
        wait(lambda: east.engine.link_start.state is StartState.OPEN, "the server to open")
        assert client.value("SELECT count() FROM t") == 2
        assert page(client, "/replicas_status")[0] == 200


def test_what_another_server_brought_must_be_visible_here(servers: Servers) -> None:
    west, one = make_linked(servers)
    other = servers.start("east", "r2")
    create_table([other])
    other = servers.start("east", "r2", **QUORUM)
    with one.client() as client, other.client() as second, west.client() as source:
        second.execute("SYSTEM STOP FETCHES t")
        source.execute("INSERT INTO t VALUES (2, 'b')")
        wait(lambda: client.value("SELECT count() FROM t") == 2, "the leader")
        other.know(west=[west.url])
        wait(lambda: "not visible here" in fails(second, "SELECT * FROM t").message, "the reason")
        second.execute("SYSTEM START FETCHES t")
        wait(lambda: other.engine.link_start.state is StartState.OPEN, "the server to open")
        assert second.value("SELECT count() FROM t") == 2


def test_when_the_time_is_over_reads_work_and_it_says_what_is_missing(
    servers: Servers, caplog: pytest.LogCaptureFixture
) -> None:
    make_linked(servers, two_way=1)
    caplog.set_level(logging.WARNING)
    east = servers.start("east", **{**QUORUM, "replication_connect_timeout": 0.3})
    with east.client() as client:
        wait(lambda: east.engine.link_start.state is StartState.READS, "the time-out")
        assert client.value("SELECT count() FROM t") == 1
        told = [
            record.getMessage() for record in caplog.records if "replication_connect_timeout" in record.getMessage()
        ]
        assert len(told) == 1
        assert "has not caught up with west" in told[0]
        error = fails(client, "INSERT INTO t VALUES (3, 'c')")
        assert error.code == READ_ONLY
        assert "cluster west" in error.message
        assert fails(client, "ALTER TABLE t DELETE WHERE k = 1").code == READ_ONLY
        client.execute("ALTER TABLE t ADD COLUMN w UInt8")
        client.execute("INSERT INTO own VALUES (2, 'b')")
        status, text = page(client, "/replicas_status?verbose=1")
        assert status == 200
        assert "Takes no writes" in text
        east.engine.linked_clusters.keys = Config(path=Path("unused"))  # as SYSTEM RELOAD CONFIG sets it
        wait(lambda: east.engine.link_start.state is StartState.OPEN, "the smaller quorum")
        client.execute("INSERT INTO t (k, v) VALUES (3, 'c')")


@pytest.mark.long
def test_a_server_may_be_read_only_meanwhile(servers: Servers) -> None:
    make_linked(servers, two_way=1)
    east = servers.start("east", **QUORUM, replication_orphan_mode="readonly")
    with east.client() as client:
        assert client.value("SELECT count() FROM t") == 1
        assert fails(client, "INSERT INTO t VALUES (3, 'c')").code == READ_ONLY


@pytest.mark.long
def test_two_clusters_that_start_together_do_not_wait_for_each_other(servers: Servers) -> None:
    west, east = servers.start("west"), servers.start("east")
    create_table([west, east])
    for server in (west, east):
        server.know(west=[west.url], east=[east.url])
    with west.client() as one, east.client() as other:
        one.execute("CREATE REPLICATION LINK l ON t FROM CLUSTER east SETTINGS two_way = 1, start_position = 'now'")
        other.execute("CREATE REPLICATION LINK l ON t FROM CLUSTER west SETTINGS two_way = 1, start_position = 'now'")
        one.execute("INSERT INTO t VALUES (1, 'a')")
        other.execute("INSERT INTO t VALUES (2, 'b')")
    servers.stop("west")
    servers.stop("east")
    west, east = servers.start("west", **QUORUM), servers.start("east", **QUORUM)
    for server in (west, east):
        assert server.engine.link_start.state is StartState.REFUSES
    for server in (west, east):
        server.know(west=[west.url], east=[east.url])
    for server in (west, east):
        wait(lambda server=server: server.engine.link_start.state is StartState.OPEN, "both")  # type: ignore[misc]
        with server.client() as client:
            assert client.value("SELECT count() FROM t") == 2


def test_without_links_there_is_nothing_to_wait_for(servers: Servers) -> None:
    east = servers.start("east")
    create_table([east])
    east = servers.start("east", **QUORUM)
    wait(lambda: east.engine.link_start.state is StartState.OPEN, "the server to open")


DOORS = (
    "SELECT v FROM t WHERE k = 1",
    "SELECT count() FROM t",
    "SELECT 1 WHERE 1 IN (SELECT k FROM t)",
    "SELECT * FROM shown",
    "SELECT * FROM stored",
    "SELECT * FROM merge('default', '^t$')",
    "SELECT * FROM merged",
    "SELECT * FROM remote('127.0.0.1:{port}', default.t, '{user}', '{password}')",
    "SELECT * FROM own WHERE k IN (SELECT k FROM t)",
    "INSERT INTO own SELECT * FROM t",
    "INSERT INTO t VALUES (9, 'i')",
    "CREATE TABLE made ENGINE = MergeTree ORDER BY k AS SELECT * FROM t",
    "ALTER TABLE plain ATTACH PARTITION ID 'all' FROM t",
    "TRUNCATE TABLE t",
)
SCANS: Mapping[str, Mapping[str, object]] = {
    "/scan/plan": {"columns": ["k"]},
    "/scan/read": {"columns": ["k"], "scan": "s", "slot": 0, "slots": 1},
    "/scan/positions": {},
}


def test_every_door_is_closed(servers: Servers) -> None:
    _, east = make_linked(servers, two_way=1)
    places = {"port": east.http.port, "user": USER, "password": PASSWORD}
    with east.client() as client:
        client.execute("CREATE VIEW shown AS SELECT k FROM t")
        client.execute("CREATE MATERIALIZED VIEW stored TO t AS SELECT k, v FROM own")
        client.execute("CREATE TABLE merged (k UInt64) ENGINE = Merge('default', '^t$')")
        client.execute("CREATE TABLE plain (k UInt64, v String) ENGINE = MergeTree ORDER BY k")
        for _ in range(3):  # a short query is learned
            assert client.execute(DOORS[0]).text == "a\n"
        elsewhere = str(client.value("SELECT currentPosition('own')"))
        for text in (DOORS[0], "SELECT * FROM stored"):
            assert fails(client, text, link_min_position=elsewhere).code == 36
        east.engine.link_start._read_links()
        east.engine.linked_clusters.keys = Config(path=Path("unused"), **QUORUM)  # type: ignore[arg-type]
        east.engine.link_start._set_state(StartState.REFUSES)
        for text in DOORS:
            error = fails(client, text.format(**places))
            assert (error.code in (STALE, READ_ONLY), "replication_connect_quorum" in error.message) == (True, True), (
                text, error,
            )  # fmt: skip
        for path, body in SCANS.items():
            error = scan_fails(client, path, {"database": "default", "table": "t", **body})
            assert error.code == STALE, path
        for text in ("SYSTEM SYNC REPLICA t", "SYSTEM WAIT REPLICATION LINK l_t TIMEOUT 30", "SHOW CREATE TABLE t"):
            client.execute(text)
        east.engine.link_start.open()
        assert client.value("SELECT count() FROM t") == 1


def scan_fails(client: HttpClient, path: str, body: Mapping[str, object]) -> PandoError:
    with (
        pytest.raises(PandoError) as error,
        client._connections.post(client._url, path, json.dumps(body).encode()) as answer,
    ):
        answer.read_beginning(1)
    return error.value


def test_what_is_visible_counts_from_the_moment_at_which_it_was_asked_for() -> None:
    now, visible = [100.0], [False]

    class Cluster:
        def describe_source(self, _: LinkDefinition) -> SourceTable:
            now[0] += 1.0  # the answer takes a second
            return SourceTable("db", "t", SOURCE, 7, "", 0, "")

    catching = CatchingUp("west", lambda _: Cluster(), lambda: now[0])  # type: ignore[arg-type,return-value]
    catching._is_visible = lambda *_: visible[0]  # type: ignore[method-assign]
    catching.links = ((None, LinkDefinition("l", "u", "west", "db", "t", "db", "t")),)  # type: ignore[assignment]
    catching.step(5.0)
    assert not catching.is_current(5.0)
    visible[0] = True
    catching.step(5.0)
    assert catching.is_current(1.0)
    assert not catching.is_current(0.9)
    now[0] += 4.5
    assert not catching.is_current(5.0)


def test_workers_read_the_state_from_the_shared_page() -> None:
    asked: list[tuple[str, str]] = []

    class Replica:
        def require_readable(self, database: str, table: str) -> None:
            asked.append((database, table))

    page = SharedPage(1)
    start = ReplicaProcessLinkStart(Replica(), page)  # type: ignore[arg-type]
    start.require_readable("default", "t")
    assert (start.is_refusing, asked) == (False, [])
    page.set_link_start(StartState.REFUSES)
    page.publish(1, 2)
    start.require_readable("default", "t")
    assert (start.is_refusing, asked) == (True, [("default", "t")])
    page.set_link_start(StartState.READS)
    assert not start.is_refusing
