"""Codes of short strings, which queries use them, and those that meet a longer string."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from parts.common.errors import CancelledError, ConflictError, CorruptionError
from sql.compile import short_string_codes
from sql.compile.short_string_codes import LongStringError, decode_string, encode_strings
from sql.relations import UNKNOWN_POSITIONS, ArrowRelation, PartsRelation
from sql.run import query_engine
from sql.run.duckdb import database
from sql.run.duckdb.statement_pool import LeasedStatement, StatementPool
from sql.run.query_engine import QueryEngine, SelectResult
from sql.run.query_plans import Plan, make_plan
from sql.settings.supported_settings import DEFAULT_SETTINGS
from sql.typing.duckdb.sql_fragments import leaf
from tests.sql.run.dataset import MemoryCatalog
from tests.sql.run.part_tables import PartTable, describe

# Values ---------------------------------------------------------------------------------------------------------------

_VALUES = ["a", "", "abc", "ünï", "1234567", None, "a\0", "\0", "ab", "b"]


def _read_back(array: pa.Array) -> list[object]:
    cursor = database.open_cursor()
    try:
        cursor.register("t", pa.table({"c": array}))
        return [value for (value,) in cursor.execute(f"SELECT {decode_string(leaf('c')).render()} FROM t").fetchall()]
    finally:
        cursor.close()


@pytest.mark.parametrize(
    "values", [_VALUES, ["ab", "cd", "\0\0"], ["", ""], [None, None], ["7bytes!"], [], ["é", "ab"]]
)
def test_a_code_is_its_string_and_sorts_like_it(values: list[str | None]) -> None:
    plain = pa.array(values, pa.string())
    for array in (plain, pa.array(["long enough", *values]).cast(pa.string()).slice(1), plain.dictionary_encode()):
        numbers = encode_strings(array)
        assert numbers.type == pa.uint64()
        assert _read_back(numbers) == values
        pairs = sorted((n, v) for n, v in zip(numbers.to_pylist(), values, strict=True) if n is not None)
        assert [v for _, v in pairs] == sorted(v for v in values if v is not None)


@pytest.mark.parametrize("skipped", [1, 7, 8, 9, 64])
def test_a_slice_has_the_codes_of_its_values(skipped: int) -> None:
    array = pa.array((_VALUES * 20)[: skipped + 70], pa.string())
    assert encode_strings(array.slice(skipped)).to_pylist() == encode_strings(array).to_pylist()[skipped:]


@pytest.mark.parametrize("values", [["12345678"], ["a", "übersee!"], ["日本語"]])
def test_eight_bytes_have_no_code(values: list[str]) -> None:
    with pytest.raises(LongStringError):
        encode_strings(pa.array(values))


# Which queries --------------------------------------------------------------------------------------------------------

_COLUMNS = "k String, l LowCardinality(String), s Nullable(String), n UInt32"


class _Engine(QueryEngine):
    """``compiled``: for every compilation whether it was one with codes. ``before_plain`` runs before one without."""

    def __init__(self) -> None:
        super().__init__()
        self.compiled: list[bool] = []
        self.allowed = True

    def _compile(self, *given: Any) -> Any:
        with_codes = bool(given[7:] and given[7])
        self.compiled.append(with_codes)
        if not with_codes:
            self.before_plain()
        return super()._compile(*given[:7], with_codes and self.allowed)

    def before_plain(self) -> None: ...

    def plan(self, query: str, table: PartTable) -> Plan:
        tree, compiler, compiled = self._compile(
            query, _catalog(table), DEFAULT_SETTINGS, "default", None, None, None, True
        )
        return make_plan(tree, compiler.scans, compiled)


def _catalog(table: PartTable) -> MemoryCatalog:
    return MemoryCatalog({"t": table, "u": table})


@pytest.mark.parametrize(
    ("query", "coded", "strings"),
    [
        ("SELECT k, count() FROM t GROUP BY k", "k", ""),
        ("SELECT k, l, count() FROM t GROUP BY k, l", "kl", ""),
        ("SELECT l, count() FROM t GROUP BY l", "", "l"),
        ("SELECT l, uniqExact(s), count(DISTINCT k) FROM t GROUP BY l", "sk", "l"),
        ("SELECT n, uniqExact(l), any(l) FROM t GROUP BY n", "l", "nl"),
        ("SELECT k, min(k), max(s) FROM t WHERE l = 'a' GROUP BY k", "k", "ksl"),
        ("SELECT k, l, uniqExact(s), count() FROM t GROUP BY k, l", "kls", ""),
        ("SELECT uniqExact(k, n) FROM t", "k", "n"),
        ("SELECT upper(k) AS u, uniqExact(concat(k, s)) FROM t GROUP BY u", "", "ks"),
        ("SELECT k FROM t", "", "k"),
        ("SELECT DISTINCT k FROM t", "", "k"),
        ("SELECT uniqExact(k) OVER () FROM t", "", "k"),
        ("SELECT k, count() FROM t GROUP BY ROLLUP(k)", "", "k"),
        ("SELECT k FROM (SELECT k, count() FROM t GROUP BY k)", "", "k"),
        ("SELECT k FROM (SELECT k FROM t) GROUP BY k", "", "k"),
        ("SELECT t.k FROM t, u GROUP BY t.k", "", "k"),
        ("SELECT k FROM t GROUP BY k UNION ALL SELECT k FROM t GROUP BY k", "", "k"),
        ("SELECT k FROM t ARRAY JOIN [1, 2] AS a GROUP BY k", "", "k"),
        ("SELECT k FROM t WHERE k IN (SELECT l FROM u) GROUP BY k", "", "k"),
    ],
)
def test_what_is_read_as_codes_and_what_as_it_is(query: str, coded: str, strings: str) -> None:
    scan = _Engine().plan(query, describe(_COLUMNS, "n")).scans[0].scan
    assert set(scan.coded) == set(coded)
    assert set(scan.source.used) - ({"n"} - set(strings)) == set(strings)


# Long strings ---------------------------------------------------------------------------------------------------------

_QUERY = "SELECT k, count(), uniqExact(s), uniqExact(l), sum(n), min(k) FROM t WHERE n != 7 GROUP BY k ORDER BY k"
_ROWS = 5000


@pytest.fixture
def leased(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For every statement that was run, whether it used codes."""
    statements: list[bool] = []

    class Pool(StatementPool):
        def lease(self, sql: str, streams: Mapping[str, Any], *, is_kept: bool = True) -> LeasedStatement:
            statements.append("#" in sql)
            return super().lease(sql, streams, is_kept=is_kept)

    monkeypatch.setattr(query_engine, "STATEMENT_POOL", Pool())
    monkeypatch.setattr(short_string_codes, "FIRST_ROWS", 1000)
    monkeypatch.setattr("sql.run.query_plans.FIRST_ROWS", 1000)
    return statements


