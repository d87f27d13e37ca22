"""ATTACH TABLE … AS [NOT] REPLICATED: rows, names and histories go on, here and on further replicas."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from coordination.keeper.memory_keeper import Fault
from engine.simulator.step_pool import Crash
from engine.tables.replicated.replicated_table import ReplicatedTable
from parts.common.errors import PandoError
from parts.common.part_name import PartName
from tests.faults import FAULTS, hit_request
from tests.replication.converted import PLAIN, ROOT, MakeServers, PlainServer, making_servers


@pytest.fixture
def make_servers(tmp_path: Path) -> Iterator[MakeServers]:
    with making_servers(tmp_path) as make:
        yield make


def work_on(server: PlainServer) -> list[int]:
    """Parts of several levels, a mutated one, a dropped and a detached partition."""
    for partition, keys in ((1, [1, 2]), (1, [3]), (2, [4]), (3, [5]), (4, [6]), (2, [7, 8])):
        server.insert(partition, keys)
    server.sql("OPTIMIZE TABLE t PARTITION 1 FINAL")
    server.sql("ALTER TABLE t UPDATE v = 'new' WHERE k = 4 SETTINGS mutations_sync = 2")
    server.sql("ALTER TABLE t DROP PARTITION 3")
    server.sql("ALTER TABLE t DETACH PARTITION 4")
    server.insert(5, [9])
    return [1, 2, 3, 4, 7, 8, 9]


def names(server: PlainServer) -> set[str]:
    return {str(part.name) for part in server.any_table.store.active()}


def files(server: PlainServer) -> set[int]:
    """Of the active parts, which nobody copies."""
    return {file.stat().st_ino for part in server.any_table.store.active() for file in part.path.iterdir()}


def test_rows_parts_and_numbers_go_on(make_servers: MakeServers) -> None:
    (one,) = make_servers()
    keys = work_on(one)
    parts, inodes = names(one), files(one)
    one.convert()
    assert one.any_table.definition.engine_name == "ReplicatedMergeTree"
    assert f"'{one.replication.default_path}'" in str(one.rows("SHOW CREATE TABLE t")[0][0])
    assert one.keys() == keys
    assert (names(one), files(one)) == (parts, inodes)
    assert one.listed() == parts
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


def copy_table(source: PlainServer, target: PlainServer) -> None:
    """As somebody does by hand."""
    target.sql("DETACH TABLE t")
    shutil.rmtree(target.path / "data" / "default" / "t")
    shutil.copytree(source.path / "data" / "default" / "t", target.path / "data" / "default" / "t")
    target.sql("ATTACH TABLE t")


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


def test_the_way_there_and_back(make_servers: MakeServers) -> None:
    (one,) = make_servers()
    keys = work_on(one)
    parts, inodes = names(one), files(one)
    created = one.rows("SHOW CREATE TABLE t")
    one.convert()
    one.convert("NOT REPLICATED")
    assert one.rows("SHOW CREATE TABLE t") == created
    assert (one.keys(), names(one), files(one)) == (keys, parts, inodes)
    assert one.keeper.exists(f"{ROOT}/replicas/r1") is not None  # stays, as in ClickHouse
    one.insert(1, [10])
    one.sql("ALTER TABLE t UPDATE v = 'plain' WHERE k = 4 SETTINGS mutations_sync = 2")
    one.sql("DETACH TABLE t")
    code, message = one.refusal("ATTACH TABLE t AS REPLICATED")
    assert code == 253
    assert "SYSTEM DROP REPLICA 'r1' FROM ZKPATH" in message
    one.sql(f"SYSTEM DROP REPLICA 'r1' FROM ZKPATH '{ROOT}'")
    one.sql("ATTACH TABLE t AS REPLICATED")
    one.restart()
    one.cluster.settle()
    assert one.keys() == sorted([*keys, 10])
    assert one.rows("SELECT v FROM t WHERE k = 4") == [("plain",)]
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


# -- back: rows that are not here ---------------------------------------------------------------------------------


def two_replicas(make_servers: MakeServers) -> tuple[PlainServer, PlainServer]:
    one, two = make_servers(2)
    one.insert(1, [1])
    one.convert()
    two.convert()
    one.cluster.settle()
    return one, two


def refused_back(server: PlainServer) -> str:
    server.sql("DETACH TABLE t")
    code, message = server.refusal("ATTACH TABLE t AS NOT REPLICATED")
    assert code == 80
    server.sql("ATTACH TABLE t")
    return message


def test_a_replica_that_lacks_rows_is_no_plain_table(make_servers: MakeServers) -> None:
    one, two = two_replicas(make_servers)
    two.sql("SYSTEM STOP FETCHES t")
    one.insert(1, [2])
    two.step_all()
    assert "GET_PART of 1_2_2_0 is not carried out here" in refused_back(two)
    two.sql("SYSTEM START FETCHES t")
    one.cluster.settle()
    two.convert("NOT REPLICATED")
    assert two.keys() == [1, 2]


def test_a_replica_that_others_must_fetch_from_stays_one(make_servers: MakeServers) -> None:
    one, two = two_replicas(make_servers)
    two.sql("SYSTEM STOP FETCHES t")
    one.insert(1, [2])
    assert "replica r2 has not fetched part 1_2_2_0" in refused_back(one)
    two.sql("SYSTEM START FETCHES t")
    one.cluster.settle()
    one.convert("NOT REPLICATED")
    two.insert(1, [3])
    assert (one.keys(), two.keys()) == ([1, 2], [1, 2, 3])


def test_a_mutation_that_is_not_done_here_is_awaited(make_servers: MakeServers) -> None:
    one, two = two_replicas(make_servers)
    two.sql("SYSTEM STOP REPLICATION QUEUES t")
    two.sql("SYSTEM STOP MERGES t")
    one.sql("ALTER TABLE t UPDATE v = 'new' WHERE 1 SETTINGS mutations_sync = 0")
    one.step_all()
    assert "1_1_1_0" in refused_back(two)
    one.cluster.settle()
    two.convert("NOT REPLICATED")
    assert two.rows("SELECT v FROM t") == [("new",)]


def test_a_table_that_was_made_replicated_becomes_a_plain_one(make_servers: MakeServers) -> None:
    """Its block numbers begin with 0, and partitions have the same ones."""
    (one,) = make_servers()
    one.sql("DROP TABLE t")
    one.sql(PLAIN.replace("MergeTree", f"ReplicatedMergeTree('{ROOT}', 'r1')"))
    for partition in (1, 2):
        one.insert(partition, [partition])
    one.sql("ALTER TABLE t UPDATE v = 'new' WHERE k = 1 SETTINGS mutations_sync = 2")
    one.convert("NOT REPLICATED")
    one.insert(1, [3])
    one.sql("ALTER TABLE t UPDATE v = 'newer' WHERE 1 SETTINGS mutations_sync = 2")
    one.insert(2, [4])
    one.sql("OPTIMIZE TABLE t FINAL")
    one.restart()
    assert one.rows("SELECT k, v FROM t ORDER BY k") == [(1, "newer"), (2, "newer"), (3, "newer"), (4, "value 4")]


def test_merges_that_are_not_done_change_no_rows(make_servers: MakeServers) -> None:
    one, two = two_replicas(make_servers)
    one.insert(1, [2])
    one.cluster.settle()
    two.sql("SYSTEM STOP MERGES t")
    one.sql("OPTIMIZE TABLE t FINAL")
    two.convert("NOT REPLICATED")
    assert two.keys() == [1, 2]


@pytest.mark.parametrize("how", ["away", "empty", "not configured"])
def test_zookeeper_that_is_away_or_lost_its_data(make_servers: MakeServers, how: str) -> None:
    (one,) = make_servers()
    one.insert(1, [1])
    one.convert()
    one.insert(1, [2])
    one.sql("DETACH TABLE t")
    if how == "away":
        one.keeper.disconnect()
        code, message = one.refusal("ATTACH TABLE t AS NOT REPLICATED")
        assert (code, "'zookeeper' out of the server's configuration" in message) == (999, True)
        one.keeper.reconnect()
    elif how == "empty":
        one.keeper.delete_tree(ROOT)
    else:
        one.replication._keeper = None
    one.sql("ATTACH TABLE t AS NOT REPLICATED")
    one.insert(1, [3])
    assert one.keys() == [1, 2, 3]


# -- faults -------------------------------------------------------------------------------------------------------


def convert_hit_at(server: PlainServer, request: int, fault: Fault | str) -> bool:
    """Whether there were so many requests to ZooKeeper; the last is hit. Afterwards the table is replicated."""
    seen = hit_request(server.cluster, request, fault)
    with suppress(Crash, PandoError):
        server.convert()
    server.cluster.on_request = lambda node, kind, path: None
    if not server.is_up:
        server.cluster.end_zombies()
        server.start()
    server.keeper.reconnect()
    if server.engine.catalog.find("default", "t") is None:
        server.sql("ATTACH TABLE t AS REPLICATED")
    elif not isinstance(server.any_table, ReplicatedTable):
        server.convert()
    return len(seen) >= request


@pytest.mark.parametrize("is_second", [False, True])
def test_a_fault_at_any_request_is_repaired_by_the_start_or_the_same_statement(tmp_path: Path, is_second: bool) -> None:
    """Every fault in turn, at one request after the other."""
    for number, request in enumerate(range(1, 400, 13 if is_second else 9)):
        with making_servers(tmp_path / str(request)) as make:
            one, two = make(2)
            keys = work_on(one)
            if is_second:
                copy_table(one, two)
                two.insert(1, [50])
                one.convert()
            victim = two if is_second else one
            came_so_far = convert_hit_at(victim, request, FAULTS[number % len(FAULTS)])
            victim.cluster.settle()
            if is_second:
                assert two.detached() == ["4_5_5_0_7", "clone_1_9_9_0"], request
            assert victim.keys() == keys, request
            victim.cluster.check_equal()
        if not came_so_far:
            assert request > 20
            return
    raise AssertionError("the conversion never ends")


@pytest.mark.parametrize("point", ["conversion.after_nodes", "conversion.after_decisions"])
def test_a_crash_between_zookeeper_and_disk(make_servers: MakeServers, point: str) -> None:
    """The table is as it was, goes on, and is converted with what it has then."""
    (one,) = make_servers()
    keys = work_on(one)
    one.sql("DETACH TABLE t")
    one.cluster.on_failpoint = lambda node, name: one.crash_here() if name == point else None  # type: ignore[func-returns-value]
    with pytest.raises(Crash):
        one.sql("ATTACH TABLE t AS REPLICATED")
    one.cluster.on_failpoint = lambda node, name: None
    one.cluster.end_zombies()
    one.start()
    assert one.any_table.definition.engine_name == "MergeTree"
    for number in range(20, 25):
        one.insert(1, [number])
    one.convert()
    one.insert(1, [30])
    one.restart()
    one.cluster.settle()
    assert one.keys() == sorted([*keys, *range(20, 25), 30])
    one.cluster.check_equal()


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
