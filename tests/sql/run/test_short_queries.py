"""A short query's answer is the one that any other way gives; what is not short is not answered."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from parts.common.errors import CorruptionError
from sql.grammar.statement_parser import parse_statement
from sql.grammar.statements.statement import SelectQuery
from sql.run.query_engine import QueryEngine
from sql.run.short_queries.short_plans import ShortResult
from sql.run.short_queries.short_query_cache import ShortQueryCache
from sql.run.short_queries.statement_shapes import find_shape
from sql.settings.supported_settings import DEFAULT_SETTINGS
from tests.portions import one_in
from tests.sql.run.dataset import MemoryCatalog
from tests.sql.run.part_tables import PartTable, describe

_ROWS = 1000
# Sums of q and g are the same in any order.
_FLOATS = (math.nan, math.inf, -math.inf, 0.0, -0.0, 1e308, -1e308, 5e-324, *(number / 3 for number in range(8)))
_COLUMNS = "k Int32, s String, c LowCardinality(Nullable(String)), d Date, n Nullable(Int8), u UInt8, f Float64, "
_COLUMNS += "g Float32, q Float64, b UInt64, e Enum8('x' = 3, 'y' = -2, 'z' = 7), at DateTime, w LowCardinality(String)"


def _table(directory: Path, order_by: str, granularity: int = 64, partition_by: str = "") -> PartTable:
    table = describe(_COLUMNS, order_by, partition_by, granularity=granularity)
    for odd in (0, 1):
        keys = range(odd, _ROWS, 2)
        columns = {
            "k": pa.array(keys, pa.int32()),
            "s": pa.array([f"s{key % 50}" for key in keys]),
            "c": pa.array([None if key % 3 else f"c{key % 5}" for key in keys]).dictionary_encode(),
            "d": pa.array([18_000 + key // 10 for key in keys], pa.int32()).cast(pa.date32()),
            "n": pa.array([key % 7 or None for key in keys], pa.int8()),
            "u": pa.array([key % 200 for key in keys], pa.uint8()),
            "f": pa.array([_FLOATS[key % 16] if key % 3 == 0 else key / 7 for key in keys]),
            "g": pa.array([(key % 31 - 15) / 8 for key in keys], pa.float32()),
            "q": pa.array([(key % 97 - 40) / 16 for key in keys]),
            "b": pa.array([2**63 + key * 2**40 for key in keys], pa.uint64()),
            "e": pa.array([(3, -2, 7)[key % 3] for key in keys], pa.int8()),
            "at": pa.array([1_600_000_000 + key % 77 for key in keys], pa.timestamp("s")),
            "w": pa.array([f"w{key % 30}" for key in keys]).dictionary_encode(),
        }
        table.insert(directory, pa.table(columns).cast(table.description.schema.arrow))
    return table


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> MemoryCatalog:
    keys = {"t": "k", "by_text": "(s, k)", "by_day": "(d, u, k)", "by_null": "(n, k)", "by_code": "(c, k)", "by_u": "u"}
    keys |= {"by_word": "(w, k)", "by_time": "(at, k)", "by_made": "(k, toYYYYMM(d), u % 5)", "unsorted": "tuple()"}
    tables = {name: _table(tmp_path_factory.mktemp(name), key) for name, key in keys.items()}
    by_month = _table(tmp_path_factory.mktemp("by_month"), "k", partition_by="toYYYYMM(d)")
    return MemoryCatalog({**tables, "by_month": by_month})


@pytest.fixture
def short() -> ShortQueryCache:
    return ShortQueryCache(QueryEngine())


def _consider(short: ShortQueryCache, text: str, catalog: MemoryCatalog) -> None:
    short.learn(text, parse_statement(text), DEFAULT_SETTINGS, "default", catalog)


def _answer(short: ShortQueryCache, text: str, catalog: MemoryCatalog) -> ShortResult | None:
    return short.answer(text, DEFAULT_SETTINGS, "default", catalog)


def _rows(found: ShortResult) -> list[dict[str, object]]:
    return [row for batch in found.batches for row in batch.to_pylist()]


def _expected(text: str, catalog: MemoryCatalog) -> pa.Table:
    statement = parse_statement(text).statement
    assert isinstance(statement, SelectQuery)
    # Through DuckDB, whose answer depends on nothing that is tested here.
    with patch("sql.run.query_engine.find_rows", return_value=None):
        return QueryEngine().select(statement.query, catalog=catalog).read_all()


_SHAPES = [
    ("SELECT * FROM t WHERE k = {0}", True),
    ("SELECT s, k AS x, s FROM t WHERE k >= {0} AND {1} > k FORMAT JSON", True),
    ("SELECT k, n, c, d FROM t WHERE k BETWEEN {0} AND {1}", True),
    ("SELECT k FROM t PREWHERE k > {0} WHERE k < {1} LIMIT 3", True),
    ("SELECT count(), sum(u), min(d), max(k), sum(k) FROM t WHERE k > {0} AND k <= {1}", True),
    ("SELECT count() FROM t WHERE k > {0} AND k <= {1}", True),
    ("SELECT sum(q), avg(g), sum(g), avg(k), avg(u), avg(q) FROM t WHERE k > {0} AND k <= {1}", True),
    (
        "SELECT sum(b), max(at), min(s), any(k), max(f), min(f), min(at), avg(f), sum(f) FROM t WHERE k = {0}",
        True,
    ),
    ("SELECT max(f), min(f), max(g), min(g), sum(b), max(s), max(at) FROM t WHERE k > {0} AND k <= {1}", True),
    ("SELECT any(k), any(s) AS x, count(*) FROM by_u WHERE u = {0}", True),
    ("SELECT k, s FROM t WHERE k >= {0} AND k < {1} ORDER BY k", True),
    ("SELECT s, c FROM t WHERE k BETWEEN {0} AND {1} ORDER BY d DESC, u, k DESC", True),
    ("SELECT d AS k, s FROM t WHERE u < 100 AND u > {0} ORDER BY k, s", True),
    ("SELECT k AS x FROM t WHERE k > {0} ORDER BY x DESC LIMIT 5", True),
    ("SELECT k FROM t WHERE k > -{0} AND k<1.5 ORDER BY k", True),
    ("SELECT k, q FROM t WHERE q >= -{3}.25 AND q < {0}.{3}5 AND f > -{3} AND f <= {1}.0 ORDER BY k LIMIT 9", True),
    ("SELECT k, g FROM t WHERE g > 1.5 AND k >= {0} ORDER BY k LIMIT 9", True),
    ("SELECT k FROM t WHERE k IN (-1, {0}, {1}) AND q IN (0, 1.5) ORDER BY k", True),
    ("SELECT k, n FROM t WHERE n >= {3} AND n < {0} ORDER BY k", True),
    ("SELECT k, n, c FROM t WHERE n IN (1, {3}) AND c = 'c{3}' ORDER BY k", True),
    ("SELECT sum(n), count() FROM by_null WHERE k <= {0} AND n > 3", True),
    ("SELECT k, e FROM t WHERE e = 'x' AND k > {0} ORDER BY k", True),
    ("SELECT k, e FROM t WHERE e IN ('z', 'y') AND k > {0} ORDER BY k LIMIT 6", True),
    ("SELECT k, e FROM t WHERE e = 'w' AND k > {0}", False),
    ("SELECT s, k FROM t WHERE k BETWEEN {0} AND {1} ORDER BY 1 DESC, 2 LIMIT 10 OFFSET 3", True),
    ("SELECT f, k FROM t WHERE k BETWEEN {0} AND {1} ORDER BY f, k LIMIT 30", True),
    ("SELECT f, k FROM t WHERE k BETWEEN {0} AND {1} ORDER BY f DESC, g DESC, k LIMIT 3, 30", True),
    ("SELECT e, at, k FROM t WHERE k BETWEEN {0} AND {1} ORDER BY e, at DESC, k", True),
    ("SELECT u, s FROM t WHERE k < {0} ORDER BY ALL", True),
    ("SELECT k FROM t WHERE k < {0} LIMIT 4 OFFSET 2", True),
    ("SELECT k, d FROM by_day WHERE d = '{2}' AND u = {0}", True),
    ("SELECT k, d FROM by_day WHERE d >= '{2}' AND u < {0} AND k > {1}", True),
    ("SELECT k, s FROM by_text WHERE s = 's{0}' AND k >= {1}", True),
    ("SELECT count(), max(k) FROM by_text WHERE s > 's{0}' AND s < 's{1}'", True),
    ("SELECT * FROM by_u WHERE u = {0}", True),
    ("SELECT k FROM t WHERE k IN ({0}, {1})", True),
    ("SELECT k FROM t WHERE k = {0} OR k = {1}", True),
    ("SELECT k FROM t WHERE k < {0} ORDER BY k LIMIT {1}", True),
    ("SELECT k, s FROM t WHERE k >= {0} LIMIT 7, {1}", True),
    # What else is asked of the rows is computed.
    ("SELECT any(c), max(n), sum(n), max(e), count(c), min(n) FROM t WHERE k = {0}", True),
    ("SELECT k, n FROM t WHERE k < {0} ORDER BY n DESC, k", True),
    ("SELECT k, c FROM t WHERE k < {0} ORDER BY c NULLS FIRST, k", True),
    ("SELECT k FROM t WHERE k < {0} ORDER BY k LIMIT 2 WITH TIES", True),
    ("SELECT k FROM t WHERE k < {0} ORDER BY k % 10, k DESC LIMIT 5", True),
    ("SELECT k AND 1 AS x, {0} AS y, 'z' FROM t WHERE k = {0}", True),
    ("SELECT k + {0}, upper(s) FROM t WHERE k = {1}", True),
    ("SELECT k + 1, k * f, toYear(d), at, g, b, e, c, n FROM t WHERE k >= {0} AND k < {1}", True),
    ("SELECT d, count(), sum(q), avg(n) FROM t WHERE k BETWEEN {0} AND {1} GROUP BY d ORDER BY d", True),
    ("SELECT c, count() AS n1 FROM t WHERE k > {0} GROUP BY c HAVING n1 > 2 ORDER BY n1 DESC, c LIMIT 3", True),
    ("SELECT DISTINCT u FROM t WHERE k BETWEEN {0} AND {1} ORDER BY u", True),
    ("SELECT 1 FROM t WHERE k = {0}", True),
    ("SELECT k FROM t WHERE k = {0} AND 1", True),
    ("SELECT k FROM t WHERE k > {0} AND s LIKE '%7' ORDER BY k", True),
    ("SELECT k FROM t WHERE k > {0} AND n IS NULL AND c = 'c1'", True),
    ("SELECT k, s FROM t WHERE k >= {0} AND u > 3 AND f + 1 > 5 ORDER BY k", True),
    # Conditions on other columns are parameters too.
    ("SELECT k FROM t WHERE k = {0} AND u = {1}", True),
    ("SELECT k, s, u FROM t WHERE k >= {0} AND s = 's{1}' AND u < {1} AND u != 4", True),
    ("SELECT count(), sum(q) FROM t WHERE u > {0} AND d >= '{2}'", True),
    ("SELECT k FROM t WHERE f < {0} AND g >= {1} ORDER BY k LIMIT 20", True),
    ("SELECT k FROM t WHERE u IN ({0}, {1}) AND s IN ('s{0}', 's1', 's2') AND k > 3 ORDER BY k", True),
    ("SELECT k, w FROM t WHERE w = 'w{0}' ORDER BY k", True),
    ("SELECT k FROM by_code WHERE w > 'w{0}' AND k = {1}", True),
    ("SELECT k, u FROM by_month WHERE d >= '{2}' AND k < {0}", True),
    ("SELECT k, u FROM by_month WHERE k = {0} ORDER BY u", True),
    ("SELECT k, u FROM unsorted WHERE k > {0} AND u = {1} ORDER BY k", True),
    ("SELECT k, d FROM by_made WHERE k > {0} AND d >= '{2}' AND u = {1}", True),
    ("SELECT count() FROM by_made WHERE d = '{2}' AND u < {1}", True),
    ("SELECT k, w FROM by_word WHERE w = 'w{0}' AND k = {1}", True),
    ("SELECT k, at FROM t WHERE at >= '{2} 12:26:40' AND at < '2020-09-13 12:27:1{3}' ORDER BY k LIMIT 20", True),
    ("SELECT k, at FROM by_time WHERE at = toDateTime('2020-09-13 12:27:1{3}') ORDER BY k", True),
    ("SELECT count() FROM by_time WHERE at > '2020-09-13 12:27:1{3}' AND k > {0}", True),
    ("SELECT k FROM by_day WHERE d >= toDate('{2}') AND d < '2019-04-1{3}' ORDER BY k", True),
    ("SELECT COUNT(*), SUM(u), Round(max(f), 1), countIf(u > 3) FROM t WHERE k < {0}", True),
    ("SELECT t.k, t.s FROM t WHERE t.k = {0} ORDER BY t.k", True),
    ("SELECT x.k, s FROM t AS x WHERE x.k = {0} AND u IN ({1})", True),
    ("SELECT k, toString(k), multiIf(u > 3, s, c), coalesce(n, u) FROM t WHERE k IN ({0}, {1}) ORDER BY k", True),
    ("SELECT k FROM t WHERE at = '{2}'", False),
    ("SELECT k FROM by_null WHERE n = {0}", False),
    ("SELECT k FROM t WHERE e < 'x' AND k = {0}", True),
    ("SELECT k FROM by_code WHERE c = 'c{0}'", False),
    ("SELECT k FROM t WHERE b = {0} OR k = {1}", False),
    ("SELECT k FROM t WHERE k + 1 = {0}", False),
    ("SELECT u AS k FROM t WHERE k = {0}", False),
    ("SELECT k FROM t WHERE k = ({0} AS x) AND x > 3", False),
    ("SELECT k, _part FROM t WHERE k = {0}", False),
    ("SELECT now() FROM t WHERE k = {0}", False),
]
_number = st.one_of(st.integers(-5, 1100), st.sampled_from([127, 128, 255, 256, 2**31, 10**12, 10**17]))
_digit = st.integers(0, 9)
_day = st.dates().map(str) | st.sampled_from(["2019-04-14", "2019-05-01", "2019-13-01", "soon", "2019-4-14"])


@pytest.mark.long
@example(("SELECT sum(f), avg(f), min(f), max(f) FROM t WHERE k = {0}", True), [(36, 0, "", 0)] * 3)  # -0.0
@example(
    ("SELECT k, s FROM t WHERE k >= {0} LIMIT 7, {1}", True), [(1000, 5, "", 0), (1000, 6, "", 0), (1000, -1, "", 0)]
)
@settings(max_examples=60, deadline=None)
@given(st.sampled_from(_SHAPES), st.lists(st.tuples(_number, _number, _day, _digit), min_size=3, max_size=4))
def test_the_answer_is_that_of_the_engine(
    tables: MemoryCatalog, shape: tuple[str, bool], literals: list[tuple[int, int, str, int]]
) -> None:
    template, _ = shape
    short = ShortQueryCache(QueryEngine())
    for given_literals in [*literals, *literals]:
        text = template.format(*given_literals)
        try:
            expected = _expected(text, tables)
        except Exception:
            assert _answer(short, text, tables) is None  # the error is told by who runs it
            continue
        found = _answer(short, text, tables)
        if found is not None:
            rows, others = list(map(repr, _rows(found))), list(map(repr, expected.to_pylist()))
            if "ORDER BY" in text:
                assert rows == others
            elif "LIMIT" not in text:
                assert sorted(rows) == sorted(others)
            assert len(_rows(found)) == expected.num_rows
            assert all(batch.schema == expected.schema for batch in found.batches)
            assert found.format == parse_statement(text).format
        _consider(short, text, tables)


@pytest.mark.parametrize(("template", "is_short"), one_in(2, _SHAPES))
def test_what_is_short_is_answered(
    tables: MemoryCatalog, short: ShortQueryCache, template: str, is_short: bool
) -> None:
    text = template.format(17, 19, "2019-04-14", 3)
    assert _answer(short, text, tables) is None
    for _ in range(2):
        _consider(short, text, tables)
    assert (_answer(short, text, tables) is not None) == is_short
    other = template.format(18, 20, "2019-04-15", 4)
    is_bound = is_short and " OR " not in template and "{0}" not in template.partition("FROM")[0]
    assert (_answer(short, other, tables) is not None) == is_bound


@pytest.mark.parametrize(
    ("text", "parameters", "is_short"),
    [
        ("SELECT s FROM t WHERE k = {a:UInt64}", {"a": "17"}, True),
        ("SELECT s FROM t WHERE k = {a:UInt64}", {"a": "99999"}, True),
        ("SELECT s FROM t WHERE k > {a:Int8} AND k<{b:Int64} LIMIT {c:UInt8}", {"a": "-5", "b": "9", "c": "99"}, True),
        ("SELECT s, {a:UInt64} FROM t WHERE k = {a:UInt64}", {"a": "17"}, False),
        ("SELECT k FROM t WHERE s = {a:String} AND d >= {b:Date} ORDER BY k", {"a": "s7", "b": "2019-04-20"}, True),
        ("SELECT k FROM t WHERE s = {a:String}", {"a": "it's"}, False),
        ("SELECT k FROM t WHERE s = {a:String}", {"a": "a\\tb"}, False),
        ("SELECT k FROM t WHERE e = {a:String} AND k < {b:Int32}", {"a": "y", "b": "9"}, True),
        ("SELECT k FROM t WHERE q >= {a:Float64} AND k < 9", {"a": "-1.5"}, True),
        ("SELECT k FROM t WHERE k >= {a:Float64} AND k < 9", {"a": "5"}, False),
        ("SELECT k FROM t WHERE at = {a:DateTime} ORDER BY k", {"a": "2020-09-13 12:26:45"}, True),
        ("SELECT k FROM t WHERE at = {a:Date}", {"a": "2020-09-13"}, False),
        ("SELECT k FROM t WHERE k IN ({a:UInt8}, 5)", {"a": "7"}, True),
        ("SELECT k FROM t WHERE k IN {a:Array(UInt8)}", {"a": "[7]"}, False),
        ("SELECT k FROM {a:Identifier} WHERE k = {b:UInt8}", {"a": "t", "b": "7"}, False),
        ("SELECT k FROM t WHERE k = 9 -{a:Int8}", {"a": "-7"}, False),
    ],
)  # fmt: skip
def test_parameters_are_literals_where_they_mean_the_same(
    tables: MemoryCatalog, short: ShortQueryCache, text: str, parameters: dict[str, str], is_short: bool
) -> None:
    statement = parse_statement(text)
    for _ in range(2):
        short.learn(text, statement, DEFAULT_SETTINGS, "default", tables, parameters)
    found = short.answer(text, DEFAULT_SETTINGS, "default", tables, parameters)
    assert (found is not None) == is_short
    if found is not None:
        assert isinstance(statement.statement, SelectQuery)
        expected = QueryEngine().select(statement.statement.query, catalog=tables, parameters=parameters).read_all()
        assert _rows(found) == expected.to_pylist()
        assert all(batch.schema == expected.schema for batch in found.batches)
    for wrong in ("", "x", "1e3", "300000000000000000000", "99999999999999999", "0x10"):
        given = dict.fromkeys(parameters, wrong)
        found = short.answer(text, DEFAULT_SETTINGS, "default", tables, given)
        if found is not None:
            assert isinstance(statement.statement, SelectQuery)
            expected = QueryEngine().select(statement.statement.query, catalog=tables, parameters=given).read_all()
            assert _rows(found) == expected.to_pylist()
    assert short.answer(text, DEFAULT_SETTINGS, "default", tables) is None
    assert short.answer(text, DEFAULT_SETTINGS, "default", tables, {"z": "1"}) is None


def test_a_query_without_tables_is_computed_once(tables: MemoryCatalog, short: ShortQueryCache) -> None:
    for text in ("SELECT 1", "SELECT 1 + 1 AS two, 'x' FORMAT CSV"):
        for _ in range(2):
            _consider(short, text, tables)
        found = _answer(short, text, tables)
        assert found is not None
        assert _rows(found) == _expected(text, tables).to_pylist()
    for text in ("SELECT now()", "SELECT rand()", "SELECT number FROM numbers(3)", "SELECT currentDatabase()"):
        for _ in range(2):
            _consider(short, text, tables)
        assert _answer(short, text, tables) is None


def test_another_table_of_the_name(tmp_path: Path, short: ShortQueryCache) -> None:
    (tmp_path / "a").mkdir()
    catalog = MemoryCatalog({"t": _table(tmp_path / "a", "k")})
    text = "SELECT * FROM t WHERE k = 4"
    for _ in range(2):
        _consider(short, text, catalog)
    assert _answer(short, text, catalog) is not None
    catalog.tables["t"] = table = describe("k UInt64, z String", "k")
    (tmp_path / "b").mkdir()
    block = pa.table({"k": [4], "z": ["new"]}).cast(table.description.schema.arrow)
    table.insert(tmp_path / "b", block)
    assert _answer(short, text, catalog) is None
    for _ in range(2):
        _consider(short, text, catalog)
    found = _answer(short, "SELECT * FROM t WHERE k = 4", catalog)
    assert found is not None
    assert _rows(found) == [{"k": 4, "z": "new"}]
    del catalog.tables["t"]
    assert _answer(short, text, catalog) is None


def test_other_settings_are_another_query(tables: MemoryCatalog, short: ShortQueryCache) -> None:
    for _ in range(2):
        _consider(short, "SELECT 1", tables)
    assert short.answer("SELECT 1", replace(DEFAULT_SETTINGS), "default", tables) is None
    assert short.answer("SELECT 1", DEFAULT_SETTINGS, "other", tables) is None


def test_snapshots_are_released_and_the_newest_parts_are_seen(tmp_path: Path, short: ShortQueryCache) -> None:
    catalog = MemoryCatalog({"t": (table := _table(tmp_path, "k"))})
    for _ in range(2):
        _consider(short, "SELECT k FROM t WHERE k > 990", catalog)
    table.snapshots.clear()
    found = _answer(short, "SELECT k FROM t WHERE k > 998", catalog)
    assert found is not None
    assert _rows(found) == [{"k": 999}]
    assert found.statistics.read_rows == _expected_read_rows("SELECT k FROM t WHERE k > 998", catalog)
    table.parts.pop()
    found = _answer(short, "SELECT k FROM t WHERE k > 997", catalog)
    assert found is not None
    assert _rows(found) == [{"k": 998}]
    assert _answer(short, "SELECT k FROM t WHERE k > 0", catalog) is not None
    assert all(snapshot.released for snapshot in table.snapshots)


def _expected_read_rows(text: str, catalog: MemoryCatalog) -> int:
    result = QueryEngine().select(text, catalog=catalog)
    result.read_all()
    return result.statistics.read_rows


def test_many_granules_are_not_short(tmp_path: Path, short: ShortQueryCache) -> None:
    catalog = MemoryCatalog({"t": (table := _table(tmp_path, "k", granularity=4))})
    for _ in range(2):
        _consider(short, "SELECT k FROM t WHERE k > 0", catalog)
    assert _answer(short, "SELECT k FROM t WHERE k > 0", catalog) is None
    assert _answer(short, "SELECT k FROM t WHERE k > 990", catalog) is not None
    assert all(snapshot.released for snapshot in table.snapshots)


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One for every time that a query was looked at."""
    looks: list[int] = []
    look_at = ShortQueryCache._examine
    monkeypatch.setattr(ShortQueryCache, "_examine", lambda *given: looks.append(1) or look_at(*given))
    return looks


