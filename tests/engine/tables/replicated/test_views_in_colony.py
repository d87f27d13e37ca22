"""INSERT into tables with materialized views, on servers that crash: every block is in each target once."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from coordination.keeper.memory_keeper import Fault
from coordination.nodes.replica_activation import FEATURE_VIEWS, FEATURES, ReplicaAddress
from engine.simulator.simulated_disk import SimulatedDisk, record_syncs
from engine.simulator.simulated_node import SimulatedNode
from engine.simulator.simulated_servers import SimulatedServer, SimulatedServers
from engine.simulator.step_pool import Crash
from engine.simulator.trace import Trace
from parts.common.errors import PandoError, UnavailableError
from parts.common.thread_pool import run_jobs_inline
from tests.faults import hit_request
from tests.portions import one_in

Make = Callable[..., SimulatedServers]
REPLICATED = "ENGINE = ReplicatedMergeTree('/tables/{}', '{{replica}}') ORDER BY k"
TARGET = f"(k UInt64, n UInt64) {REPLICATED} PARTITION BY k % 3"
QUERY = "SELECT max(k) AS k, count() AS n FROM t"


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """Servers of ``t``; on each of them the views ``a`` and ``b``, by default, with targets ``of_a`` and ``of_b``."""
    disks: dict[Path, SimulatedDisk] = {}
    with contextlib.ExitStack() as stack:
        stack.enter_context(record_syncs(disks))
        stack.enter_context(run_jobs_inline())

        def make(*views: str, **settings: object) -> SimulatedServers:
            servers = SimulatedServers(tmp_path / str(len(disks)), 2, 1, Trace(None), disks, **settings)
            stack.callback(servers.end)
            for server, names in zip(servers.servers, views or ("ab", "ab"), strict=True):
                for name in names:
                    view(server, name)
            return servers

        yield make


def view(server: SimulatedServer, name: str, window: int = 1000) -> None:
    settings = f"SETTINGS replicated_deduplication_window = {window}"
    server.sql(f"CREATE TABLE IF NOT EXISTS of_{name} {TARGET.format('of_' + name)} {settings}")
    server.sql(f"CREATE MATERIALIZED VIEW {name} TO of_{name} AS {QUERY}")


def rows(server: SimulatedServer, table: str, columns: str = "k, n") -> list[tuple[object, ...]]:
    return server.sql(f"SELECT {columns} FROM {table} ORDER BY ALL")[1]


def dies(server: SimulatedServer, failpoint: str, partitions: int | list[int], keys: list[int]) -> None:
    server.cluster.on_failpoint = lambda node, name: node.crash_here() if name == failpoint else None
    with pytest.raises(Crash):
        server.insert(partitions, keys)
    server.cluster.heal()


def records(server: SimulatedServer, table: str = "t") -> list[str]:
    """Of the block ids those that hold more than the name of a part."""
    keeper = server.cluster.ensemble.connect()
    root = server.engine.catalog.table("default", table).replication.paths.blocks  # type: ignore[attr-defined]
    data = [keeper.get(f"{root}/{name}")[0].decode() for name in keeper.children(root)]
    return [text for text in data if "\n" in text]


def forget(servers: SimulatedServers, table: str) -> None:
    """The table's window passes."""
    keeper = servers.ensemble.connect()
    root = servers.servers[0].engine.catalog.table("default", table).replication.paths.blocks  # type: ignore[attr-defined]
    for name in keeper.children(root):
        keeper.delete(f"{root}/{name}")


def test_what_was_complete_long_ago_is_not_stored_in_a_target_again(make: Make) -> None:
    servers = make("", "")
    one, two = servers.servers
    for server in servers.servers:
        view(server, "a", window=2)
    one.insert(1, [3])
    for key in range(4, 10):
        one.insert(1, [key])
        servers.settle()
    expected = [(key, 1) for key in range(3, 10)]
    for server in (one, two):
        assert server.insert(1, [3]) == 0
        assert rows(server, "of_a") == expected
    servers.settle()
    assert [rows(server, "of_a") for server in servers.servers] == [expected] * 2


