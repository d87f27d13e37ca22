"""ATTACH TABLE … AS [NOT] REPLICATED: rows, names and histories go on, here and on further replicas."""

from __future__ import annotations

from pathlib import Path

import pytest

from parts.common.part_name import PartName
from tests.engine.tables.replicated.converted import (
    MakeServers,
    copy_table,
    files,
    make_servers,
    names,
    work_on,
)

__all__ = ["make_servers"]


def test_rows_parts_and_numbers_go_on(make_servers: MakeServers) -> None:
    (one,) = make_servers()
    keys = work_on(one)
    parts, inodes = names(one), files(one)
    one.convert()
    assert one.any_table.definition.engine_name == "ReplicatedMergeTree"
    assert f"'{one.replication.default_path}'" in str(one.rows("SHOW CREATE TABLE t")[0][0])
    assert one.keys() == keys
    assert (names(one), files(one)) == (parts, inodes)
    assert one.list_zookeeper_parts() == parts
    one.insert(2, [10])
    one.insert(6, [11])
    last = max(PartName.parse(name).max_block for name in parts)
    assert all(PartName.parse(name).min_block > last for name in names(one) - parts)
    one.sql("OPTIMIZE TABLE t FINAL")
    one.sql("ALTER TABLE t UPDATE v = 'again' WHERE k = 4 SETTINGS mutations_sync = 2")
    one.sql("ALTER TABLE t ADD COLUMN n UInt8 DEFAULT 3")
    one.cluster.settle()
    assert one.rows("SELECT v, n FROM t WHERE k = 4") == [("again", 3)]
    one.sql("ALTER TABLE t ATTACH PARTITION 4")
    one.restart()
    one.cluster.settle()
    assert one.keys() == sorted([*keys, 6, 10, 11])
    one.cluster.check_equal()


@pytest.mark.parametrize(
    ("statement", "left"),
    [
        ("TRUNCATE TABLE t", []),
        ("ALTER TABLE t DROP PARTITION 2", [1, 2, 3, 9]),
        ("ALTER TABLE t DETACH PARTITION 2", [1, 2, 3, 9]),
    ],
)
def test_a_drop_right_after_the_conversion_takes_the_rows(
    make_servers: MakeServers, statement: str, left: list[int]
) -> None:
    """No INSERT has taken a block number of the partition in ZooKeeper before."""
    (one,) = make_servers()
    work_on(one)
    one.convert()
    one.sql(statement)
    assert one.keys() == left
    one.insert(2, [4])
    assert one.keys() == sorted([*left, 4])


def test_a_new_replica_gets_all_rows(make_servers: MakeServers) -> None:
    one, two = make_servers(2)
    keys = work_on(one)
    one.sql("ALTER TABLE t ADD COLUMN n UInt8 DEFAULT 3")
    one.insert(1, [10])
    one.convert()
    two.sql("DROP TABLE t")
    definition = str(one.rows("SHOW CREATE TABLE t")[0][0])
    two.sql(definition.replace("default.t", "t"))
    one.cluster.settle()
    assert two.keys() == sorted([*keys, 10])
    two.insert(1, [11])
    one.cluster.settle()
    assert one.keys() == two.keys() == sorted([*keys, 10, 11])
    one.cluster.check_equal()


def test_a_copy_of_the_same_data_joins_without_copying(make_servers: MakeServers) -> None:
    one, two = make_servers(2)
    keys = work_on(one)
    copy_table(one, two)
    inodes = files(two)
    one.cluster.on_copy = lambda part, node: pytest.fail(f"{part} is fetched")
    one.convert()
    two.convert()
    one.cluster.settle()
    assert one.keys() == two.keys() == keys
    assert files(two) == inodes
    two.insert(1, [20])
    one.cluster.on_copy = lambda part, node: None
    one.cluster.settle()
    assert one.keys() == two.keys() == sorted([*keys, 20])
    one.cluster.check_equal()


