"""A cluster that lost a block asks those that still have it: by the position of its change, whatever its number there.

``north`` gives its rows to ``west``, which gives them on to ``east``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from coordination.log.log_entry import LogEntry
from engine.tables.replicated.replicated_table import ReplicatedTable
from parts.common.errors import PandoError
from parts.read.part_reader import open_part
from tests.links.linked_servers import LinkedServer, create_table, linked_servers


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, LinkedServer]]:
    with linked_servers(tmp_path_factory.mktemp("servers"), north=1, west=1, east=1) as found:
        yield {name: servers[0] for name, servers in found.items()}


@pytest.fixture
def table(clusters: dict[str, LinkedServer]) -> Iterator[str]:
    """A table in all clusters, with the two links of the chain."""
    name = f"t{time.monotonic_ns()}"
    create_table(list(clusters.values()), name)
    run(clusters["west"], f"CREATE REPLICATION LINK {name} ON {name} FROM CLUSTER north SETTINGS two_way = 1")
    run(clusters["east"], f"CREATE REPLICATION LINK {name} ON {name} FROM CLUSTER west SETTINGS two_way = 1")
    yield name
    for cluster in ("east", "west"):
        run(clusters[cluster], f"DROP REPLICATION LINK {name}")


def run(server: LinkedServer, *statements: str) -> None:
    with server.client() as client:
        for sql in statements:
            client.execute(sql)


def ask(server: LinkedServer, sql: str) -> object:
    with server.client() as client:
        return client.value(sql)


def wait(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def find_table(server: LinkedServer, name: str) -> ReplicatedTable:
    found = server.table(name)
    assert isinstance(found, ReplicatedTable)
    return found


def lose_blocks(server: LinkedServer, name: str, count: int) -> None:
    """Merges the blocks of a table, and takes them out of the outbox."""
    table = find_table(server, name)
    outbox = table.links.blocks.outbox
    wait(lambda: len(outbox.list_blocks()) == count)
    run(server, f"ALTER TABLE {name} MODIFY SETTING old_parts_lifetime = 0", f"OPTIMIZE TABLE {name} FINAL")
    for block in outbox.list_blocks():
        outbox.discard(block)
        while table.store.get(block.part) is not None:
            table.store.delete(table.store.list_deletable())


def test_a_middle_cluster_asks_its_own_source_for_a_block_that_it_lost(
    clusters: dict[str, LinkedServer], table: str
) -> None:
    north, west, east = (clusters[name] for name in ("north", "west", "east"))
    run(west, f"INSERT INTO {table} VALUES (0, 'west')")  # so that north's rows have other numbers in west
    run(east, f"SYSTEM WAIT REPLICATION LINK {table} TIMEOUT 30", f"ALTER REPLICATION LINK {table} DISABLE")
    run(north, f"INSERT INTO {table} VALUES (1, 'a')", f"INSERT INTO {table} VALUES (2, 'b')")
    run(west, f"SYSTEM WAIT REPLICATION LINK {table} TIMEOUT 30")
    lose_blocks(west, table, 3)
    run(east, f"ALTER REPLICATION LINK {table} ENABLE", f"SYSTEM WAIT REPLICATION LINK {table} TIMEOUT 30")
    assert ask(east, f"SELECT groupArray(v) FROM (SELECT v FROM {table} ORDER BY k)") == ["west", "a", "b"]


def test_a_lost_part_comes_from_another_source_than_the_one_that_brought_it(
    clusters: dict[str, LinkedServer], table: str, tmp_path: Path
) -> None:
    """The other source has the block under another number."""
    north, west, east = (clusters[name] for name in ("north", "west", "east"))
    run(west, f"INSERT INTO {table} VALUES (0, 'west')")
    run(north, f"INSERT INTO {table} VALUES (1, 'a')")
    run(west, f"SYSTEM WAIT REPLICATION LINK {table} TIMEOUT 30", f"ALTER REPLICATION LINK {table} DISABLE")
    run(east, f"SYSTEM WAIT REPLICATION LINK {table} TIMEOUT 30")
    wait(lambda: not find_table(west, table).links.target.lost._refetches)
    lose_blocks(west, table, 2)
    entry = list_batches(east, table)[-1]
    staged = entry.replace_parts[-1]
    target = find_table(east, table).links.target.lost
    with pytest.raises(PandoError):
        target.refetch_part(entry, staged, tmp_path)
    run(east, f"CREATE REPLICATION LINK second ON {table} FROM CLUSTER north SETTINGS two_way = 1")
    wait(lambda: len(target._refetches) == 2)
    target.refetch_part(entry, staged, tmp_path)
    run(east, "DROP REPLICATION LINK second")
    part = open_part(tmp_path, name=staged.part, table_schema=find_table(east, table).description.schema)
    part.verify()
    assert part.content_hash == staged.content_hash


def list_batches(server: LinkedServer, name: str) -> Sequence[LogEntry]:
    table = find_table(server, name)
    keeper = table.replication.require_keeper()
    paths = table.replication.paths
    entries = (LogEntry.parse(keeper.get(f"{paths.log}/{each}")[0]) for each in sorted(keeper.children(paths.log)))
    return [entry for entry in entries if entry.is_batch and entry.replace_parts]