def test_what_is_never_short_is_not_looked_at_for_ever(
    tmp_path: Path, short: ShortQueryCache, looks: list[int]
) -> None:
    catalog = MemoryCatalog({"t": _table(tmp_path, "k", granularity=4)})
    for number in range(80):
        text = f"SELECT k FROM t WHERE k > {number} AND s LIKE '%{number}'"
        assert _answer(short, text, catalog) is None
        _consider(short, text, catalog)
    assert 0 < len(looks) < 40


@pytest.mark.parametrize(
    "text",
    ["SELECT k FROM t WHERE k > 7", "SELECT s, count() FROM t GROUP BY s", "SELECT k FROM t JOIN t AS u USING k"],
)
def test_a_text_that_is_not_short_is_looked_at_once(
    tmp_path: Path, short: ShortQueryCache, looks: list[int], text: str
) -> None:
    (tmp_path / "a").mkdir()
    catalog = MemoryCatalog({"t": _table(tmp_path / "a", "k", granularity=4)})
    for _ in range(5):
        assert _answer(short, text, catalog) is None
        _consider(short, text, catalog)
    assert len(looks) == 1


def test_another_table_is_looked_at_again(tmp_path: Path, short: ShortQueryCache, looks: list[int]) -> None:
    text = "SELECT k FROM t WHERE k > 7"
    for name, granularity in (("a", 4), ("b", 64)):
        (tmp_path / name).mkdir()
        catalog = MemoryCatalog({"t": _table(tmp_path / name, "k", granularity=granularity)})
        for _ in range(3):
            answer = _answer(short, text, catalog)
            _consider(short, text, catalog)
        assert (answer is None) == (granularity == 4)
    assert len(looks) == 2


