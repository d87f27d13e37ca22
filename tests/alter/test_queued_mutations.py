"""Mutations that waited together leave a table as ClickHouse leaves it, which carries them out one after the other."""

from __future__ import annotations

import random

import pytest

from tests.alter.following import Pando
from tests.sql.oracle import Oracle

_FORMATS = ("", ", min_bytes_for_wide_part = 1", ", index_granularity = 8")
_COLUMNS = """k UInt32, v Int64, s String, l LowCardinality(String), f Nullable(Float64), a Array(UInt8),
e DateTime('UTC'), n Nested(x UInt8, y String), m Int64 MATERIALIZED v * 2 + 1, z Int64 ALIAS v + 100,
INDEX i v TYPE minmax GRANULARITY 1"""
_ROWS = """SELECT number + 40 * {}, number % 7, toString(number % 5), toString(number % 3),
if(number % 4, number, NULL), range(number % 4), 1600000000 + number, range(number % 3),
arrayMap(x -> toString(x), range(number % 3)) FROM numbers(40)"""
_VALUES = {
    "v": ("v + 1", "v * 3 - k", "k % 11", "length(s) + v", "m", "z", "toInt64(ifNull(f, -1))", "-5"),
    "s": ("concat(s, '-')", "l", "toString(v)", "''", "substring(s, 2)", "upper(concat(s, 'q'))"),
    "l": ("s", "concat(l, 'x')", "if(v > 3, 'big', 'small')", "'same'"),
    "f": ("NULL", "v / 4", "f + 1", "if(v % 2 = 0, NULL, k)"),
    "a": ("arrayMap(x -> x + 1, a)", "[]", "[1, 2]", "arrayConcat(a, [length(a)])"),
    "e": ("e + INTERVAL 1 DAY", "toDateTime(k, 'UTC')"),
    "n.x": ("arrayMap(x -> x + 1, n.x)", "n.x"),
    "d": ("d + v", "k"),
}
_CONDITIONS = (
    "1", "0", "NULL", "k % 3 = 1", "k < 20", "k = 17", "k IN (3, 50, 51, 90)", "v > 4", "v % 2", "s = '3'",
    "l LIKE '%1%'", "f IS NULL", "f > 10", "length(a) = 2", "has(a, 1)", "m > 9", "z < 103",
    "e > '2020-09-14 00:00:00'", "d > 10", "k IN (SELECT x FROM o)", "not (s = '' or v < 2)", "_part_offset % 2 = 0",
)  # fmt: skip


def _mutation(chance: random.Random) -> str:
    kind = chance.choices(("UPDATE", "DELETE", "LIGHT", "OTHER"), (14, 3, 1, 1))[0]
    condition = chance.choice(_CONDITIONS)
    if kind == "UPDATE":
        names = chance.sample(sorted(_VALUES), chance.choice((1, 1, 2)))
        if "n.x" in names:  # ClickHouse takes only conditions of UInt8 here
            condition = "k % 3 = 1"
        return (
            f"ALTER TABLE t UPDATE {', '.join(f'`{n}` = {chance.choice(_VALUES[n])}' for n in names)} WHERE {condition}"
        )
    if kind == "DELETE":
        return f"ALTER TABLE t DELETE WHERE ({condition}) AND k % {chance.choice((5, 7))} = 1"
    if kind == "LIGHT":
        return f"DELETE FROM t WHERE k % 13 = 2 AND ({condition.replace('_part_offset', 'k')})"
    return f"ALTER TABLE t {chance.choice(('MATERIALIZE COLUMN d', 'MATERIALIZE INDEX i', 'APPLY DELETED MASK'))}"


@pytest.mark.long
@pytest.mark.parametrize("seed", range(6))
def test_a_random_series(oracle: Oracle, pando: Pando, seed: int) -> None:
    chance = random.Random(seed)
    series = [_mutation(chance) for _ in range(20)]
    extent = f"ENGINE = MergeTree ORDER BY k SETTINGS max_bytes_to_merge_at_max_space_in_pool = 1{_FORMATS[seed % 3]}"
    for server in (oracle, pando):
        server.query("CREATE TABLE o (x UInt32) ENGINE = MergeTree ORDER BY x")
        server.query("INSERT INTO o VALUES (1), (5), (44)")
        server.query(f"CREATE TABLE t ({_COLUMNS}) {extent}")
        server.query(f"INSERT INTO t {_ROWS.format(0)}")
        server.query(f"INSERT INTO t {_ROWS.format(1)}")
        server.query("ALTER TABLE t ADD COLUMN d Int64 DEFAULT v * 10")
        server.query(f"INSERT INTO t (k, v, s, l, f, a, e, n.x, n.y) {_ROWS.format(2)}")
    try:
        pando.query("SYSTEM STOP MERGES t")
        for sql in series:
            pando.query(f"{sql} SETTINGS {'lightweight_deletes_sync' if sql[0] == 'D' else 'mutations_sync'} = 0")
            oracle.query(f"{sql} SETTINGS {'lightweight_deletes_sync' if sql[0] == 'D' else 'mutations_sync'} = 2")
        pando.query("SYSTEM START MERGES t")
        pando.query("ALTER TABLE t UPDATE v = v WHERE 0 SETTINGS mutations_sync = 1")
        rows = "SELECT *, m, z, d FROM t ORDER BY k"
        assert pando.query(rows) == oracle.query(rows), series
    finally:
        for server in (oracle, pando):
            server.query("DROP TABLE t SYNC")
            server.query("DROP TABLE o SYNC")