@pytest.mark.parametrize("fault", one_in(2, [Fault.LOSE_ANSWER, "crash"]), ids=str)
@pytest.mark.long
def test_a_fault_at_every_request(make: Make, fault: Fault | str) -> None:
    """The INSERT is repeated at either server, and at the other when a target has forgotten it."""
    servers = make()
    one = servers.servers[0]
    number = was_hit = 0
    while number == was_hit:
        number += 1
        seen = hit_request(servers, number, fault)
        with contextlib.suppress(PandoError, Crash):
            one.insert([1, 2], [10 * number, 10 * number + 5])
        was_hit = min(number, len(seen))
        servers.calm()
        servers.step_others()
        if one.table.state.activation is None:
            servers.settle()
        for server in servers.servers[:: 1 if number % 2 else -1]:
            server.insert([1, 2], [10 * number, 10 * number + 5])
            forget(servers, "of_a")
    assert not records(one)
    servers.settle()
    for server in servers.servers:
        assert rows(server, "of_a") == rows(server, "of_b") == [(10 * n + 5, 2) for n in range(1, number + 1)]
        assert rows(server, "t", "count()") == [(2 * number,)]
    assert number >= 14


def test_servers_with_other_views(make: Make) -> None:
    servers = make("ab", "ac")
    one, two = servers.servers
    dies(one, "insert.before_views", 1, [3])
    assert '"default.a","default.b"' in records(one)[0]
    two.sql("CREATE TABLE of_b " + TARGET.format("of_b"))
    for _ in range(2):
        two.insert(1, [3])
        servers.settle()
        assert [rows(two, f"of_{name}") for name in "abc"] == [[(3, 1)], [], []]
        assert '"default.b"' in records(one)[0]
    view(one, "d")
    one.insert(1, [3])
    assert [rows(one, f"of_{name}") for name in "abd"] == [[(3, 1)], [(3, 1)], []]
    assert not records(one)


def test_views_that_did_not_come_to_their_turn(make: Make) -> None:
    """The first view's target, which remembers nothing, has the block when the INSERT breaks off at the second."""
    servers = make("", "")
    one = servers.servers[0]
    one.sql("CREATE TABLE of_a (k UInt64, n UInt64) ENGINE = MergeTree ORDER BY k")
    one.sql(f"CREATE MATERIALIZED VIEW a TO of_a AS {QUERY}")
    view(one, "b")
    commits: list[str] = []

    def on_failpoint(node: SimulatedNode, name: str) -> None:
        commits.extend([name] if name == "insert.before_commit" else [])
        if len(commits) == 2:
            raise UnavailableError("NOT_ENOUGH_SPACE", "The disk is full")

    servers.on_failpoint = on_failpoint
    with pytest.raises(PandoError, match=r"while pushing to view default\.b"):
        one.insert(1, [3])
    servers.heal()
    for _ in range(2):
        one.insert(1, [3])
        assert [rows(one, f"of_{name}") for name in "ab"] == [[(3, 1)]] * 2


def test_chains(make: Make) -> None:
    servers = make("a", "a")
    one, two = servers.servers
    for server in servers.servers:
        server.sql(f"CREATE TABLE last {TARGET.format('last')}")
        server.sql("CREATE MATERIALIZED VIEW chained TO last AS SELECT k, n * 10 AS n FROM of_a")
    for level in (1, 2):
        passages: list[str] = []

        def on_failpoint(node: SimulatedNode, name: str, level: int = level, passages: list[str] = passages) -> None:
            passages.extend([name] if name == "insert.before_views" else [])
            if len(passages) == level:
                node.crash_here()

        servers.on_failpoint = on_failpoint
        with pytest.raises(Crash):
            one.insert(1, [level])
        servers.heal()
        two.insert(1, [level])
        forget(servers, "of_a")
        forget(servers, "last")
        one.insert(1, [level])
    servers.settle()
    assert rows(one, "of_a") == [(1, 1), (2, 1)]
    assert rows(one, "last") == [(1, 10), (2, 10)]
    assert not records(one) + records(one, "of_a")