def test_any_number_of_rows_is_counted(tmp_path: Path, short: ShortQueryCache) -> None:
    table = describe("k Int32", "k", granularity=8192)
    table.insert(tmp_path, pa.table({"k": pa.array(range(70_000), pa.int32())}).cast(table.description.schema.arrow))
    catalog = MemoryCatalog({"t": table})
    for text, rows in (("SELECT count() FROM t", 70_000), ("SELECT count() FROM t WHERE k >= 17", 69_983)):
        for _ in range(2):
            _consider(short, text, catalog)
        found = _answer(short, text, catalog)
        assert found is not None
        assert _rows(found) == [{"count()": rows}]
    text = "SELECT 1 FROM t WHERE k >= 17"
    for _ in range(2):
        _consider(short, text, catalog)
    assert _answer(short, text, catalog) is None
    found = _answer(short, text.replace("17", "69999"), catalog)
    assert found is not None
    assert len(_rows(found)) == 1


def test_many_columns_are_not_short(tmp_path: Path, short: ShortQueryCache) -> None:
    table = describe("k Int32", "k")
    table.insert(tmp_path, pa.table({"k": [1]}).cast(table.description.schema.arrow))
    catalog = MemoryCatalog({"t": table})
    for columns, is_short in ((64, True), (65, False)):
        for text in (f"SELECT {', '.join(['k'] * columns)} FROM t WHERE k = 1", f"SELECT {', '.join('1' * columns)}"):
            for _ in range(2):
                _consider(short, text, catalog)
            assert (_answer(short, text, catalog) is not None) == is_short


