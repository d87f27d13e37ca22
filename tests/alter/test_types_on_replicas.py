"""Another type of a column of a replicated table, and changes of columns that a mutation names."""

from __future__ import annotations

import pytest

from engine.simulator.simulated_servers import SimulatedServer, SimulatedServers
from engine.tables.stopped_actions import StoppableAction
from parts.common.errors import PandoError
from tests.alter.test_alter_on_replicas import MakeServers, defined, make_servers, rows

__all__ = ["make_servers"]
RETYPE = "ALTER TABLE t MODIFY COLUMN c Int64"


def with_column(servers: SimulatedServers, *values: str) -> tuple[SimulatedServer, SimulatedServer]:
    """Column c is a String; rows 1, 2 … have the values."""
    one, two = servers.servers
    one.sql("ALTER TABLE t ADD COLUMN c String DEFAULT '7' SETTINGS alter_sync = 2")
    for key, value in enumerate(values, 1):
        one.sql(f"INSERT INTO t VALUES (1, {key}, 'v', '{value}')")
    servers.settle()
    return one, two


def code(server: SimulatedServer, statement: str) -> int:
    with pytest.raises(PandoError) as caught:
        server.sql(statement)
    return caught.value.code


def test_rows_of_another_type(make_servers: MakeServers) -> None:
    servers = make_servers()
    one, two = servers.servers
    one.insert(1, [1])
    one, two = with_column(servers, "5")  # a row of before the column, one of after
    two.is_frozen = True
    one.sql(RETYPE)
    two.sql("INSERT INTO t VALUES (1, 3, 'v', '-6')")  # it has heard of nothing
    two.is_frozen = False
    one.sql("INSERT INTO t VALUES (1, 4, 'v', 8)")
    servers.settle()
    servers.check_equal()
    for node in (one, two):
        assert sorted(rows(node, "c + 1")) == [(-5,), (6,), (8,), (9,)]
        assert "`c` Int64" in defined(node)
    two.sql("OPTIMIZE TABLE t FINAL")
    one.sql("ALTER TABLE t UPDATE c = c * 2 WHERE k = 3 SETTINGS mutations_sync = 2")
    servers.settle()
    servers.check_equal()
    for node in (one, two):
        node.restart()
    servers.end_zombies()
    servers.settle()
    for node in (one, two):
        assert sorted(rows(node, "c")) == [(-12,), (5,), (7,), (8,)]


def test_what_does_not_convert_refuses_it(make_servers: MakeServers) -> None:
    servers = make_servers()
    one, two = with_column(servers, "5")
    before = defined(one)
    two.sql("INSERT INTO t VALUES (1, 3, 'v', 'text')")  # which the other replica has not fetched
    assert code(one, RETYPE) in (6, 72)
    assert code(two, RETYPE) in (6, 72)
    servers.settle()
    assert defined(one) == defined(two) == before
    assert rows(one, "c") == rows(two, "c") == [("5",), ("text",)]
    one.sql("ALTER TABLE t DELETE WHERE k = 3 SETTINGS mutations_sync = 2")
    two.sql(RETYPE)
    servers.settle()
    assert rows(one, "c") == rows(two, "c") == [(5,)]


def test_what_came_beside_it_and_does_not_convert(make_servers: MakeServers) -> None:
    """Reading tells, and the former type brings it back."""
    servers = make_servers()
    one, two = with_column(servers, "5")
    two.is_frozen = True
    one.sql(RETYPE)
    two.sql("INSERT INTO t VALUES (1, 3, 'v', 'text')")
    two.is_frozen = False
    servers.settle()
    for node in (one, two):
        assert code(node, "SELECT sum(c) FROM t") in (6, 72)
        assert rows(node, "k") == [(1,), (3,)]
    two.sql("ALTER TABLE t MODIFY COLUMN c String")
    servers.settle()
    servers.check_equal()
    for node in (one, two):
        assert rows(node, "c") == [("5",), ("text",)]
    one.sql("OPTIMIZE TABLE t FINAL")
    servers.settle()
    servers.check_equal()
    assert rows(one, "c") == rows(two, "c") == [("5",), ("text",)]


def test_an_enum_that_grows(make_servers: MakeServers) -> None:
    servers = make_servers()
    one, two = servers.servers
    one.sql("ALTER TABLE t ADD COLUMN e Enum8('a' = 1) SETTINGS alter_sync = 2")
    one.sql("INSERT INTO t VALUES (1, 1, 'v', 'a')")
    servers.settle()
    two.sql("ALTER TABLE t MODIFY COLUMN e Enum8('a' = 1, 'b' = 2) SETTINGS alter_sync = 2")
    one.sql("INSERT INTO t VALUES (1, 2, 'v', 'b')")
    servers.settle()
    servers.check_equal()
    assert rows(one, "toString(e)") == rows(two, "toString(e)") == [("a",), ("b",)]