def _table(directory: Path, *, long_at: int | None = None, column: str = "k", parts: int = 3) -> PartTable:
    table = describe(_COLUMNS, "n", granularity=512)
    fields = table.description.schema.arrow
    for part in range(parts):
        numbers = list(range(part * _ROWS, (part + 1) * _ROWS))
        values: dict[str, list[str | None]] = {
            "k": [["", "a", "ab", "é", "a\0"][n % 5] for n in numbers],
            "l": [["x", "yy"][n % 2] for n in numbers],
            "s": [None if n % 3 == 0 else str(n % 50) for n in numbers],
        }
        if long_at in numbers:
            values[column][numbers.index(long_at)] = "longer than seven"
        arrays = [pa.array(values[name]) for name in "kls"] + [pa.array(numbers)]
        block = [array.cast(field.type) for array, field in zip(arrays, fields, strict=True)]
        table.insert(directory, pa.Table.from_arrays(block, schema=fields))
    return table


def _run(engine: QueryEngine, table: PartTable, query: str = _QUERY) -> SelectResult:
    return engine.select(query, catalog=_catalog(table))


def _plain(table: PartTable, query: str = _QUERY) -> tuple[pa.Table, object]:
    engine = _Engine()
    engine.allowed = False
    result = _run(engine, table, query)
    return result.read_all(), result.statistics


@pytest.mark.parametrize("column", ["k", "l", "s"])
@pytest.mark.parametrize(
    ("long_at", "statements", "compiled"),
    [(None, [True], [True]), (5, [False], [True, False]), (3 * _ROWS - 1, [True, False], [True, False])],
    ids=["never", "at once", "in the last rows"],
)
@pytest.mark.long
def test_a_long_string_costs_its_first_rows_or_a_second_run(
    tmp_path: Path, leased: list[bool], column: str, long_at: int | None, statements: list[bool], compiled: list[bool]
) -> None:
    engine, table = _Engine(), _table(tmp_path, long_at=long_at, column=column)
    result = _run(engine, table)
    answer = result.read_all()
    assert (leased, engine.compiled) == (statements, compiled)
    assert {snapshot.released for snapshot in table.snapshots} == {1}
    del leased[:]
    expected, expected_statistics = _plain(table)
    assert answer.equals(expected)
    if long_at is not None:
        assert result.statistics == expected_statistics
    assert result.statistics.read_rows == 3 * _ROWS
    assert result.statistics.parts == 3
    # Remembered, and only the statement that came to its end is kept.
    del leased[:]
    assert _run(engine, table).read_all().equals(answer)
    assert leased == statements[-1:]
    assert engine.compiled == compiled
    assert len(query_engine.STATEMENT_POOL._idle) == len({statements[-1], False})


