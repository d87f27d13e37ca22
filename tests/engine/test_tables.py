"""Tables of one server: their life from CREATE to DROP, over restarts too."""

from __future__ import annotations

import threading

import pytest

from engine.queries.session import Session
from parts.common.errors import PandoError
from tests.engine.conftest import Local

CREATE = """CREATE TABLE t (d Date, k UInt32, v String DEFAULT concat('v', toString(k)))
ENGINE = MergeTree PARTITION BY toYYYYMM(d) ORDER BY k"""


def code(local: Local, sql: str, data: bytes | None = None) -> int:
    with pytest.raises(PandoError) as raised:
        local.run(sql, data)
    return raised.value.code


def test_insert_select_and_restart(local: Local) -> None:
    local.run(CREATE)
    local.run("INSERT INTO t (d, k) VALUES ('2020-01-01', 2), ('2020-02-01', 1)")
    local.run("INSERT INTO t FORMAT TSV", b"2020-01-05\t7\tseven\n")
    expected = [(1, "v1"), (2, "v2"), (7, "seven")]
    assert local.run("SELECT k, v FROM t ORDER BY k") == expected
    local.restart()
    assert local.run("SELECT k, v FROM t ORDER BY k") == expected
    assert local.value("SELECT count() FROM system.parts WHERE table = 't' AND active") in (2, 3)


def test_a_bad_row_leaves_nothing(local: Local) -> None:
    local.run(CREATE)
    assert code(local, "INSERT INTO t FORMAT CSV", b"2020-01-01,1,a\n2020-01-02,many,b\n") in (6, 27, 72)
    assert local.value("SELECT count() FROM t") == 0
    assert local.value("SELECT count() FROM system.parts WHERE table = 't'") == 0


def test_optimize_merges_and_deduplicates(local: Local) -> None:
    local.run(CREATE)
    for _ in range(3):
        local.run("INSERT INTO t VALUES ('2020-01-01', 1, 'x'), ('2020-02-01', 2, 'y')")
    local.run("OPTIMIZE TABLE t PARTITION 202001 FINAL")
    parts = (
        "SELECT partition_id, count(), sum(rows) FROM system.parts WHERE table = 't' AND active GROUP BY 1 ORDER BY 1"
    )
    assert local.run(parts)[0] == ("202001", 1, 3)
    local.run("OPTIMIZE TABLE t FINAL DEDUPLICATE")
    assert local.run(parts) == [("202001", 1, 1), ("202002", 1, 1)]
    assert local.run("SELECT * EXCEPT (d) FROM t ORDER BY k") == [(1, "x"), (2, "y")]


@pytest.mark.parametrize(
    ("columns", "expected"), [("b", 8), ("a, b", 8), ("a, p", 8), ("a, b, p, zz", 16), ("a, b, p, c", 16), ("c", 16)]
)
def test_rows_of_other_keys_are_no_duplicates(local: Local, columns: str, expected: int) -> None:
    local.run(
        "CREATE TABLE dd (a Int32, b Int32, p UInt8, x UInt8, c Int32 ALIAS a + 1) ENGINE = MergeTree "
        "PARTITION BY p ORDER BY (a, b % 2)"
    )
    local.run("INSERT INTO dd SELECT number % 5, number % 2, 0, number FROM numbers(20)")
    assert code(local, f"OPTIMIZE TABLE dd FINAL DEDUPLICATE BY {columns}") == expected
    assert local.value("SELECT count() FROM dd") == 20
    local.run("OPTIMIZE TABLE dd FINAL DEDUPLICATE BY p, a, b")
    assert local.value("SELECT count() FROM dd") == 10


def test_life_of_a_table(local: Local) -> None:
    local.run("CREATE DATABASE other")
    local.run(CREATE)
    assert code(local, CREATE) == 57
    local.run(CREATE.replace("TABLE t", "TABLE IF NOT EXISTS t"))
    local.run("INSERT INTO t (k) VALUES (1), (2)")
    local.run("RENAME TABLE t TO other.u")
    assert local.value("EXISTS TABLE t") == 0
    assert local.value("SELECT count() FROM other.u") == 2
    local.run("DETACH TABLE other.u")
    assert code(local, "SELECT * FROM other.u") == 60
    local.run("ATTACH TABLE other.u")
    assert local.value("SELECT sum(k) FROM other.u") == 3
    local.run("TRUNCATE TABLE other.u")
    assert local.value("SELECT count() FROM other.u") == 0
    local.run("USE other")
    assert local.run("SHOW TABLES") == [("u",)]
    local.run("DROP TABLE u")
    local.run("DROP DATABASE other")
    assert code(local, "SHOW TABLES FROM other") == 81


def test_rows_may_come_again_after_truncate(local: Local) -> None:
    local.run(
        "CREATE TABLE again (k UInt32) ENGINE = MergeTree ORDER BY k SETTINGS non_replicated_deduplication_window = 9"
    )
    for _ in range(2):
        local.run("INSERT INTO again VALUES (1)")
    assert local.value("SELECT count() FROM again") == 1
    local.run("TRUNCATE TABLE again")
    for _ in range(2):
        local.run("INSERT INTO again VALUES (1)")
    assert local.value("SELECT count() FROM again") == 1