def test_columns_of_a_mutation_that_is_not_done_stay(make_servers: MakeServers) -> None:
    servers = make_servers()
    one, two = with_column(servers, "5", "6")
    for node in (one, two):
        node.table.allow(StoppableAction.MERGES, False)
    one.sql("ALTER TABLE t UPDATE c = concat(c, toString(k)) WHERE k < 9 SETTINGS mutations_sync = 0")
    servers.now += 1
    two.step_all()
    for change in ("RENAME COLUMN c TO d", "DROP COLUMN c", "CLEAR COLUMN c", "MODIFY COLUMN c Int64"):
        with pytest.raises(PandoError, match="affected by mutation with ID '0000000000'") as caught:
            two.sql(f"ALTER TABLE t {change}")
        assert caught.value.code == 36
    two.sql("ALTER TABLE t ADD COLUMN d UInt8, RENAME COLUMN v TO w")
    for node in (one, two):
        node.table.allow(StoppableAction.MERGES, True)
    servers.settle()
    servers.check_equal()
    assert rows(one, "k, w, c, d") == rows(two, "k, w, c, d") == [(1, "v", "51", 0), (2, "v", "62", 0)]
    one.sql("ALTER TABLE t RENAME COLUMN c TO e")
    servers.settle()
    assert rows(two, "e") == [("51",), ("62",)]


def test_a_mutation_between_the_look_and_the_change(make_servers: MakeServers) -> None:
    """Whichever is first: the other sees it."""
    servers = make_servers()
    one, two = with_column(servers, "5")
    for node in (one, two):
        node.table.allow(StoppableAction.MERGES, False)
    done: list[str] = []

    def on_request(node: object, kind: str, path: str) -> None:
        if node is one and kind == "multi" and path == one.table.replication.paths.columns and not done:
            done.append(path)
            two.sql("ALTER TABLE t UPDATE c = '1' WHERE 1 SETTINGS mutations_sync = 0")

    servers.on_request = on_request  # type: ignore[assignment]
    assert code(one, "ALTER TABLE t DROP COLUMN c") == 36
    assert done
    done.clear()

    def before_mutation(node: object, kind: str, path: str) -> None:
        if node is one and kind == "multi" and path == one.table.replication.paths.mutation_prefix and not done:
            done.append(path)
            two.sql("ALTER TABLE t DROP COLUMN v")

    servers.on_request = before_mutation  # type: ignore[assignment]
    assert code(one, "ALTER TABLE t UPDATE v = '1' WHERE 1") in (16, 47)
    assert done


def test_a_replica_that_has_not_taken_the_definition_waits(make_servers: MakeServers) -> None:
    servers = make_servers()
    one, two = with_column(servers, "5")
    task = two.task("take over the definition")
    two.is_frozen = True
    one.sql("ALTER TABLE t ADD COLUMN d UInt64 DEFAULT k * 2")
    one.sql("ALTER TABLE t UPDATE c = toString(d + 1) WHERE 1 SETTINGS mutations_sync = 1")
    two.is_frozen = False
    for _ in range(5):
        servers.now += 7
        for other in list(two.pool.tasks):
            if other is not task:
                two.step(other)
    assert rows(two, "c") == [("5",)]
    (waiting,) = two.table.replication.queue.list_entries()
    assert "of the table's definition, which is not here yet" in waiting.postpone_reason
    servers.settle()
    servers.check_equal()
    assert rows(two, "c, d") == rows(one, "c, d") == [("3", 2)]


def test_columns_materialized_and_cleared(make_servers: MakeServers) -> None:
    servers = make_servers()
    one, two = servers.servers
    one.insert(1, [1])
    two.insert(2, [2])
    servers.settle()
    one.sql("ALTER TABLE t ADD COLUMN d UInt64 DEFAULT k * 2 SETTINGS alter_sync = 2")
    two.sql("ALTER TABLE t MATERIALIZE COLUMN d SETTINGS mutations_sync = 2")
    one.sql("ALTER TABLE t MODIFY COLUMN d UInt64 DEFAULT k * 100")
    one.sql("ALTER TABLE t CLEAR COLUMN d IN PARTITION 1 SETTINGS mutations_sync = 2")
    one.sql("DELETE FROM t WHERE k = 7")
    one.sql("ALTER TABLE t APPLY DELETED MASK SETTINGS mutations_sync = 2")
    servers.settle()
    servers.check_equal()
    for node in (one, two):
        assert rows(node, "k, d") == [(1, 100), (2, 4)]
        shown = node.sql("SELECT mutation_id, command, is_done FROM system.mutations ORDER BY mutation_id")[1]
        assert [(command, is_done) for _, command, is_done in shown] == [
            ("(MATERIALIZE COLUMN d)", 1),
            ("(CLEAR COLUMN d IN PARTITION ID '1')", 1),
            ("(UPDATE _row_exists = 0 WHERE k = 7)", 1),
            ("(APPLY DELETED MASK)", 1),
        ]
