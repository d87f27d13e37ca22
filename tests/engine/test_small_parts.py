"""Rows of many small parts are read together: the answers are those of one part with the same rows."""

from __future__ import annotations

import pytest

from sql.pruning.pruned_parts import PrunedPart
from sql.run.scans.small_parts import SmallParts
from tests.engine.conftest import Local
from tests.portions import one_in

_PARTS, _ROWS = 12, 7
_COLUMNS = """
    k UInt64, i Int32, f Float64, d Decimal(9, 2), w Decimal(38, 4), s String, l LowCardinality(String),
    n Nullable(Int16), m LowCardinality(Nullable(String)), x FixedString(3), e Enum8('a' = 1, 'b' = 2), t DateTime,
    q DateTime64(9), y Date, b Bool, u UUID, a Array(UInt8), g Array(LowCardinality(String)), p Tuple(UInt8, String),
    h Map(String, UInt8), v IPv4, z IPv6, j Int64
"""
_VALUES = """
    number, number % 5 - 2, number / 3, toDecimal32(number, 2) / 4, toDecimal128(number, 4) * 1000000,
    concat('s', toString(number % 9)), toString(number % 4), if(number % 3 = 0, NULL, number),
    if(number % 4 = 0, NULL, toString(number % 6)), toFixedString(toString(number % 10), 3), number % 2 + 1,
    toDateTime('2024-01-01 00:00:00') + number, toDateTime64('2024-01-01 00:00:00', 9) + number,
    toDate('2024-01-01') + number, number % 2, toUUID('00000000-0000-0000-0000-000000000001'), range(number % 4),
    arrayMap(each -> toString(each), range(number % 3)), (number % 3, toString(number)),
    map('a', number % 5), toIPv4('10.0.0.1'), toIPv6('::1'), number
"""
_QUERIES = (
    "SELECT * FROM t ORDER BY k",
    "SELECT * FROM t WHERE i > 0 ORDER BY k",
    "SELECT sum(i), sum(f) > 0, sum(d), sum(w), min(s), max(q), count(n), sum(n), min(y), max(t), avg(d) FROM t",
    "SELECT sum(d), sum(w), min(w), max(d) FROM t WHERE i = 1",
    "SELECT l, count(), sum(d), sum(i), min(k), max(y) FROM t GROUP BY l ORDER BY l",
    "SELECT m, count(), sum(w) FROM t GROUP BY m ORDER BY m",
    "SELECT s, uniqExact(k), arraySort(groupUniqArray(e)) FROM t WHERE s LIKE '%3%' GROUP BY s ORDER BY s",
    "SELECT d, count() FROM t GROUP BY d ORDER BY d",
    "SELECT x, e, count() FROM t WHERE k % 2 = 0 GROUP BY x, e ORDER BY x, e",
    "SELECT arraySort(groupArray(j)), sum(length(a)), sum(length(g)), max(p), sum(h['a']) FROM t",
    "SELECT count() FROM t WHERE v = toIPv4('10.0.0.1') AND z = toIPv6('::1') AND b",
    "SELECT k FROM t WHERE i < 0 ORDER BY k LIMIT 5",
    "SELECT k + 1, l, concat(s, l) FROM t WHERE n IS NULL ORDER BY k",
    "SELECT l, toString(d), count() FROM t WHERE d > 3 GROUP BY 1, 2 ORDER BY 1, 2",
)


@pytest.fixture(params=one_in(3, ["", "ALTER TABLE t ADD COLUMN o Int32 DEFAULT i", "DELETE FROM t WHERE k % 10 = 3"]))
def filled(request: pytest.FixtureRequest, local: Local) -> Local:
    """Small parts, perhaps some that lack a column, or rows."""
    local.run(
        f"CREATE TABLE t ({_COLUMNS}) ENGINE = MergeTree ORDER BY k "
        "SETTINGS max_bytes_to_merge_at_max_space_in_pool = 1"
    )
    for part in range(_PARTS):
        if part == _PARTS // 2 and request.param:
            local.run(request.param)
        first, columns = part * _ROWS, "* EXCEPT o" if "COLUMN o" in request.param and part >= _PARTS // 2 else "*"
        local.run(f"INSERT INTO t ({columns}) SELECT {_VALUES} FROM numbers({first}, {_ROWS})")
    return local


@pytest.mark.long
def test_answers_are_those_of_one_part(filled: Local) -> None:
    assert filled.value("SELECT count() FROM system.parts WHERE active") == _PARTS
    found = [filled.run(sql) for sql in _QUERIES]
    read = [filled.run(f"{sql} SETTINGS max_threads = 1") for sql in _QUERIES]
    assert read == found
    filled.run("OPTIMIZE TABLE t FINAL")
    assert filled.value("SELECT count() FROM system.parts WHERE active") == 1
    for sql, answer in zip(_QUERIES, found, strict=True):
        assert filled.run(sql) == answer, sql


def test_rows_of_small_parts_are_one_batch(local: Local) -> None:
    local.run(
        "CREATE TABLE t (k UInt64, s String) ENGINE = MergeTree ORDER BY k "
        "SETTINGS max_bytes_to_merge_at_max_space_in_pool = 1"
    )
    for part in range(20):
        local.run(f"INSERT INTO t SELECT number + {part}, 'x' FROM numbers(5)")
    with local.engine.catalog.table("default", "t").store.snapshot() as snapshot:
        parts = [PrunedPart(part) for part in snapshot.parts]
        small = SmallParts(parts, ["s", "k"])
        assert all(small.take(pruned, pruned.find_needed_rows(["s", "k"])) for pruned in parts)
        (texts, numbers), rows = small.take_batch()
        assert small.is_empty
        assert not SmallParts(parts[:3], ["k"]).take(parts[0], parts[0].find_needed_rows(["k"]))
    assert (rows, len(texts), numbers.to_pylist()[:7]) == (100, 100, [0, 1, 2, 3, 4, 1, 2])
