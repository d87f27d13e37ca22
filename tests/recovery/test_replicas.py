"""What the page says of replicas in general: which statements concern one server, and what needs ZooKeeper."""

from __future__ import annotations

import pytest

from parts.common.errors import PandoError
from tests.engine.conftest import Local
from tests.recovery.conftest import COLUMNS, PLAIN, REPLICATED, ROWS, Operator


def test_a_server_holds_tables_of_both_kinds(operator: Operator) -> None:
    operator.create_everywhere()
    operator.first.sql(f"CREATE TABLE plain ({COLUMNS}) {PLAIN}")
    operator.insert(operator.first)
    operator.insert(operator.first, "plain")
    assert operator.rows(operator.first) == operator.rows(operator.first, "plain") == ROWS


def test_drop_takes_away_the_replica_of_one_server(operator: Operator) -> None:
    operator.create_everywhere()
    operator.insert(operator.first)
    operator.servers.settle()
    operator.first.sql("DROP TABLE u SYNC")
    assert operator.second.sql("SELECT total_replicas FROM system.replicas WHERE table = 'u'")[1] == [(1,)]
    assert operator.rows(operator.second) == ROWS


def test_rename_concerns_one_replica(operator: Operator) -> None:
    operator.create_everywhere()
    operator.first.sql("RENAME TABLE u TO other")
    operator.insert(operator.first, "other")
    operator.servers.settle()
    assert operator.rows(operator.second, "u") == operator.rows(operator.first, "other") == ROWS


def test_detach_concerns_one_replica(operator: Operator) -> None:
    operator.create_everywhere()
    operator.first.sql("DETACH TABLE u")
    operator.insert(operator.second)
    operator.first.sql("ATTACH TABLE u")
    operator.servers.settle()
    assert operator.rows(operator.first) == ROWS


def test_a_later_replica_copies_what_the_others_have(operator: Operator) -> None:
    operator.first.sql(f"CREATE TABLE u ({COLUMNS}) {REPLICATED}")
    operator.insert(operator.first)
    operator.second.sql(f"CREATE TABLE u ({COLUMNS}) {REPLICATED}")
    operator.servers.settle()
    assert operator.rows(operator.second) == ROWS


def test_select_asks_zookeeper_for_nothing(operator: Operator) -> None:
    operator.create_everywhere()
    operator.insert(operator.first)
    operator.servers.settle()
    operator.second.keeper.disconnect()
    asked: list[str] = []
    operator.servers.on_request = lambda node, kind, path: asked.append(f"{kind} {path}")  # type: ignore[func-returns-value]
    assert operator.rows(operator.first) == operator.rows(operator.second) == ROWS
    assert asked == []


def test_insert_without_zookeeper_is_an_error(operator: Operator) -> None:
    operator.create_everywhere()
    operator.first.keeper.disconnect()
    with pytest.raises(PandoError) as refused:
        operator.first.sql("INSERT INTO u VALUES (0, 1)")
    assert refused.value.code in (242, 999)
    assert operator.rows(operator.first) == []


def test_a_server_without_zookeeper_only_reads_replicated_tables(operator: Operator) -> None:
    operator.create_everywhere()
    operator.insert(operator.first)
    operator.first.stop()
    local = Local(operator.first.path, macros={"replica": "r1"})
    try:
        assert local.run("SELECT p, k FROM u ORDER BY k") == ROWS
        for sql, code in [
            ("INSERT INTO u VALUES (0, 100)", 242),
            (f"CREATE TABLE v ({COLUMNS}) ENGINE = ReplicatedMergeTree('/v', 'r1') ORDER BY k", 225),
        ]:
            with pytest.raises(PandoError) as refused:
                local.run(sql)
            assert refused.value.code == code
    finally:
        local.engine.stop()
