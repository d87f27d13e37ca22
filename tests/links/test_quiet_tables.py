"""A source looks at a table of which nothing is new with one request, and misses no commit for that."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from engine.simulator.simulated_servers import SimulatedServer
from engine.tables.replicated.links.source.link_source import ReplicaLinkSource
from tests.links.linked_source import INSERT, Asker, linked_table


@pytest.fixture
def asker(tmp_path: Path) -> Iterator[Asker]:
    with linked_table(tmp_path) as asker:
        asker.begin()
        asker.table.first.sql(INSERT.format(1, 0))
        asker.table.settle()
        asker.take_all()
        yield asker


def read_frontier(source: ReplicaLinkSource, asker: Asker, floor: int = 0) -> int:
    with asker.table.first.acting():
        return source.read_frontier(floor, source.read_nodes(source.list_nodes()))


def write_elsewhere(asker: Asker) -> int:
    """Returns the zxid of something that was written to another table's nodes."""
    keeper = asker.table.servers.ensemble.connect()
    path = keeper.create("/elsewhere-", sequential=True)
    found = keeper.exists(path)
    assert found is not None
    return found.created_zxid


def test_a_quiet_table_is_not_asked_again(asker: Asker) -> None:
    source, asked = asker.source(), list[str]()
    read_frontier(source, asker)
    for _ in range(3):
        floor = write_elsewhere(asker)
        with asker.table.first.acting():
            nodes = source.read_nodes(source.list_nodes())
            asker.table.on_request = lambda kind, path: asked.append(path)
            assert source.read_frontier(floor, nodes) == floor
            asker.table.on_request = lambda kind, path: None
    assert not asked
    assert asker.take(1).changes == ()


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO costs (p, k, v) VALUES (1, {}, 1)",
        "ALTER TABLE costs DROP PARTITION 1",
        "ALTER TABLE costs UPDATE v = 1 WHERE k = 0 SETTINGS mutations_sync = 0",
        "ALTER TABLE costs ADD COLUMN w{} UInt8",
    ],
)
def test_a_commit_at_any_request_is_found(asker: Asker, statement: str) -> None:
    """Each look begins right behind a commit, so that it has something to read; another one comes at one request."""
    source, second = asker.source(), asker.table.servers.servers[1]
    changes, at = 1, 0
    while True:
        asker.table.first.sql(INSERT.format(1, 100 + at))
        waiting = [statement.format(at)]
        asker.table.on_request = partial(_run_at, iter(range(at)), waiting, second)
        read_frontier(source, asker)
        asker.table.on_request = lambda kind, path: None
        read_frontier(source, asker, write_elsewhere(asker))  # before the replica has pulled its log by itself
        asker.take_all()
        asker.table.settle()
        changes += 2 - len(waiting)
        assert len(asker.changes) == changes, f"request {at}"
        if waiting:  # the look had no such request
            break
        at += 1
    assert at > 5


def _run_at(before: Iterator[int], waiting: list[str], server: SimulatedServer, kind: str, path: str) -> None:
    """Runs the statement that waits at the request behind those ``before``."""
    del kind, path
    if next(before, None) is None and waiting:
        server.sql(waiting.pop())
