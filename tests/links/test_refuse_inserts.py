"""The setting ``refuse_inserts``: a moment in the order of commits, on all replicas."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.simulator.simulated_node import SimulatedNode
from engine.simulator.statement_costs import CountedTable, counted_table
from parts.common.errors import PandoError

REFUSE = "ALTER TABLE costs MODIFY SETTING refuse_inserts = 1"
ALLOW = "ALTER TABLE costs MODIFY SETTING refuse_inserts = 0"
INSERT = "INSERT INTO costs VALUES (1, {}, 0)"


@pytest.fixture
def table(tmp_path: Path) -> Iterator[CountedTable]:
    with counted_table(tmp_path, "p UInt16, k UInt64, v UInt64", "PARTITION BY p ORDER BY k", replicas=2) as table:
        table.first.sql(INSERT.format(0))
        table.settle()
        yield table


def keys(table: CountedTable) -> list[int]:
    table.settle()
    first, second = (sorted(row[0] for row in s.sql("SELECT k FROM costs")[1]) for s in table.servers.servers)
    assert first == second
    return first


def test_inserts_are_refused_on_every_replica(table: CountedTable) -> None:
    first, second = table.servers.servers
    first.sql(REFUSE)
    for server in (first, second):
        with pytest.raises(PandoError, match=r"default\.costs refuses INSERTs \(setting refuse_inserts\)") as caught:
            server.sql(INSERT.format(1))
        assert caught.value.code == 242
    assert keys(table) == [0]
    second.sql("ALTER TABLE costs UPDATE v = 1 WHERE k = 0 SETTINGS mutations_sync = 0")
    second.sql(ALLOW)
    first.sql(INSERT.format(2))
    second.sql(INSERT.format(3))
    assert keys(table) == [0, 2, 3]


@pytest.mark.parametrize("number", range(1, 9))
@pytest.mark.parametrize("quorum", ["", "SETTINGS insert_quorum = 2"])
@pytest.mark.long
def test_no_insert_is_acknowledged_after_the_alter_has_returned(table: CountedTable, number: int, quorum: str) -> None:
    """The ALTER runs before one of the INSERT's requests to ZooKeeper; only what committed before it is stored."""
    first, second = table.servers.servers
    left, committed = [number], []

    def on_request(node: SimulatedNode, kind: str, path: str) -> None:
        if node is not second:
            return
        left[0] -= 1
        if left[0] == 0:
            first.sql(REFUSE)
        if kind == "multi" and path == table.table.replication.paths.log_prefix and left[0] > 0:
            committed.append(path)

    table.servers.on_request = on_request
    is_acknowledged = True
    try:
        second.sql(f"INSERT INTO costs {quorum} VALUES (1, 1, 0)")
    except PandoError as error:
        is_acknowledged = False
        caught = error
    if not is_acknowledged:
        assert caught.code == 242
    assert is_acknowledged == bool(committed)
    assert keys(table) == [0, *([1] if is_acknowledged else [])]


def test_a_repeat_of_a_refused_insert_is_stored_later(table: CountedTable) -> None:
    first, second = table.servers.servers
    first.sql(REFUSE)
    with pytest.raises(PandoError):
        second.sql(INSERT.format(1))
    first.sql("ALTER TABLE costs RESET SETTING refuse_inserts")
    second.sql(INSERT.format(1))
    second.sql(INSERT.format(1))
    assert keys(table) == [0, 1]


def test_a_replica_learns_it_by_its_watch(table: CountedTable) -> None:
    """Then it refuses without having taken a block number."""
    first, second = table.servers.servers
    table.of(second).state.gate.forget()
    second.step_all()
    first.sql(REFUSE)
    table.servers.now += 1
    second.step_all()
    gate = table.of(second).state.gate.gate
    assert gate is not None
    assert [bar.owner for bar in gate.bars] == ["setting refuse_inserts"]
    asked: list[str] = []
    table.on_request = lambda kind, path: asked.append(kind)
    with pytest.raises(PandoError, match="refuses INSERTs"):
        second.sql(INSERT.format(1))
    assert "multi" not in asked


def test_it_stays_after_a_restart(table: CountedTable) -> None:
    first, second = table.servers.servers
    first.sql(REFUSE)
    for server in (first, second):
        server.stop()
        server.start()
        table.settle()
        with pytest.raises(PandoError, match="refuses INSERTs"):
            server.sql(INSERT.format(1))


def test_other_settings_beside_it(table: CountedTable) -> None:
    first = table.first
    first.sql("ALTER TABLE costs MODIFY SETTING max_parts_in_total = 7, refuse_inserts = 1")
    text = str(first.sql("SHOW CREATE TABLE costs")[1][0][0])
    assert "max_parts_in_total = 7" in text
    assert "refuse_inserts" not in text
    with pytest.raises(PandoError, match="refuses INSERTs"):
        first.sql(INSERT.format(1))
    first.sql("ALTER TABLE costs MODIFY SETTING refuse_inserts = DEFAULT, ADD COLUMN w UInt8")
    first.sql("INSERT INTO costs VALUES (1, 1, 0, 0)")


@pytest.mark.parametrize(
    ("statement", "code"),
    [
        ("ALTER TABLE plain MODIFY SETTING refuse_inserts = 1", 36),
        ("CREATE TABLE more (k UInt8) ENGINE = MergeTree ORDER BY k SETTINGS refuse_inserts = 1", 36),
        ("ALTER TABLE costs MODIFY SETTING refuse_inserts = 'perhaps'", 467),
    ],
)
def test_where_it_is_not_taken(table: CountedTable, statement: str, code: int) -> None:
    table.first.sql("CREATE TABLE plain (k UInt8) ENGINE = MergeTree ORDER BY k")
    with pytest.raises(PandoError) as caught:
        table.first.sql(statement)
    assert caught.value.code == code