def test_much_to_decode_is_not_short(tmp_path: Path, short: ShortQueryCache) -> None:
    table = describe("k Int32, s String", "k", granularity=4)
    rows = [(number, "x" * (9 << 20) if number > 1 else "") for number in range(3)]
    for number, text in rows:
        table.insert(tmp_path, pa.table({"k": [number], "s": [text]}).cast(table.description.schema.arrow))
    catalog = MemoryCatalog({"t": table})
    for _ in range(2):
        _consider(short, "SELECT * FROM t WHERE k = 0", catalog)
    assert _answer(short, "SELECT * FROM t WHERE k = 1", catalog) is not None
    assert _answer(short, "SELECT * FROM t WHERE k = 2", catalog) is None  # more than an answer at once may be


def test_a_broken_frame_is_told_by_who_runs_it(tmp_path: Path, short: ShortQueryCache) -> None:
    catalog = MemoryCatalog({"t": (table := _table(tmp_path, "k"))})
    for _ in range(2):
        _consider(short, "SELECT s FROM t WHERE k = 2", catalog)
    assert _answer(short, "SELECT s FROM t WHERE k = 2", catalog) is not None
    broken = CorruptionError("broken", part="p", file="f", offset=0)
    with patch("parts.read.part_reader.Part.read_row_range", side_effect=broken):
        assert _answer(short, "SELECT s FROM t WHERE k = 2", catalog) is None
    assert all(snapshot.released for snapshot in table.snapshots)


