"""Pruning never loses a row, and does prune."""

from __future__ import annotations

import datetime
import decimal
from collections import Counter
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sql.pruning.pruned_parts import _subtract_ranges
from sql.run.block_expressions import compile_expressions
from sql.run.condition_analysis import analyse_condition
from sql.run.query_engine import QueryEngine
from tests.portions import one_in
from tests.sql.run.dataset import MemoryCatalog, MemoryRelation
from tests.sql.run.part_tables import PartTable, describe

COLUMNS = (
    "d Date, t DateTime, a Int32, u UInt8, s String, n Nullable(Int32), f Float64, c LowCardinality(String), "
    "m Decimal(9, 2)"
)
KEYS = [
    ("(a, d, s)", "toYYYYMM(d)"),
    ("(s, a)", "u % 3"),
    ("(toStartOfHour(t), intHash32(a), d)", "toDate(t)"),
    ("(c, n, f)", "(c, toYear(d))"),
    ("(m, intDiv(a, 10), u)", ""),
    ("t", "intDiv(u, 50)"),
    ("(f, a)", "a"),
    ("(-a, toYYYYMM(t))", "s"),
]


def _block(rows: int, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    days = rng.integers(18262, 18262 + 70, rows).astype(np.int32)
    numbers = rng.integers(-8, 8, rows).astype(np.int32)
    floats = rng.integers(-4, 5, rows) / 2.0
    floats[rng.random(rows) < 0.1] = np.nan
    return pa.table(
        {
            "d": pa.array(days).cast(pa.date32()),
            "t": pa.array(days.astype(np.int64) * 86400 + rng.integers(0, 86400, rows), pa.timestamp("s")),
            "a": pa.array(numbers),
            "u": pa.array(rng.integers(0, 256, rows), pa.uint8()),
            "s": pa.array([f"s{value}" for value in rng.integers(0, 12, rows)]),
            "n": pa.array(numbers, mask=rng.random(rows) < 0.2),
            "f": pa.array(floats),
            "c": pa.array([f"c{value}" for value in rng.integers(0, 4, rows)]).dictionary_encode(),
            "m": pa.array([None] * 0, pa.decimal128(9, 2))
            if not rows
            else pa.array(numbers).cast(pa.decimal128(12, 2)).cast(pa.decimal128(9, 2)),
        }
    )


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> list[PartTable]:
    result = []
    for number, (order_by, partition_by) in enumerate(KEYS):
        table = describe(COLUMNS, order_by, partition_by, granularity=4)
        for seed in range(2):
            block = _block(150, seed + number * 10)
            table.insert(tmp_path_factory.mktemp("parts"), block.cast(table.description.schema.arrow))
        result.append(table)
    return result


_DAYS = st.integers(18255, 18340).map(
    lambda day: (datetime.date(1970, 1, 1) + datetime.timedelta(days=day)).isoformat()
)
_OPERATORS = st.sampled_from(["=", "!=", "<", "<=", ">", ">="])
_NUMBERS = st.integers(-12, 12)
_TERMS = st.one_of(
    st.builds(lambda o, v: f"a {o} {v}", _OPERATORS, _NUMBERS),
    st.builds(lambda o, v: f"{v} {o} a", _OPERATORS, _NUMBERS),
    st.builds(lambda o, v: f"u {o} {v}", _OPERATORS, st.integers(-5, 300)),
    st.builds(lambda o, v: f"n {o} {v}", _OPERATORS, _NUMBERS),
    st.builds(lambda o, v: f"f {o} {v / 2}", _OPERATORS, _NUMBERS),
    st.builds(lambda o, v: f"m {o} {v}", _OPERATORS, _NUMBERS),
    st.builds(lambda o, v: f"d {o} '{v}'", _OPERATORS, _DAYS),
    st.builds(lambda o, v: f"t {o} '{v} 12:34:56'", _OPERATORS, _DAYS),
    st.builds(lambda o, v: f"t {o} toDate('{v}')", _OPERATORS, _DAYS),
    st.builds(lambda o, v: f"t {o} {v * 86400 + 45296}", _OPERATORS, st.integers(18255, 18340)),
    st.builds(lambda o, v: f"s {o} 's{v}'", _OPERATORS, st.integers(0, 13)),
    st.builds(lambda o, v: f"c {o} 'c{v}'", _OPERATORS, st.integers(0, 5)),
    st.builds(lambda o, v: f"toYYYYMM(d) {o} {v}", _OPERATORS, st.integers(201912, 202004)),
    st.builds(lambda o, v: f"toDate(t) {o} '{v}'", _OPERATORS, _DAYS),
    st.builds(lambda o, v: f"toStartOfMonth(t) {o} '{v}'", _OPERATORS, _DAYS),
    st.builds(lambda o, v: f"toStartOfHour(t) {o} '{v} 05:00:00'", _OPERATORS, _DAYS),
    st.builds(lambda o, v: f"intDiv(a, 10) {o} {v}", _OPERATORS, _NUMBERS),
    st.builds(lambda o, v: f"-a {o} {v}", _OPERATORS, _NUMBERS),
    st.builds(lambda o, v: f"toDayOfWeek(toDate(t)) {o} {v}", _OPERATORS, st.integers(0, 8)),
    st.builds(lambda o, v: f"(u % 3) * a {o} {v}", _OPERATORS, _NUMBERS),
    st.builds(lambda o, v: f"abs(a) {o} {v}", _OPERATORS, _NUMBERS),
    st.builds(lambda v: f"s LIKE 's{v}%'", st.integers(0, 13)),
    st.builds(lambda v: f"s NOT LIKE 's{v}%'", st.integers(0, 13)),
    st.builds(lambda v: f"startsWith(s, 's{v}')", st.integers(0, 3)),
    st.builds(lambda v: f"a IN ({', '.join(map(str, v))})", st.lists(_NUMBERS, min_size=1, max_size=4)),
    st.builds(lambda no, v, w: f"a {no} IN range({v}, {w})", st.sampled_from(["", "NOT"]), _NUMBERS, _NUMBERS),
    st.builds(lambda v: f"a NOT IN ({', '.join(map(str, v))})", st.lists(_NUMBERS, min_size=1, max_size=4)),
    st.builds(lambda no, v: f"a {no} IN ({v}, NULL)", st.sampled_from(["", "NOT"]), _NUMBERS),
    st.builds(lambda no, v: f"n {no} IN ({v}, NULL)", st.sampled_from(["", "NOT"]), _NUMBERS),
    st.builds(lambda v, w: f"(a, s) IN (({v}, 's1'), ({w}, 's2'))", _NUMBERS, _NUMBERS),
    st.sampled_from(["n IS NULL", "n IS NOT NULL", "isNaN(f)", "1", "0", "u % 3 = 1", "length(s) = 2", "u % 3 = 300"]),
)
_CONDITIONS = st.recursive(
    _TERMS,
    lambda inner: st.one_of(
        st.builds(lambda a, b: f"({a} AND {b})", inner, inner),
        st.builds(lambda a, b: f"({a} OR {b})", inner, inner),
        st.builds(lambda a: f"NOT ({a})", inner),
    ),
    max_leaves=6,
)


@pytest.mark.long
@settings(max_examples=20, deadline=None)
@given(
    condition=_CONDITIONS,
    number=st.integers(0, len(KEYS) - 1),
    gap_rows=st.sampled_from([0, 5, 4096]),
    limit=st.integers(0, 40),
)
def test_no_row_is_lost(tables: list[PartTable], condition: str, number: int, gap_rows: int, limit: int) -> None:
    table = tables[number]
    schema = table.description.schema
    (compiled,) = compile_expressions([f"({condition}) = 1"], schema)

    def matching(block: pa.Table) -> int:
        return sum(1 for value in compiled.evaluate(block).to_pylist() if value)

    columns = list(schema.names)
    everything = [batch for part in table.parts for batch in part.read(columns)]
    kept = analyse_condition(condition, table.description).prune(table.parts)
    chosen = [batch for pruned in kept for batch in pruned.part.read(columns, pruned.ranges)]
    wanted = matching(pa.Table.from_batches(everything, schema.arrow))
    assert matching(pa.Table.from_batches(chosen, schema.arrow)) == wanted
    query = f"SELECT count() FROM t WHERE {condition}"
    result = QueryEngine().select(query, catalog=MemoryCatalog({"t": table})).read_all()
    assert result.column(0)[0].as_py() == wanted
    for pruned in kept:  # a certain granule has no other rows, and is not read for count()
        certain = pruned.part.read(columns, _subtract_ranges(pruned.all_ranges, pruned.uncertain_ranges))
        rows = pa.Table.from_batches(certain, schema.arrow)
        if pruned.is_whole:
            assert matching(rows) == rows.num_rows == pruned.certain_rows
    with patch("sql.pruning.pruned_parts._JOIN_GAP_ROWS", gap_rows):
        needed = [
            batch for pruned in kept for batch in pruned.part.read_rows(columns, pruned.find_needed_rows(columns))
        ]
        assert matching(pa.Table.from_batches(needed, schema.arrow)) == wanted
        query = f"SELECT * FROM t WHERE {condition}"
        rows = QueryEngine().select(query, catalog=MemoryCatalog({"t": table})).read_all()
        block = pa.Table.from_batches(everything, schema.arrow)
        mask = pa.array([bool(value) for value in compiled.evaluate(block).to_pylist()])
        assert _rows(rows) == _rows(block.filter(mask))
        query = f"SELECT s, a, f, s AS again FROM t PREWHERE {condition} LIMIT {limit}"
        few = QueryEngine().select(query, catalog=MemoryCatalog({"t": table})).read_all()
        assert few.num_rows == min(limit, wanted)
        columns = ["s", "a", "f", "s"]
        assert not Counter(_rows(few)) - Counter(_rows(block.filter(mask).select(columns)))


def _rows(table: pa.Table) -> list[str]:
    """In any order, told apart by their text: NaN is not equal to itself."""
    return sorted(repr(row) for row in zip(*(column.to_pylist() for column in table.columns), strict=True))


@pytest.mark.long
def test_only_rows_that_can_match_are_decoded(tables: list[PartTable]) -> None:
    table = tables[0]
    columns = list(table.description.schema.names)
    kept = analyse_condition("a >= -3 AND a <= 2 AND d != '2020-01-05'", table.description).prune(table.parts)
    assert kept
    with patch("sql.pruning.pruned_parts._JOIN_GAP_ROWS", 0):
        needed = [(pruned, pruned.find_needed_rows(columns)) for pruned in kept]
    assert 0 < sum(item.rows for _, rows in needed for item in rows) < sum(pruned.rows for pruned in kept)
    for pruned, rows in needed:
        for batch in pruned.part.read_rows(["a"], rows):
            assert all(-3 <= value <= 2 for value in batch.column(0).to_pylist())


@pytest.mark.long
def test_the_key_alone_is_not_read_twice(tables: list[PartTable]) -> None:
    (pruned, *_) = analyse_condition("a = 3", tables[0].description).prune(tables[0].parts)
    assert sum(item.rows for item in pruned.find_needed_rows(["a"])) == pruned.rows


@pytest.mark.parametrize(
    ("where", "reads_nothing"),
    one_in(5, [
        ("", True), ("WHERE 1", True), ("WHERE a >= -8", True), ("WHERE a > -100 AND a < 100", True),
        ("WHERE toYYYYMM(d) >= 201912", True), ("WHERE 0", True), ("WHERE a < 0", False), ("WHERE u < 1000", False),
        ("WHERE a >= -8 AND u % 2 = 0", False), ("PREWHERE a > 3 WHERE d > '2020-01-20'", False),
    ]),
)  # fmt: skip
def test_count_needs_no_data_of_whole_granules(tables: list[PartTable], where: str, reads_nothing: bool) -> None:
    """Counted from the index and the numbers of rows of the granules."""
    catalog = MemoryCatalog({"t": tables[0]})
    shown = QueryEngine().select(f"SELECT a, d, u FROM t {where}", catalog=catalog).read_all().num_rows
    for text, name in (("count()", "count()"), ("count(*)", "count()"), ("COUNT(1) AS rows", "rows")):
        result = QueryEngine().select(f"SELECT {text} FROM t {where}", catalog=catalog)
        assert result.read_all().column(0).to_pylist() == [shown]
        assert (result.statistics.read_rows == 0) == reads_nothing
        assert result.columns[0][0] == name


@pytest.mark.parametrize(
    "query",
    [
        "SELECT count() FROM t LIMIT 0", "SELECT count() FROM t HAVING count() > 1000", "SELECT count() + 1 FROM t",
        "SELECT count() FROM t GROUP BY a > 100", "SELECT count(n) FROM t", "SELECT count(NULL) FROM t",
        "SELECT DISTINCT count() FROM t", "SELECT count() OVER () FROM t LIMIT 1", "SELECT count(DISTINCT a) FROM t",
        "SELECT count() FROM t, t AS u WHERE t.a = 3 AND u.a = 3", "SELECT count() FROM (SELECT a FROM t LIMIT 7)",
    ],
)  # fmt: skip
def test_other_counts_are_computed(tables: list[PartTable], query: str) -> None:
    """They give what they give on the same rows without an index."""
    rows = QueryEngine().select("SELECT * FROM t", catalog=MemoryCatalog({"t": tables[0]})).read_all()
    plain = MemoryCatalog({"t": MemoryRelation(tables[0].description.schema, rows)})
    found = QueryEngine().select(query, catalog=MemoryCatalog({"t": tables[0]})).read_all()
    assert found.equals(QueryEngine().select(query, catalog=plain).read_all())


@pytest.mark.parametrize("key", one_in(3, ["ifNull(n, 0)", "assumeNotNull(n)", "isNull(n)", "ifNull(c, '')"]))
@pytest.mark.parametrize("as_partition", [False, True])
@pytest.mark.parametrize(
    ("condition", "wanted"),
    [
        ("n != 5", [1, 2]), ("NOT (n = 5)", [1, 2]), ("n NOT IN (5, 6)", [1, 2]), ("NOT (n = 5 OR n > 7)", [1, 2]),
        ("n < 5", [1, 2]), ("n = 0", []), ("c != 'x'", [1, 2]), ("c NOT LIKE 'x%'", [1, 2]),
        ("n IS NULL", [None, None]),
    ],
)  # fmt: skip
def test_null_is_neither_true_nor_false(
    tmp_path: Path, key: str, as_partition: bool, condition: str, wanted: list[int | None]
) -> None:
    """The key is not NULL where the column is: what the key shows for sure of a row need not hold."""
    columns = "n Nullable(Int32), c LowCardinality(Nullable(String))"
    table = describe(columns, "" if as_partition else key, key if as_partition else "", granularity=2)
    block = pa.table({"n": pa.array([None, 1, 2, None]), "c": pa.array([None, "a", "b", None]).dictionary_encode()})
    table.insert(tmp_path, block.cast(table.description.schema.arrow))
    catalog = MemoryCatalog({"t": table})
    count = QueryEngine().select(f"SELECT count() FROM t WHERE {condition}", catalog=catalog).read_all()
    rows = QueryEngine().select(f"SELECT n FROM t WHERE {condition} ORDER BY n", catalog=catalog).read_all()
    assert count.column(0).to_pylist() == [len(wanted)]
    assert rows.column(0).to_pylist() == wanted


_NANOSECONDS = [1_577_836_800_123_456_789 + step for step in range(3)]


@pytest.mark.parametrize("partition_by", one_in(3, ["", "toYYYYMM(t)", "t"]))
@pytest.mark.parametrize(
    ("condition", "wanted"),
    [
        ("t >= '2020-01-01 00:00:00.123456790'", [1, 2]), ("t = '2020-01-01 00:00:00.123456789'", [0]),
        ("t < toDateTime64('2020-01-01 00:00:00.123456791', 9, 'UTC')", [0, 1]), ("t > '2020-01-01'", [0, 1, 2]),
        ("t IN ('2020-01-01 00:00:00.123456790', '2020-01-01 00:00:00.5')", [1]),
        pytest.param(
            "t IN (" + ", ".join(f"'2020-01-01 00:00:00.123456{n:03}'" for n in range(490, 791)) + ")", [0, 1],
            marks=pytest.mark.long,
        ),
        ("toYYYYMM(t) = 202001", [0, 1, 2]),
    ],
)  # fmt: skip
def test_a_key_has_its_nanoseconds(tmp_path: Path, partition_by: str, condition: str, wanted: list[int]) -> None:
    table = describe("t DateTime64(9, 'UTC'), k UInt8", "t", partition_by, granularity=1)
    times = pa.array(_NANOSECONDS).cast(table.description.schema.arrow.field("t").type)
    table.insert(tmp_path, pa.table({"t": times, "k": pa.array([0, 1, 2], pa.uint8())}))
    catalog = MemoryCatalog({"t": table})
    rows = QueryEngine().select(f"SELECT k FROM t WHERE {condition} ORDER BY k", catalog=catalog).read_all()
    count = QueryEngine().select(f"SELECT count() FROM t WHERE {condition}", catalog=catalog).read_all()
    assert rows.column(0).to_pylist() == wanted
    assert count.column(0).to_pylist() == [len(wanted)]
    QueryEngine().explain(f"SELECT * FROM t WHERE {condition}", "", {"indexes": 1}, catalog=catalog).read_all()


@pytest.mark.parametrize(
    ("condition", "wanted"),
    [
        ("m > toDecimal128('12345678901234567890', 10)", 1), ("m = toDecimal128('12345678901234567891.5', 10)", 1),
        ("m < 12345678901234567890", 1), ("m < 99999999999999999999999999999999999999", 2), ("m = 1", 1),
    ],
)  # fmt: skip
def test_a_key_of_many_digits(tmp_path: Path, condition: str, wanted: int) -> None:
    table = describe("m Decimal(38, 10)", "m", granularity=1)
    numbers = [decimal.Decimal(1), decimal.Decimal("12345678901234567891.5")]
    table.insert(tmp_path, pa.table({"m": pa.array(numbers, pa.decimal128(38, 10))}))
    query = f"SELECT count() FROM t WHERE {condition}"
    result = QueryEngine().select(query, catalog=MemoryCatalog({"t": table})).read_all()
    assert result.column(0).to_pylist() == [wanted]


def test_in_finds_nan(tmp_path: Path) -> None:
    """The last granule is from infinity to NaN."""
    table = describe("f Float64", "f", granularity=2)
    table.insert(tmp_path, pa.table({"f": [1.0, 5.0, float("inf"), float("nan")]}))
    for query, wanted in (("f IN (nan)", 1), ("f IN (1, nan)", 2), ("f = nan", 0), ("f NOT IN (nan)", 3)):
        result = QueryEngine().select(f"SELECT f FROM t WHERE {query}", catalog=MemoryCatalog({"t": table})).read_all()
        assert result.num_rows == wanted


@pytest.mark.parametrize(
    ("number", "condition", "at_most"),
    [
        (0, "d = '2020-01-05'", 0.4), (0, "toYYYYMM(d) = 202002 AND a = 3", 0.1), (0, "a = 3", 0.25),
        (0, "a IN (3, 5)", 0.4), (0, "a IN (3, NULL)", 0.25), (0, "a IN range(3, 5)", 0.4),
        (2, "toTimeZone(t, 'Asia/Tokyo') < '2020-01-02 09:00:00'", 0.1),
        (1, "s LIKE 's1%'", 0.5), (1, "s = 's1' AND a > 3", 0.35),
        (2, "t >= '2020-01-10 00:00:00' AND t < '2020-01-11 00:00:00'", 0.1),
        (2, "toStartOfHour(t) < '2020-01-10 05:00:00'", 0.3),
        (3, "c = 'c1'", 0.3), (4, "m = 3", 0.3), (5, "toDate(t) = '2020-01-20'", 0.4),
        (1, "(u % 3) * 2 + 1 = 3", 0.4), (2, "toDayOfWeek(toDate(t)) = 3", 0.2), (6, "abs(a) = 3", 0.2),
        (5, "t >= 1583366400", 0.3), (5, "1578268800 > t", 0.3), (7, "a = 3 AND s = 's1'", 0.2),
    ],
)  # fmt: skip
def test_it_prunes(tables: list[PartTable], number: int, condition: str, at_most: float) -> None:
    table = tables[number]
    marks = sum(part.marks for part in table.parts)
    kept = sum(pruned.marks for pruned in analyse_condition(condition, table.description).prune(table.parts))
    assert kept <= marks * at_most


def test_explain_shows_what_was_chosen(tables: list[PartTable]) -> None:
    result = QueryEngine().explain(
        "SELECT count() FROM t WHERE d = '2020-01-05' AND a = 3",
        "",
        {"indexes": 1},
        catalog=MemoryCatalog({"t": tables[0]}),
    )
    lines = [line.strip() for line in result.read_all().column("explain").to_pylist()]
    assert "ReadFromMergeTree (default.t)" in lines
    assert [line for line in lines if line in ("MinMax", "Partition", "PrimaryKey")] == [
        "MinMax",
        "Partition",
        "PrimaryKey",
    ]
    assert "Parts: 2/6" in lines


def test_a_corrupt_part_is_named(tmp_path: Path) -> None:
    from parts.common.errors import CorruptionError

    table = describe("a UInt32, s String", "a", granularity=8192)
    block = pa.table(
        {"a": pa.array(np.arange(50_000, dtype=np.uint32)), "s": pa.array([str(i) for i in range(50_000)])}
    )
    table.insert(tmp_path, block.cast(table.description.schema.arrow))
    data = max((path for path in (tmp_path / str(table.parts[0].name)).iterdir()), key=lambda path: path.stat().st_size)
    raw = bytearray(data.read_bytes())
    raw[len(raw) // 2] ^= 0xFF
    data.write_bytes(raw)
    result = QueryEngine().select("SELECT sum(length(s)), sum(a) FROM t", catalog=MemoryCatalog({"t": table}))
    with pytest.raises(CorruptionError) as caught:
        result.read_all()
    assert caught.value.code == 40
    assert caught.value.part == str(table.parts[0].name)
    assert caught.value.directory == table.parts[0].path
    assert all(snapshot.released for snapshot in table.snapshots)
