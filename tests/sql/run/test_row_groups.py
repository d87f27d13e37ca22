"""A scan that gives groups of rows in place of rows changes no answer."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parts.merge.part_merge import merge_parts
from parts.read.part_reader import open_part
from sql.compile.compiled_query import PartialAggregate
from sql.run.query_engine import QueryEngine
from sql.run.scans import scan_streams
from sql.run.scans.scan_grouping import RowGroups, combine_small_batches, group_rows
from tests.portions import one_in
from tests.sql.run.dataset import MemoryCatalog, MemoryRelation
from tests.sql.run.part_tables import describe

ROWS = 60_000
COLUMNS = """s String, n Nullable(String), t Nullable(Int16), u UInt64, i Int64, f Float64, d Date, w UInt32,
    l LowCardinality(String)"""


def _block() -> pa.Table:
    numbers = np.arange(ROWS)
    mixed = numbers * 7919 % 1_000_003
    return pa.table(
        {
            "s": pa.array([f"value {number // 700}" for number in numbers]),
            "n": pa.array([None if number % 11 == 0 else f"n{number % 13}" for number in mixed]),
            "t": pa.array([None if number % 7 == 0 else number % 500 - 250 for number in mixed.tolist()], pa.int16()),
            "u": pa.array((mixed.astype(np.uint64) << np.uint64(44)) + numbers.astype(np.uint64)),
            "i": pa.array(mixed - 500_000),
            "f": pa.array(mixed / 8),
            "d": pa.array((numbers % 40).astype(np.int32)).cast(pa.date32()),
            "w": pa.array(mixed % 5, pa.uint32()),
            "l": pa.array([f"l{number % 3}" for number in numbers]).dictionary_encode(),
        }
    )


@pytest.fixture(scope="module", params=["inserted", "merged"])
def catalogs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[MemoryCatalog, ...]:
    """The table in parts, and its rows in memory, which no scan groups."""
    table = describe(COLUMNS, "s", granularity=1024)
    block = _block().cast(table.description.schema.arrow)
    table.insert(tmp_path_factory.mktemp("parts"), block.slice(0, ROWS // 2))
    table.insert(tmp_path_factory.mktemp("parts"), block.slice(ROWS // 2))
    if request.param == "merged":
        path = tmp_path_factory.mktemp("merged") / "all_1_2_1"
        merge_parts(table.parts, path, table.description)
        table.parts[:] = [open_part(path)]
    return MemoryCatalog({"t": table}), MemoryCatalog({"t": MemoryRelation(table.description.schema, block)})


@pytest.fixture
def grouped(monkeypatch: pytest.MonkeyPatch) -> list[RowGroups]:
    """The groups that scans have made."""
    made: list[RowGroups] = []

    def group(keys: list[pa.Array], rows: int) -> RowGroups:
        made.append(group_rows(keys, rows))
        return made[-1]

    monkeypatch.setattr(scan_streams, "group_rows", group)
    return made


def _words(query: str) -> set[str]:
    return set(re.findall(r"\w+", query))


def _same(query: str, catalogs: tuple[MemoryCatalog, ...]) -> None:
    in_parts, in_memory = (QueryEngine().select(query, catalog=catalog).read_all() for catalog in catalogs)
    assert in_parts.schema == in_memory.schema
    for ours, theirs in zip(in_parts.columns, in_memory.columns, strict=True):
        if pa.types.is_floating(ours.type):
            np.testing.assert_allclose(ours.to_numpy(), theirs.to_numpy(), rtol=1e-12)
        else:
            assert ours.to_pylist() == theirs.to_pylist()


@pytest.mark.parametrize(
    "query",
    one_in(
        3,
        [
            "SELECT count(), uniqExact(s), sum(w) FROM t",
            "SELECT sum(u), sum(i), sum(t), sum(f), avg(w), avg(t), avg(f) FROM t",
            "SELECT min(u), max(u), min(i), max(i), min(t), max(t), min(d), max(d) FROM t",
            "SELECT s, count(), count(t), sum(t), min(t), max(t), avg(t) FROM t GROUP BY s ORDER BY s",
            "SELECT d, w, count() AS c, sum(i), sum(u), max(d) FROM t GROUP BY d, w ORDER BY d, w",
            "SELECT n, sum(i), avg(f), min(i), uniqExact(d), count(DISTINCT w) FROM t GROUP BY n ORDER BY n",
            "SELECT l, n, count() FROM t GROUP BY l, n HAVING count() > 10 ORDER BY count(), l, n LIMIT 5",
            "SELECT count() FROM t WHERE s LIKE '%1%' AND n IS NOT NULL",
            "SELECT toMonth(d) AS m, upper(n) AS x, count() FROM t WHERE w != 3 GROUP BY m, x ORDER BY m, x",
            "SELECT count(), sum(w), min(t), avg(t), max(d) FROM t WHERE s = 'nothing'",
            "SELECT w, count(), sum(t) FROM t WHERE w = 77 GROUP BY w",
            "SELECT w + 1, sum(w), w * count() FROM t GROUP BY w ORDER BY w",
            "SELECT count(*) + sum(w) AS x, x / count(1) FROM t WHERE s != 'x'",
            "SELECT arrayJoin([w, 7]) AS e, count(), sum(w) FROM t GROUP BY e ORDER BY e",
        ],
    ),
)
def test_answers(query: str, catalogs: tuple[MemoryCatalog, ...], grouped: list[RowGroups]) -> None:
    """In parts of INSERTs only strings in runs, as ``s``, are told apart quickly."""
    _same(query, catalogs)
    are_few = sum(groups.count for groups in grouped) * 4 < ROWS
    assert are_few == (
        catalogs[0].relation("default", "t").parts[0].starts_with_dictionary("n") or "n" not in _words(query)
    )


@pytest.mark.parametrize(
    "query",
    [
        "SELECT sum(w * 2), count() FROM t",
        "SELECT sumIf(w, s = 'value 1'), countIf(w = 1) FROM t",
        "SELECT sum(DISTINCT w), length(groupUniqArray(d)) FROM t",
        "SELECT max(s), any(l) != '' FROM t",
        "SELECT w, count() FROM t GROUP BY w WITH ROLLUP ORDER BY w, count()",
        "SELECT count() FROM (SELECT w FROM t)",
        "WITH t AS (SELECT DISTINCT w FROM t) SELECT count() FROM t",
        "SELECT count() FROM t AS a JOIN t AS b ON a.u = b.u",
        "SELECT count(), sum(w) FROM t WHERE w IN (SELECT max(w) FROM t)",
        "SELECT count() > 0 AND count() < 60000 FROM t WHERE rand() % 2 = 0 OR rand(1) % 2 = 0",
        "SELECT s, count() FROM t SAMPLE 1 GROUP BY s ORDER BY s LIMIT 1",
    ],
)
def test_of_other_statements_rows_come(
    query: str, catalogs: tuple[MemoryCatalog, ...], grouped: list[RowGroups]
) -> None:
    if "SAMPLE" not in query:
        _same(query, catalogs)
    assert not grouped


def test_rows_that_make_no_groups(
    catalogs: tuple[MemoryCatalog, ...], grouped: list[RowGroups], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They come as groups of one, and of many rows the first show that the statement shall be another."""
    query = "SELECT u % 3 AS m, count(), sum(w), min(t) FROM t WHERE i > -400000 GROUP BY m ORDER BY m"
    _same(query, catalogs)
    assert sum(groups.count for groups in grouped) > ROWS // 2
    grouped.clear()
    monkeypatch.setattr(scan_streams, "_ROWS_WORTH_A_PLAN", ROWS // 2)
    _same(query, catalogs)
    assert len(grouped) == 1
    grouped.clear()
    _same("SELECT s, uniqExact(u), count() FROM t GROUP BY s ORDER BY s", catalogs)
    assert len(grouped) == 1


def test_long_strings_and_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither has codes for ever: strings that are too long are met behind the first rows, in rows that make none."""
    monkeypatch.setattr(scan_streams, "_ROWS_WORTH_A_PLAN", 1000)
    table = describe("s String, a UInt32", "tuple()", granularity=1024)
    texts = [f"s{i}" for i in range(40_000)] + ["a long string"] * 10
    columns = {"s": texts, "a": pa.array(range(len(texts)), pa.uint32())}
    block = pa.table(columns).cast(table.description.schema.arrow)
    table.insert(tmp_path, block)
    query = "SELECT s, count(), sum(a) FROM t GROUP BY s ORDER BY s DESC LIMIT 3"
    expected = QueryEngine().select(
        query, catalog=MemoryCatalog({"t": MemoryRelation(block.schema and table.description.schema, block)})
    )
    assert QueryEngine().select(query, catalog=MemoryCatalog({"t": table})).read_all() == expected.read_all()


def test_no_rows(tmp_path: Path) -> None:
    catalog = MemoryCatalog({"t": describe("a UInt32, n Nullable(Int8)", "a")})
    query = "SELECT count(), sum(a), min(a), avg(a), count(n), sum(n), max(n), avg(n) FROM t"
    (row,) = QueryEngine().select(query, catalog=catalog).read_all().to_pylist()
    values = list(row.values())
    assert values[:3] == [0, 0, 0]
    assert np.isnan(values[3])
    assert values[4:] == [0, None, None, None]


def test_small_batches_come_together() -> None:
    """Each with a dictionary of its own, empty ones too."""
    rows = [[{"s": f"s{number}", "c": number}, {"s": None, "c": 5}] * (number % 3) for number in range(9_000)]
    types = pa.schema([("s", pa.dictionary(pa.int32(), pa.string())), ("c", pa.int64())])
    batches = [pa.RecordBatch.from_pylist(chosen, types) for chosen in rows]
    made = list(combine_small_batches(batches))
    assert pa.Table.from_batches(made).to_pylist() == [row for chosen in rows for row in chosen]
    assert len(made) == 3
    assert all(8_000 < batch.num_rows < 9_000 for batch in made[:-1])
    assert [batch.num_rows for batch in combine_small_batches(batches[:1])] == [0]
    assert not list(combine_small_batches([]))


KEYS = st.sampled_from(
    [
        lambda n: pa.array(np.arange(n) // 20 % 7, pa.int16()),
        lambda n: pa.array([None if i % 3 == 0 else f"{i % 5}" for i in range(n)], pa.string()).dictionary_encode(),
        lambda n: pa.array(np.arange(n) * 7919 % 3, pa.uint64()),
        lambda n: pa.array(np.arange(n) * 10**9, pa.int64()),
        lambda n: pa.array(np.arange(n) / 2),
        lambda n: pa.array(np.arange(n, dtype=np.int32) % 4 - 2).cast(pa.date32()),
        lambda n: pa.array([None] * n, pa.int8()),
    ]
)
VALUES = st.sampled_from(
    [
        lambda n: pa.array((np.arange(n) * 2654435761 % 2**32) << 31, pa.int64()),
        lambda n: pa.array(np.full(n, 2**64 - 1, np.uint64)),
        lambda n: pa.array([None if i % 2 else -i % 128 for i in range(n)], pa.int8()),
        lambda n: pa.array([None] * n, pa.uint16()),
        lambda n: pa.array(np.arange(2**32 - n, 2**32), pa.uint32()),
    ]
)


@settings(deadline=None)
@given(st.lists(KEYS, max_size=3), VALUES, st.integers(1, 300), st.sampled_from([0, 3]))
def test_parts_make_the_whole(keys: list[object], value: object, rows: int, offset: int) -> None:
    made = [make(rows + offset).slice(offset) for make in keys]  # type: ignore[operator]
    array = value(rows + offset).slice(offset)  # type: ignore[operator]
    groups = group_rows(made, rows)
    is_unsigned = pa.types.is_unsigned_integer(array.type)
    total = pa.uint64() if is_unsigned else pa.int64()
    wanted = {
        "n": PartialAggregate("count", "", pa.int64()),
        "c": PartialAggregate("count", "v", pa.int64()),
        "s": PartialAggregate("sum", "v", total),
        "l": PartialAggregate("min", "v", array.type),
        "m": PartialAggregate("max", "v", array.type),
    }
    parts = dict(zip(wanted, groups.aggregate(list(wanted.values()), {"v": array}), strict=True))
    names = [f"k{position}" for position in range(len(made))]
    values = [groups.key(key) for key in made]
    aggregates = [("n", "sum"), ("c", "sum"), ("s", "sum"), ("l", "min"), ("m", "max")]
    whole = _plain(pa.table([*values, *parts.values()], [*names, *parts])).group_by(names).aggregate(aggregates)
    each = _plain(pa.table([*made, array, pa.array(np.ones(rows, np.int64))], [*names, "v", "one"]))
    plain = each.group_by(names).aggregate([("one", "sum"), ("v", "count"), ("v", "sum"), ("v", "min"), ("v", "max")])
    order = [(name, "ascending") for name in names]
    columns = [*names, "n_sum", "c_sum", "s_sum", "l_min", "m_max"]
    expected = plain.rename_columns(columns if plain.column_names[: len(names)] == names else plain.column_names)
    whole, expected = whole.select(columns), expected.select(columns)
    if names:
        whole, expected = whole.sort_by(order), expected.sort_by(order)
    assert whole.to_pylist() == expected.to_pylist()


def _plain(table: pa.Table) -> pa.Table:
    columns = [column.cast(pa.string()) if pa.types.is_dictionary(column.type) else column for column in table.columns]
    return pa.table(columns, table.column_names)