def test_read_bytes_are_those_of_the_strings(tmp_path: Path) -> None:
    table = _table(tmp_path)
    coded = _run(_Engine(), table)
    coded.read_all()
    _, plain = _plain(table)
    assert coded.statistics == plain


def test_a_first_part_of_short_strings_says_nothing_of_the_others(tmp_path: Path, leased: list[bool]) -> None:
    table = _table(tmp_path, long_at=_ROWS)
    assert _run(_Engine(), table).read_all().equals(_plain(table)[0])
    assert leased[:2] == [True, False]


def test_a_query_that_is_not_kept_begins_with_codes_again(tmp_path: Path, leased: list[bool]) -> None:
    engine, table = _Engine(), _table(tmp_path, long_at=0)
    query = "SELECT k, count(), uniqExact(s) FROM t WHERE now() > '2020-01-01 00:00:00' GROUP BY k ORDER BY k"
    for _ in range(2):
        assert _run(engine, table, query).read_all().num_rows == 6
    assert engine.compiled == [True, False, True, False]
    assert leased == [False, False]


def test_an_empty_table(tmp_path: Path) -> None:
    table = describe(_COLUMNS, "n")
    assert _run(_Engine(), table).read_all().num_rows == 0
    assert _run(_Engine(), table, "SELECT uniqExact(k), count() FROM t").read_all().to_pylist() == [
        {"uniqExact(k)": 0, "count()": 0}
    ]


def test_pruned_parts_and_rows(tmp_path: Path) -> None:
    table = _table(tmp_path)
    query = "SELECT k, count(), uniqExact(l) FROM t WHERE n >= 5500 AND n < 5600 GROUP BY k ORDER BY k"
    result = _run(_Engine(), table, query)
    assert result.read_all().equals(_plain(table, query)[0])
    assert result.statistics.parts == 1


@pytest.mark.parametrize("long_at", [5, 3 * _ROWS - 1])
def test_a_query_cancelled_between_its_runs_ends(tmp_path: Path, leased: list[bool], long_at: int) -> None:
    engine, table = _Engine(), _table(tmp_path, long_at=long_at)
    result = _run(engine, table)
    engine.before_plain = result.cancel  # type: ignore[method-assign]
    with pytest.raises(CancelledError):
        result.read_all()
    assert [snapshot.released for snapshot in table.snapshots] == [1]
    assert not query_engine.STATEMENT_POOL._idle


def test_a_query_closed_between_its_runs_ends(tmp_path: Path, leased: list[bool]) -> None:
    engine, table = _Engine(), _table(tmp_path, long_at=3 * _ROWS - 1)
    result = _run(engine, table)
    engine.before_plain = result.close  # type: ignore[method-assign]
    with pytest.raises(CancelledError):
        result.read_all()
    assert {snapshot.released for snapshot in table.snapshots} == {1}
    assert not query_engine.STATEMENT_POOL._idle


def test_a_table_replaced_between_the_runs_is_refused(tmp_path: Path) -> None:
    table = _table(tmp_path / "1", long_at=5)
    other = describe("k LowCardinality(String), l String, s String, n UInt32", "n")

    now: list[PartsRelation] = [table]

    class Catalog:
        positions = UNKNOWN_POSITIONS

        def relation(self, database: str | None, name: str) -> ArrowRelation | PartsRelation:
            return now[0]

    result = _Engine().select(_QUERY, catalog=Catalog())
    now[0] = other
    with pytest.raises(ConflictError):
        result.read_all()
    assert [snapshot.released for snapshot in table.snapshots] == [1]


def test_corruption_in_the_first_rows_is_told(tmp_path: Path) -> None:
    table = _table(tmp_path, parts=1)
    (file,) = [path for path in tmp_path.rglob("*.bin") if path.name in ("k.bin", "data.bin")]
    data = bytearray(file.read_bytes())
    for position in range(len(data) // 4, len(data)):
        data[position] ^= 0x5A
    file.write_bytes(data)
    with pytest.raises(CorruptionError) as caught:
        _run(_Engine(), table).read_all()
    assert caught.value.directory == table.parts[0].path
    assert [snapshot.released for snapshot in table.snapshots] == [1]
