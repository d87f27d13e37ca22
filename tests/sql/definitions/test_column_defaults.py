"""What columns have that an INSERT leaves out, beside ClickHouse: the type's default, or a DEFAULT that is cast."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from parts.common.errors import PandoError
from tests.alter.following import Pando
from tests.portions import one_in
from tests.sql.oracle import Oracle

_DATES = "k Int32, d Date32, t Tuple(Date32, Int8), n Nullable(Date32)"


def stored(server: Oracle | Pando, columns: str, inserts: Sequence[str]) -> str:
    server.query("DROP TABLE IF EXISTS left_out")
    server.query(f"CREATE TABLE left_out ({columns}) ENGINE = MergeTree ORDER BY k")
    for insert in inserts:
        server.query(f"INSERT INTO left_out {insert}")
    return server.query("SELECT * FROM left_out ORDER BY k").decode()


def test_a_date32_that_an_insert_does_not_name_is_its_first_day(oracle: Oracle, pando: Pando) -> None:
    """A value that only the data leave out is the epoch."""
    inserts = [
        "(k) VALUES (1)",
        "(* EXCEPT(d)) VALUES (2, ('2020-01-01', 1), NULL)",
        '(k) FORMAT JSONEachRow {"k":3}',
        '(k, d) FORMAT JSONEachRow {"k":4}',
        'FORMAT JSONEachRow {"k":5}',
        'FORMAT JSONEachRow {"k":6,"d":"2020-01-01"}\n{"k":7}',
        "(k, d) VALUES (8, NULL)",
        "FORMAT CSVWithNames\nk\n10\n",
        "(k, d) FORMAT TSV\n11\t\\N\n",
        "(k) SELECT 12",
        "(k, d) SELECT 13, NULL",
        "SELECT 14, NULL, ('2020-01-01', 2), NULL",
    ]
    assert stored(pando, _DATES, inserts) == stored(oracle, _DATES, inserts)


def test_a_date32_that_a_view_does_not_give_is_its_first_day(oracle: Oracle, pando: Pando) -> None:
    def shown(server: Oracle | Pando) -> bytes:
        for statement in (
            "DROP TABLE IF EXISTS seen",
            "DROP TABLE IF EXISTS target",
            "DROP TABLE IF EXISTS source",
            "CREATE TABLE source (k Int32) ENGINE = MergeTree ORDER BY k",
            "CREATE TABLE target (k Int32, d Date32, e Date32 DEFAULT '1950-01-01') ENGINE = MergeTree ORDER BY k",
            "CREATE MATERIALIZED VIEW seen TO target AS SELECT k FROM source",
            "INSERT INTO source VALUES (1)",
        ):
            server.query(statement)
        return server.query("SELECT * FROM target")

    assert shown(pando) == shown(oracle)


def test_a_date32_that_alter_adds_is_its_first_day(oracle: Oracle, pando: Pando) -> None:
    found = []
    for server in (oracle, pando):
        stored(server, "k Int32", ["VALUES (1), (2)"])
        server.query("ALTER TABLE left_out ADD COLUMN d Date32, ADD COLUMN t Tuple(Date32, Int8)")
        server.query("ALTER TABLE left_out ADD COLUMN a Array(Date32), ADD COLUMN n Nullable(Date32)")
        server.query("INSERT INTO left_out (k) VALUES (3)")
        read = "SELECT *, d < '1950-01-01' FROM left_out WHERE d = '1900-01-01' ORDER BY k"
        before = server.query(read)
        server.query("OPTIMIZE TABLE left_out FINAL")
        found.append((before, server.query(read)))
    assert found[0] == found[1]


def test_the_word_default_among_values_is_the_default(oracle: Oracle, pando: Pando) -> None:
    columns = "k Int8, n Nullable(Int8) DEFAULT 5, s String DEFAULT 'x', a Array(Int8) DEFAULT [k], m Nullable(Int8)"
    inserts = [
        "VALUES (1, DEFAULT, default, Default, DEFAULT), (2, 1, 'DEFAULT', [2], NULL), (3, NULL, DEFAULT , DEFAULT, 7)",
        "VALUES (DEFAULT, 1, DEFAULT, DEFAULT, 1)",
    ]
    assert stored(pando, columns, inserts) == stored(oracle, columns, inserts)


@pytest.mark.parametrize(
    ("type_", "default"),
    one_in(
        3,
        [
            ("Int8", "k * 1000"),
            ("UInt8", "-k"),
            ("UInt8", "-1"),
            ("UInt8", "'300'"),
            ("UInt8", "toFloat64(k) * 300"),
            ("UInt64", "-1.5"),
            ("Int8", "1e10"),
            ("Int64", "1e30"),
            ("Int32", "1e10 * k"),
            ("Nullable(Int8)", "k * 1000"),
            ("LowCardinality(String)", "k * 1000"),
            ("Array(Int8)", "[k * 1000]"),
            ("Tuple(Int8, UInt8)", "(k * 1000, -k)"),
            ("Date", "'2300-01-01'"),
            ("Date", "toDate32('1950-01-01')"),
            ("Date", "toDate32('2300-01-01')"),
            ("Date", "k * 70000"),
            ("Date32", "k * 70000000"),
            ("DateTime('UTC')", "'2300-01-01 00:00:00'"),
            ("DateTime('UTC')", "toDateTime64('2300-01-01 00:00:00', 0, 'UTC')"),
            ("DateTime('UTC')", "toDateTime64('1950-01-01 00:00:00', 0, 'UTC')"),
            ("DateTime('UTC')", "k * 1e12"),
            ("Bool", "k"),
            ("UInt16", "toDate32('2300-01-01')"),
            ("Decimal(9, 2)", "k * 1000"),
            ("Decimal(9, 2)", "toDecimal64(k, 3) * 100000000"),
            ("Int8", "toDecimal32(300 * k, 2)"),
            ("UInt8", "toFloat64(k) / 0"),
            ("Enum8('a' = 1)", "k"),
            ("Float32", "1e300 * k"),
            ("Nullable(Float64)", "''"),
            ("Nullable(Int32)", "'x'"),
            ("Date", "k = 1"),
            ("Decimal(9, 2)", "rand() % 2 + 4000000000"),
            ("Enum8('a' = 1)", "rand() % 2 + 5"),
        ],
    ),
)
def test_a_default_out_of_range_wraps_around(oracle: Oracle, pando: Pando, type_: str, default: str) -> None:
    columns = f"k Int32, v {type_} DEFAULT {default}"

    def outcome(server: Oracle | Pando) -> str:
        try:
            return stored(server, columns, ["(k) VALUES (1), (2)"])
        except (RuntimeError, PandoError):
            return "refused"

    assert outcome(pando) == outcome(oracle)


def test_a_random_default_is_taken_whatever_it_is(pando: Pando) -> None:
    stored(pando, "k Int32, v Int32 DEFAULT rand()", ["(k) SELECT number FROM numbers(1000)"])
    counted = pando.query("SELECT countIf(v < 0) BETWEEN 300 AND 700, countIf(v > 0) BETWEEN 300 AND 700 FROM left_out")
    assert counted == b"1\t1\n"