def test_show_create_round_trips(local: Local) -> None:
    local.run(CREATE)
    text = str(local.value("SHOW CREATE TABLE t"))
    local.run("DROP TABLE t")
    local.run(text)
    assert local.value("SHOW CREATE TABLE t") == text
    assert [row[:3] for row in local.run("DESCRIBE TABLE t")] == [
        ("d", "Date", ""),
        ("k", "UInt32", ""),
        ("v", "String", "DEFAULT"),
    ]


def test_insert_select_and_create_as(local: Local) -> None:
    local.run("CREATE TABLE n (k UInt64, s String) ENGINE = MergeTree ORDER BY k")
    local.run("INSERT INTO n SELECT number, toString(number) FROM numbers(10000)")
    local.run("CREATE TABLE m ENGINE = MergeTree ORDER BY k AS SELECT k, length(s) AS l FROM n WHERE k % 2 = 0")
    assert local.run("SELECT count(), sum(k), max(l) FROM m") == [(5000, 24995000, 4)]
    local.run("CREATE TABLE o AS n")
    assert local.value("SELECT count() FROM o") == 0


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELEC 1", 62),
        ("SELECT * FROM nowhere", 60),
        ("SELECT nofunction(1)", 46),
        ("CREATE TABLE x (k UInt8) ENGINE = Nonsense ORDER BY k", 56),
        ("CREATE TABLE x (k UInt8) ENGINE = MergeTree ORDER BY z", 47),
        ("CREATE TABLE x (k Whatever) ENGINE = MergeTree ORDER BY k", 50),
        ("DROP TABLE nowhere", 60),
        ("USE nowhere", 81),
        ("SET nonsense = 1", 115),
        ("CREATE TABLE x (k UInt8) ENGINE = ReplicatedMergeTree('/t', 'r') ORDER BY k", 225),
    ],
)
def test_errors_have_clickhouse_codes(local: Local, sql: str, expected: int) -> None:
    assert code(local, sql) == expected


def test_system_tables_answer(local: Local) -> None:
    local.run(CREATE)
    local.run("INSERT INTO t (k) VALUES (1)")
    for name in local.run("SELECT name FROM system.tables WHERE database = 'system'"):
        if name[0] != "zookeeper":
            local.run(f"SELECT * FROM system.{name[0]}")
    assert local.run("SELECT total_rows, active_parts FROM system.tables WHERE name = 't'") == [(1, 1)]
    assert local.value("SELECT type FROM system.columns WHERE table = 't' AND name = 'k'") == "UInt32"


def test_explain_shows_what_is_read(local: Local) -> None:
    local.run(CREATE + " SETTINGS index_granularity = 100")
    local.run("INSERT INTO t (d, k) SELECT toDate('2020-01-01') + intDiv(number, 1000), number FROM numbers(10000)")
    text = "\n".join(str(row[0]) for row in local.run("EXPLAIN indexes = 1 SELECT count() FROM t WHERE k = 4242"))
    assert "PrimaryKey" in text
    assert "Granules: 1/" in text
    assert local.value("SELECT count() FROM t WHERE k = 4242") == 1


def test_query_limit_and_kill(local: Local) -> None:
    assert code(
        local, "SELECT count() FROM numbers(1000000000000) WHERE sipHash64(number) = 1 SETTINGS max_execution_time = 1"
    ) in (46, 159)
    assert code(local, "SELECT sum(number) FROM numbers(100000000000) SETTINGS max_execution_time = 1") == 159


def test_defaults_are_evaluated_for_every_row(local: Local) -> None:
    local.run(
        "CREATE TABLE t (k UInt8, id UUID DEFAULT generateUUIDv4(), at DateTime DEFAULT now()) "
        "ENGINE = MergeTree ORDER BY k"
    )
    local.run("INSERT INTO t (k) VALUES (1), (2), (3)")
    assert local.run("SELECT uniqExact(id), min(at) > '2020-01-01 00:00:00' FROM t") == [(3, 1)]


def test_many_broken_bytes_are_refused_at_the_start(local: Local) -> None:
    local.run("CREATE TABLE t (k UInt8) ENGINE = MergeTree ORDER BY k SETTINGS max_suspicious_broken_parts_bytes = 1")
    local.run("INSERT INTO t VALUES (1)")
    (part,) = (local.path / "data" / "default" / "t").glob("all_*")
    (part / "meta.bin").write_bytes(b"not a part")
    local.restart()
    with pytest.raises(PandoError, match=r"is not loaded: .*max_suspicious_broken_parts") as raised:
        local.run("SELECT * FROM t")
    assert raised.value.code == 695