def test_of_a_block_that_is_known_in_part_views_see_the_rest(make: Make) -> None:
    servers = make()
    one, two = servers.servers
    one.insert([1, 2], [1, 2])
    assert two.insert([1, 3, 2], [1, 3, 2]) == 1
    servers.settle()
    assert rows(one, "of_a") == [(2, 2), (3, 1)]
    dies(one, "insert.before_views", [1, 4], [1, 4])
    two.insert([1, 4], [1, 4])
    servers.settle()
    assert rows(one, "of_a") == rows(one, "of_b") == [(2, 2), (3, 1), (4, 1)]


def test_what_the_table_has_forgotten_is_new_to_its_views(make: Make) -> None:
    servers = make()
    one, two = servers.servers
    one.insert(1, [3])
    forget(servers, "t")
    two.insert(1, [3])
    one.sql("TRUNCATE TABLE t")
    one.insert(1, [3])
    servers.settle()
    assert rows(one, "t", "k") == [(3,)]
    assert rows(one, "of_a") == rows(one, "of_b") == [(3, 1)] * 3


def test_equal_inserts_at_one_time(make: Make) -> None:
    servers = make()
    one, two = servers.servers
    others: list[int] = []

    def on_failpoint(node: SimulatedNode, name: str) -> None:
        if name == "insert.after_temporary_part" and not others:
            others.append(1)
            others.append(two.insert([1, 2], [1, 2]))

    servers.on_failpoint = on_failpoint
    one.insert([1, 2], [1, 2])  # finds at the commit that the block is complete everywhere
    assert others == [1, 2]
    others.clear()

    def on_crash(node: SimulatedNode, name: str) -> None:
        if name == "insert.after_temporary_part" and not others:
            others.append(1)
            servers.on_failpoint = lambda node, name: node.crash_here() if name == "insert.before_views" else None
            with contextlib.suppress(Crash):
                two.insert([1, 2], [5, 6])
            servers.on_failpoint = lambda node, name: None

    servers.on_failpoint = on_crash
    with pytest.raises(PandoError) as caught:
        one.insert([1, 2], [5, 6])
    assert caught.value.code == 319
    servers.heal()
    one.insert([1, 2], [5, 6])
    servers.settle()
    assert rows(one, "of_a") == rows(one, "of_b") == [(2, 2), (6, 2)]


def test_beside_an_older_version(make: Make) -> None:
    """It would not understand the record, so there is none: a repeat goes to all views, which know the block."""
    servers = make()
    one, two = servers.servers
    older = ReplicaAddress("127.0.0.1", 2, features=tuple(name for name in FEATURES if name != FEATURE_VIEWS))
    for server in servers.servers:
        server.replication.address = replace(older, interserver_port=int(server.name[1:]))
        server.begin_anew()
    servers.settle()
    servers.on_failpoint = lambda node, name: node.crash_here() if name == "insert.before_views" else None
    with pytest.raises(Crash):
        one.insert([1, 2], [1, 2])
    servers.calm()
    assert not records(two)
    for server in (two, two, one):
        server.insert([1, 2], [1, 2])
    servers.settle()
    assert rows(two, "of_a") == rows(one, "of_b") == [(2, 2)]


@pytest.mark.parametrize("engine", ["MergeTree ORDER BY k", "Null"])
def test_a_table_that_remembers_nothing(make: Make, engine: str) -> None:
    """Every INSERT is in the targets too; a token says that it is to be there once."""
    servers = make("", "")
    one = servers.servers[0]
    one.sql(f"CREATE TABLE plain (k UInt64) ENGINE = {engine}")
    one.sql(f"CREATE TABLE of_a {TARGET.format('of_a')}")
    one.sql("CREATE MATERIALIZED VIEW a TO of_a AS SELECT k, count() AS n FROM plain GROUP BY k")
    for _ in range(3):
        one.sql("INSERT INTO plain VALUES (7)")
    assert rows(one, "of_a") == [(7, 1)] * 3
    for _ in range(3):
        one.sql("INSERT INTO plain SETTINGS insert_deduplication_token = 'x' VALUES (8)")
    assert rows(one, "of_a") == [(7, 1)] * 3 + [(8, 1)]
    assert rows(one, "plain", "count()") == [(0 if engine == "Null" else 6,)]