# Shapes ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "literals"),
    [
        ("SELECT a FROM t WHERE k = 5 AND s = 'x y'", ("5", "'x y'")),
        ("SELECT a1, t.2, 1e5, 0x10, 1.5e3, 1.a, 007, 1_000, 5 FROM t", ("5",)),
        ("SELECT -5, (1,2)", ("5", "1", "2")),
        ("SELECT a -5, b- 1.50, (-2, -3) FROM t WHERE a=-4", ("5", "1.50", "-2", "-3", "-4")),
        ("SELECT '1' FROM t WHERE d = ''", ("'1'", "''")),
    ],
)
def test_the_literals_of_a_shape(text: str, literals: tuple[str, ...]) -> None:
    shape = find_shape(text)
    if "''" in text:
        assert shape is None
        return
    assert shape is not None
    assert shape.literals == literals
    assert shape.with_literals(list(literals)) == text


@pytest.mark.parametrize(
    "text",
    ["SELECT 1 -- 5", "SELECT 1 /* 5 */", "SELECT 1 # 5", "SELECT `5`", 'SELECT "5"', "SELECT '\\'5'", "SELECT $$5$$",
     "SELECT {x:UInt8} + 1", "SELECT 'a''5'", "SELECT a", "SELECT 5" + " " * 3000],
)  # fmt: skip
def test_what_may_hide_a_literal_has_no_shape(text: str) -> None:
    assert find_shape(text) is None


def test_kinds_of_literals_tell_shapes_apart() -> None:
    number, text = find_shape("SELECT k FROM t WHERE k = 5"), find_shape("SELECT k FROM t WHERE k = '5'")
    assert number is not None
    assert text is not None
    assert number.key != text.key