def test_equal_rows_under_other_names_are_taken_and_others_kept_aside(make_servers: MakeServers) -> None:
    """The second server's table was filled by itself, in another order, and has rows of its own."""
    one, two = make_servers(2)
    for keys in ([1, 2], [3], [4]):
        one.insert(1, keys)
    for keys in ([4], [100], [1, 2], [3]):
        two.insert(1, keys)
    copied: set[str] = set()
    one.cluster.on_copy = lambda part, node: copied.add(str(part))
    one.convert()
    two.convert()
    one.cluster.settle()
    assert one.keys() == two.keys() == [1, 2, 3, 4]
    assert not copied
    assert two.detached() == ["clone_1_2_2_0"]
    two.restart()
    one.cluster.settle()
    assert two.keys() == [1, 2, 3, 4]
    two.sql("INSERT INTO t (p, k) VALUES (1, 5)")
    one.cluster.settle()
    assert one.keys() == [1, 2, 3, 4, 5]
    one.cluster.check_equal()


def test_histories_of_columns_go_on(make_servers: MakeServers) -> None:
    (one,) = make_servers()
    one.insert(1, [1])
    one.sql("ALTER TABLE t RENAME COLUMN v TO w")
    one.sql("ALTER TABLE t ADD COLUMN v String DEFAULT 'late'")
    one.convert()
    one.insert(1, [2])
    one.sql("ALTER TABLE t DROP COLUMN w")
    one.cluster.settle()
    one.convert("NOT REPLICATED")
    one.sql("ALTER TABLE t ADD COLUMN w String DEFAULT 'last'")
    assert one.rows("SELECT k, v, w FROM t ORDER BY k") == [(1, "late", "last"), (2, "value 2", "last")]


def test_commits_are_known_before_and_after(make_servers: MakeServers) -> None:
    """A client that lost the answer repeats its COMMIT, and an application its version under another name."""
    (one,) = make_servers()
    one.sql("INSERT INTO t (p, k) VALUES (1, 1)", insert_transaction="job")
    one.sql("DETACH TABLE t")
    code, message = one.refusal("ATTACH TABLE t AS REPLICATED")
    assert (code, "is open" in message) == (80, True)
    one.sql("ATTACH TABLE t")
    one.sql("COMMIT TRANSACTION 'job' ON t APPLICATION 'app' VERSION 7")
    for number, how in enumerate(("REPLICATED", "NOT REPLICATED")):
        one.convert(how)
        assert one.rows("COMMIT TRANSACTION 'job' ON t APPLICATION 'app' VERSION 7")[0][0] == "committed before"
        one.sql("INSERT INTO t (p, k) VALUES (1, 1)", insert_transaction=f"again {number}")
        (answer,) = one.rows(f"COMMIT TRANSACTION 'again {number}' ON t APPLICATION 'app' VERSION 7")
        assert str(answer[0]).startswith("skipped")
        assert one.keys() == [1]


# -- refusals -----------------------------------------------------------------------------------------------------


def test_what_cannot_be_converted(make_servers: MakeServers) -> None:
    (one,) = make_servers()
    assert one.refusal("ATTACH TABLE t AS REPLICATED")[0] == 57
    assert one.refusal("ATTACH TABLE IF NOT EXISTS t AS NOT REPLICATED")[0] == 57
    one.sql("DETACH TABLE t")
    assert one.refusal("ATTACH TABLE t AS NOT REPLICATED")[0] == 80
    one.keeper.disconnect()
    assert one.refusal("ATTACH TABLE t AS REPLICATED")[0] == 999
    one.keeper.reconnect()
    one.replication.default_name = "{nothing}"
    assert one.refusal("ATTACH TABLE t AS REPLICATED")[0] == 139
    one.replication.default_name = "{replica}"
    one.sql("ATTACH TABLE t AS REPLICATED")
    one.sql("DETACH TABLE t")
    assert one.refusal("ATTACH TABLE t AS REPLICATED")[0] == 80
    one.sql("CREATE TABLE log (k UInt8) ENGINE = Log")
    one.sql("CREATE VIEW view AS SELECT 1")
    for name in ("log", "view"):
        one.sql(f"DETACH TABLE {name}")
        assert one.refusal(f"ATTACH TABLE {name} AS REPLICATED")[0] == 48
        one.sql(f"ATTACH TABLE {name}")


def test_a_mutation_is_finished_first(make_servers: MakeServers) -> None:
    (one,) = make_servers()
    one.insert(1, [1])
    one.sql("SYSTEM STOP MERGES t")
    one.sql("ALTER TABLE t UPDATE v = 'new' WHERE 1 SETTINGS mutations_sync = 0")
    one.sql("DETACH TABLE t")
    code, message = one.refusal("ATTACH TABLE t AS REPLICATED")
    assert code == 80
    assert "mutation_2.txt is not done" in message
    one.sql("ATTACH TABLE t")
    one.step_all()
    assert one.rows("SELECT v FROM t") == [("new",)]
    one.convert()
    assert one.rows("SELECT v FROM t") == [("new",)]