def test_check_table_reads_every_byte(local: Local) -> None:
    local.run(CREATE)
    local.run("INSERT INTO t (d, k) VALUES ('2020-01-01', 2), ('2020-02-01', 1)")
    names = [name for (name,) in local.run("SELECT name FROM system.parts WHERE table = 't' ORDER BY name")]
    assert local.run("CHECK TABLE t") == [(name, 1, "") for name in names]
    data = local.path / "data" / "default" / "t" / names[1] / "meta.bin"
    content = bytearray(data.read_bytes())
    content[-1] ^= 1
    data.write_bytes(content)
    verdicts = local.run("CHECK TABLE t")
    assert [verdict[:2] for verdict in verdicts] == [(names[0], 1), (names[1], 0)]
    assert names[1] in verdicts[1][2]
    assert "CHECKSUM_DOESNT_MATCH" in verdicts[1][2]
    assert local.run("CHECK TABLE t SETTINGS check_query_single_value_result = 1") == [(0,)]
    assert local.run("CHECK TABLE t PARTITION 202001") == [(names[0], 1, "")]
    assert local.run(f"CHECK TABLE t PART '{names[0]}'") == [(names[0], 1, "")]
    assert code(local, "CHECK TABLE t PART '202001_9_9_0'") == 232
    assert code(local, "CHECK TABLE t PART 'nonsense'") == 233
    assert code(local, "CHECK TABLE t SETTINGS nonsense = 1") == 115
    assert code(local, "CHECK TABLE nowhere") == 60


@pytest.mark.long
def test_a_block_of_many_partitions_is_refused_whole(local: Local) -> None:
    local.run("CREATE TABLE t (k UInt32) ENGINE = MergeTree PARTITION BY k % 150 ORDER BY k")
    insert = "INSERT INTO t {} SELECT number FROM numbers(150)"
    assert code(local, insert.format("")) == 252
    assert local.value("SELECT count() FROM t") == 0
    local.run(insert.format("SETTINGS max_partitions_per_insert_block = 0"))
    assert local.value("SELECT count() FROM t") == 150


def test_create_empty_as_select(local: Local) -> None:
    """dbt makes its tables so, and fills them afterwards."""
    local.run("CREATE TABLE e ENGINE = MergeTree() ORDER BY n SETTINGS index_granularity = 8 EMPTY AS (SELECT 1 AS n)")
    assert local.run("SELECT count() FROM e") == [(0,)]
    assert local.run("SELECT name, type FROM system.columns WHERE table = 'e'") == [("n", "UInt8")]


@pytest.mark.parametrize(
    "type_",
    [
        "LowCardinality(Nullable(String))", "LowCardinality(Nullable(Date))", "LowCardinality(Date)",
        "Array(LowCardinality(String))", "Array(Array(LowCardinality(Nullable(DateTime))))",
        "Map(String, LowCardinality(DateTime))", "Map(LowCardinality(String), Array(LowCardinality(UUID)))",
        "Array(Tuple(LowCardinality(String), Int8))", "Tuple(LowCardinality(Date), Array(LowCardinality(Date)))",
    ],
)  # fmt: skip
def test_a_column_that_is_left_out_is_read_back(local: Local, type_: str) -> None:
    local.run(f"CREATE TABLE t (k UInt8, v {type_}) ENGINE = MergeTree ORDER BY k")
    default = local.value(f"SELECT toString(defaultValueOfTypeName('{type_}'))")
    local.run("INSERT INTO t (k) VALUES (1)")
    local.run("INSERT INTO t FORMAT JSONEachRow", b'{"k": 2}\n{"k": 3, "v": null}')
    local.run(f"INSERT INTO t SELECT 4, CAST(defaultValueOfTypeName('{type_}'), '{type_}')")
    local.restart()
    assert local.run("SELECT toString(v) FROM t ORDER BY k") == [(default,)] * 4
    local.run("OPTIMIZE TABLE t FINAL")
    assert local.run("SELECT toString(v), count() FROM t GROUP BY v") == [(default, 4)]


@pytest.mark.parametrize("merge", ["OPTIMIZE TABLE t FINAL", ""])
def test_no_merge_covers_a_block_that_is_about_to_commit(
    local: Local, monkeypatch: pytest.MonkeyPatch, merge: str
) -> None:
    """Its rows would be gone: acknowledged, and under a part that was made without them."""
    local.run("SYSTEM STOP MERGES")
    local.run("CREATE TABLE t (k UInt32) ENGINE = MergeTree ORDER BY k")
    for k in range(8):
        local.run(f"INSERT INTO t VALUES ({k})")
    is_numbered, may_commit = threading.Event(), threading.Event()

    def hold_the_first(name: str) -> None:
        if name == "insert.after_rename" and not is_numbered.is_set():
            is_numbered.set()
            assert may_commit.wait(60)

    monkeypatch.setattr(local.engine.services, "failpoint", hold_the_first)
    slow = threading.Thread(target=lambda: local.engine.execute("INSERT INTO t VALUES (100)", Session()))
    slow.start()
    assert is_numbered.wait(60)
    local.run("INSERT INTO t VALUES (101)")
    release = threading.Timer(0.5, may_commit.set)
    release.start()
    local.run("SYSTEM START MERGES")
    if merge:
        local.run(merge)
    else:
        release.join()
    slow.join()
    local.run("OPTIMIZE TABLE t FINAL")
    assert local.run("SELECT count(), max(k) FROM t") == [(10, 101)]
    assert local.value("SELECT count() FROM t WHERE k = 100") == 1
