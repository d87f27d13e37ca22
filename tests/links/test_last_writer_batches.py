"""Batches of links for a ``last_writer_wins`` table: versions and tombstones travel, as files and as rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from coordination.log.log_entry import LogEntry
from coordination.nodes.paths import TablePaths
from tests.links.linked_tables import LinkedTables, linked_tables

REPLACING = "ReplicatedReplacingMergeTree"
VERSIONED = "PARTITION BY p ORDER BY k SETTINGS last_writer_wins = 1"
WIDER = "p UInt16, k UInt64, v UInt64, w UInt8 DEFAULT 9"
TARGET = TablePaths("/tables/costs")


@pytest.fixture(params=["files", "rows"])
def tables(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LinkedTables]:
    """The target takes the source's files, or has one more column and writes the rows anew."""
    with linked_tables(tmp_path) as made:
        for server in made.servers:
            server.sql("DROP TABLE costs SYNC")
        columns = WIDER if request.param == "rows" else "p UInt16, k UInt64, v UInt64"
        for server in made.servers:
            server.sql(
                f"CREATE TABLE costs ({columns}) ENGINE = {REPLACING}('{TARGET.root}', '{{replica}}') {VERSIONED}"
            )
        made.table.select_merges(False)
        yield made


def show(tables: LinkedTables, replica: int, final: str = "FINAL") -> dict[int, int]:
    rows = tables.servers[replica].sql(f"SELECT k, v FROM costs {final} ORDER BY k")[1]
    assert len({row[0] for row in rows}) == len(rows)
    return {int(str(row[0])): int(str(row[1])) for row in rows}


def check(tables: LinkedTables, expected: dict[int, int]) -> None:
    tables.table.settle()
    assert [show(tables, replica) for replica in range(len(tables.servers))] == [expected] * len(tables.servers)
    tables.first.sql("OPTIMIZE TABLE costs FINAL")
    tables.table.settle()
    assert [show(tables, replica, "") for replica in range(len(tables.servers))] == [expected] * len(tables.servers)


def test_versions_and_tombstones_travel(tables: LinkedTables) -> None:
    tables.create_source(engine=REPLACING, rest=VERSIONED)
    tables.with_settings(two_way=True)
    tables.begin()
    tables.first.sql("INSERT INTO source VALUES (1, 1, 10), (1, 2, 10), (1, 3, 10)")
    tables.first.sql("DELETE FROM source WHERE k = 2")
    tables.table.servers.now += 1
    tables.first.sql("INSERT INTO costs (p, k, v) VALUES (1, 3, 77)")
    tables.first.sql("ALTER TABLE source UPDATE v = 11 WHERE k = 1")
    tables.apply()
    hidden = "k, v, _commit_time, _origin, _origin_block"
    sent = tables.first.sql(f"SELECT {hidden} FROM source ORDER BY ALL")[1]
    tables.table.settle()
    for server in tables.servers:
        got = server.sql(f"SELECT {hidden} FROM costs WHERE v != 77 ORDER BY ALL")[1]
        assert got == sent
    newest = max(
        LogEntry.parse(tables.keeper.get(f"{TARGET.log}/{name}")[0]).commit_time
        for name in tables.keeper.children(TARGET.log)
    )
    source = max(part.row_version.commit_time for part in tables.source.store.list_active())
    assert newest == source
    check(tables, {1: 11, 3: 77})


def test_blocks_of_a_table_without_versions_get_those_of_their_changes(tables: LinkedTables) -> None:
    tables.create_source()
    tables.with_settings(two_way=True)
    tables.begin()
    tables.first.sql("INSERT INTO source VALUES (1, 1, 10), (1, 2, 10)")
    tables.first.sql("INSERT INTO source VALUES (1, 1, 11)")
    tables.apply()
    (change, later) = tables.changes()
    tables.table.settle()
    for server in tables.servers:
        hidden = "v, toUnixTimestamp64Milli(_commit_time), _origin, _origin_block"
        rows = server.sql(f"SELECT {hidden} FROM costs WHERE k = 1 ORDER BY v")[1]
        assert rows == [
            (10, change.commit_ms, str(change.position.origin), change.position.zxid),
            (11, later.commit_ms, str(change.position.origin), later.position.zxid),
        ]
    check(tables, {1: 11, 2: 10})