def test_another_definition_in_zookeeper_is_refused_and_nothing_changes(make_servers: MakeServers) -> None:
    one, two = make_servers(2)
    one.insert(1, [1])
    two.insert(1, [2])
    two.sql("ALTER TABLE t ADD COLUMN n UInt8")
    one.convert()
    two.sql("DETACH TABLE t")
    code, message = two.refusal("ATTACH TABLE t AS REPLICATED")
    assert (code, "columns" in message) == (342, True)
    two.sql("ATTACH TABLE t")
    assert two.any_table.definition.engine_name == "MergeTree"
    assert two.keys() == [2]


def test_another_servers_replica_is_not_taken_over(make_servers: MakeServers) -> None:
    one, two = make_servers(2)
    two.replication.macros["replica"] = "r1"
    two.insert(1, [2])
    one.convert()
    for _ in range(2):
        two.sql("DETACH TABLE t")
        assert two.refusal("ATTACH TABLE t AS REPLICATED")[0] == 253
        two.sql("ATTACH TABLE t")
        assert two.keys() == [2]
        if one.is_up:
            one.stop()
            one.cluster.end_zombies()


# -- convert_to_replicated ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["convert_to_replicated", "flags/convert_to_replicated"])
def test_the_flag_converts_at_the_next_start(make_servers: MakeServers, place: str) -> None:
    (one,) = make_servers()
    keys = work_on(one)
    one.sql("CREATE TABLE other (k UInt8) ENGINE = MergeTree ORDER BY k")
    flag = Path(str(one.rows("SELECT data_paths[1] FROM system.tables WHERE name = 't'")[0][0])) / place
    flag.parent.mkdir(exist_ok=True)
    flag.touch()
    one.stop()
    one.start()
    assert one.any_table.definition.engine_name == "ReplicatedMergeTree"
    assert one.keys() == keys
    assert not flag.exists()
    assert one.engine.catalog.table("default", "other").definition.engine_name == "MergeTree"
    one.insert(1, [10])
    one.restart()
    assert one.keys() == sorted([*keys, 10])


def test_a_flag_that_cannot_be_obeyed_leaves_the_table_as_it_was(
    make_servers: MakeServers, caplog: pytest.LogCaptureFixture
) -> None:
    (one,) = make_servers()
    keys = work_on(one)
    flag = one.any_table.definition.data_path / "convert_to_replicated"
    flag.touch()
    one.stop()
    one.start(keeper_is_away=True)
    assert one.any_table.definition.engine_name == "MergeTree"
    assert one.keys() == keys
    assert "default.t is not converted to replicated" in caplog.text
    one.stop()
    one.start()  # the flag is there still
    assert one.any_table.definition.engine_name == "ReplicatedMergeTree"
    assert not flag.exists()
    flag.touch()
    one.restart()
    assert one.keys() == keys
    assert not flag.exists()


def test_deprecated_syntax_and_merge_modes_keep_their_arguments(make_servers: MakeServers) -> None:
    (one,) = make_servers()
    one.replication.default_path = "/clickhouse/tables/{table}"
    for number, engine in enumerate(
        ("MergeTree(d, (k), 8192)", "SummingMergeTree(v) ORDER BY k", "ReplacingMergeTree(v) PRIMARY KEY k")
    ):
        one.sql(
            f"CREATE TABLE x{number} (d Date, k UInt8, v UInt64) ENGINE = {engine}",
            allow_deprecated_syntax_for_merge_tree=1,
        )
        created = one.rows(f"SHOW CREATE TABLE x{number}")
        one.sql(f"INSERT INTO x{number} VALUES ('2020-01-01', 1, 2)")
        for how in ("REPLICATED", "NOT REPLICATED"):
            one.sql(f"DETACH TABLE x{number}")
            one.sql(f"ATTACH TABLE x{number} AS {how}")
            assert one.rows(f"SELECT v FROM x{number}") == [(2,)]
        assert one.rows(f"SHOW CREATE TABLE x{number}") == created
