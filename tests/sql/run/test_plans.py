"""A text's plan is used again only where it would come out the same."""

from __future__ import annotations

import gc
import re
import weakref
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from parts.common.errors import UserError
from parts.table.table_description import Column, TableSchema
from parts.types import parse_type
from sql.relations import ArrowRelation, PartsRelation
from sql.run import query_engine
from sql.run.query_engine import QueryEngine
from sql.run.query_plans import make_plan
from sql.run.scans.scan_streams import ScanState, ScanStream
from sql.settings.supported_settings import DEFAULT_SETTINGS
from tests.sql.run.dataset import MemoryCatalog, MemoryRelation
from tests.sql.run.part_tables import PartTable, describe


class CountingEngine(QueryEngine):
    """``compiled`` are the texts that were compiled."""

    def __init__(self) -> None:
        super().__init__()
        self.compiled: list[str] = []

    def _compile(self, query: str, *given: Any) -> Any:
        self.compiled.append(query)
        return super()._compile(query, *given)

    def rows(self, query: str, table: PartTable, **options: object) -> list[dict[str, object]]:
        catalog = MemoryCatalog({"t": table})
        return self.select(query, catalog=catalog, **options).read_all().to_pylist()  # type: ignore[arg-type]


def table_of(directory: Path, *values: int, columns: str = "a UInt32, d Date") -> PartTable:
    table = describe(columns, "a", granularity=4)
    insert(table, directory, *values)
    return table


def insert(table: PartTable, directory: Path, *values: int) -> None:
    fields = table.description.schema.arrow
    table.insert(
        directory, pa.Table.from_arrays([pa.array(values).cast(pa.int32()).cast(f.type) for f in fields], schema=fields)
    )


def test_the_second_run_sees_the_parts_of_its_time(tmp_path: Path) -> None:
    engine, table = CountingEngine(), table_of(tmp_path, *range(10))
    query = "SELECT a FROM t WHERE a >= 8 AND d < '2020-01-01' ORDER BY a"
    assert engine.rows(query, table) == [{"a": 8}, {"a": 9}]
    insert(table, tmp_path, 7, 10)
    assert engine.rows(query, table) == [{"a": 8}, {"a": 9}, {"a": 10}]
    assert engine.compiled == [query]
    assert [snapshot.released for snapshot in table.snapshots] == [1, 1]


def test_runs_of_one_plan_count_for_themselves(tmp_path: Path) -> None:
    engine, table = CountingEngine(), table_of(tmp_path, *range(40))
    catalog = MemoryCatalog({"t": table})
    results = [engine.select("SELECT a, d FROM t WHERE a < 8", catalog=catalog) for _ in range(3)]
    rows = [sum(batch.num_rows for batch in result.batches) for result in results]
    assert rows == [8, 8, 8]
    assert [result.statistics.read_rows for result in results] == [8, 8, 8]
    assert [result.statistics.marks for result in results] == [2, 2, 2]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT a FROM t WHERE d < now()", "SELECT a FROM t WHERE d < today()", "SELECT a, queryID() FROM t",
        "SELECT a FROM t WHERE d IN (SELECT today() FROM t)", "SELECT x.a FROM t AS x, (SELECT now()) AS y", "SELECT 1",
        "SELECT a FROM t SAMPLE 1/2", "WITH t AS (SELECT 1 AS a) SELECT a FROM t", "SELECT (SELECT 1)",
        "SELECT a FROM t JOIN numbers(5) AS n ON a = n.number",
        "SELECT a FROM t JOIN (SELECT a FROM t SAMPLE 1/2) AS s USING a",
        "SELECT a, row_number() OVER (ORDER BY a) FROM t", "SELECT a, rand() FROM t",
        "SELECT a FROM t UNION ALL SELECT 1",
    ],
)  # fmt: skip
def test_other_texts_are_compiled_each_time(tmp_path: Path, query: str) -> None:
    engine = CountingEngine()
    table = describe("a UInt32, d Date", "a", "", "a", granularity=4)
    insert(table, tmp_path, 1, 2)
    for _ in range(2):
        engine.rows(query, table)
    assert engine.compiled == [query, query]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT x.a, y.a AS b FROM t AS x JOIN u AS y ON x.a + 1 = y.a ORDER BY ALL", [(1, 2), (2, 3), (3, 4)]),
        ("SELECT a FROM t LEFT JOIN u USING a WHERE d < DATE '1970-01-01' + INTERVAL 1 MONTH ORDER BY a",
         [(1,), (2,), (3,)]),
        ("SELECT a FROM t WHERE a IN (SELECT a FROM u) ORDER BY a", [(2,), (3,)]),
        ("SELECT a FROM t WHERE NOT EXISTS (SELECT a FROM u WHERE u.a = t.a)", [(1,)]),
        ("SELECT (SELECT max(a) FROM u) AS m, count() FROM t", [(4, 3)]),
        ("WITH s AS (SELECT a FROM u WHERE a > 2) SELECT x.a, y.a AS b FROM s AS x, s AS y ORDER BY ALL",
         [(3, 3), (3, 4), (4, 3), (4, 4)]),
        ("SELECT count() FROM t WHERE a > (SELECT avg(a) FROM (SELECT a FROM t))", [(1,)]),
    ],
)  # fmt: skip
def test_plans_of_several_tables_see_them_as_they_are(
    tmp_path: Path, query: str, expected: list[tuple[int, ...]]
) -> None:
    engine = CountingEngine()
    tables = {"t": table_of(tmp_path / "t", 1, 2, 3), "u": table_of(tmp_path / "u", 2, 3, 4)}

    def rows() -> list[tuple[object, ...]]:
        found = engine.select(query, catalog=MemoryCatalog(dict(tables))).read_all()
        return [tuple(row.values()) for row in found.to_pylist()]

    for _ in range(2):
        assert rows() == expected
    assert engine.compiled == [query]
    assert all(snapshot.released == 1 for table in tables.values() for snapshot in table.snapshots)
    insert(tables["u"], tmp_path / "u", 1, 10)
    insert(tables["t"], tmp_path / "t", 9, 10)
    after = rows()
    assert after != expected
    assert engine.compiled == [query]
    tables["u"] = table_of(tmp_path / "v", 1, 2, 3, 4, 10, columns="a UInt64, d Date")
    assert rows() == after
    if "u" not in re.findall(r"\w+", query):
        return
    assert engine.compiled == [query, query]
    del tables["u"]
    with pytest.raises(UserError) as caught:
        rows()
    assert caught.value.code == 60


def test_a_table_that_a_request_brings_along_comes_first(tmp_path: Path) -> None:
    engine, table = CountingEngine(), table_of(tmp_path, 1, 2)
    schema = table.description.schema
    brought = MemoryRelation(schema, pa.table({"a": [5], "d": pa.array([0], pa.int32())}).cast(schema.arrow))

    class Catalog(MemoryCatalog):
        def relation(self, database: str | None, name: str) -> ArrowRelation | PartsRelation:
            return brought if database is None else super().relation(database, name)

    for query, found in (("SELECT sum(a) FROM t", 5), ("SELECT sum(a) FROM default.t", 3)):
        assert engine.rows(query, table) == [{"sum(a)": 3}]
        rows = engine.select(query, catalog=Catalog({"t": table})).read_all().to_pylist()
        assert rows == [{"sum(a)": found}]


def test_other_settings_make_another_plan(tmp_path: Path) -> None:
    engine = CountingEngine()
    catalog = MemoryCatalog({"t": table_of(tmp_path / "t", 1, 2), "u": table_of(tmp_path / "u", 2)})
    query = "SELECT a, u.a AS b FROM t LEFT JOIN u ON t.a = u.a ORDER BY a"
    for use_nulls, missing in ((False, 0), (True, None), (False, 0), (True, None)):
        chosen = replace(DEFAULT_SETTINGS, join_use_nulls=use_nulls)
        found = engine.select(query, catalog=catalog, settings=chosen).read_all()
        assert found.to_pylist() == [{"a": 1, "b": missing}, {"a": 2, "b": 2}]
    assert len(engine.compiled) == 2


def test_a_table_with_alias_columns_is_compiled_each_time(tmp_path: Path) -> None:
    engine, table = CountingEngine(), table_of(tmp_path, 1)
    alias = Column("b", parse_type("DateTime"), default_kind="ALIAS", default_expression="now()")
    schema = table.description.schema
    table.description = replace(table.description, schema=TableSchema((*schema.columns, alias)))
    for _ in range(2):
        engine.rows("SELECT b FROM t", table)
    assert len(engine.compiled) == 2


def test_what_the_text_means_depends_on_its_session(tmp_path: Path) -> None:
    engine, table = CountingEngine(), table_of(tmp_path, 1, 2, 3)
    query = "SELECT a FROM t WHERE a = {x:UInt8}"
    for value in (2, 3, 2):
        assert engine.rows(query, table, parameters={"x": str(value)}) == [{"a": value}]
    assert len(engine.compiled) == 2
    for zone in ("UTC", "Asia/Tokyo"):
        engine.rows("SELECT a FROM t", table, constants={"timezone": zone})
        engine.rows("SELECT a FROM t", table, constants={"timezone": zone}, database="other")
    assert len(engine.compiled) == 6


def test_another_table_of_the_name_is_compiled_anew(tmp_path: Path) -> None:
    engine, query = CountingEngine(), "SELECT a + a FROM t WHERE a > 1"
    assert engine.rows(query, table_of(tmp_path / "1", 1, 2)) == [{"plus(a, a)": 4}]
    assert engine.rows(query, table_of(tmp_path / "2", 1, 2, columns="a Int8")) == [{"plus(a, a)": 4}]
    assert len(engine.compiled) == 2
    rows = pa.table({"a": pa.array([3], pa.int8())})
    catalog = MemoryCatalog(
        {"t": MemoryRelation(table_of(tmp_path / "3", 1, columns="a Int8").description.schema, rows)}
    )
    assert engine.select(query, catalog=catalog).read_all().to_pylist() == [{"plus(a, a)": 6}]
    with pytest.raises(UserError) as caught:
        engine.rows(query, table_of(tmp_path / "4", 1, columns="b Int8"))
    assert caught.value.code == 47
    engine.rows(query, table_of(tmp_path / "5", 1))
    with pytest.raises(UserError) as caught:
        engine.select(query, catalog=MemoryCatalog({}))
    assert caught.value.code == 60


@pytest.mark.parametrize(
    ("limits", "rows"),
    [("LIMIT 3", 3), ("LIMIT 3 OFFSET 9", 12), ("LIMIT 0", 0), ("LIMIT 1000000", 20_000), ("LIMIT 20001", 20_000)],
)
def test_a_limit_reads_its_rows_first(tmp_path: Path, limits: str, rows: int) -> None:
    engine = CountingEngine()
    table = describe("a UInt32, d Date", "a", granularity=1024)
    insert(table, tmp_path, *range(20_000))
    result = engine.select(f"SELECT a, d FROM t {limits}", catalog=MemoryCatalog({"t": table}))
    skipped = 9 if "OFFSET" in limits else 0
    assert result.read_all().column(0).to_pylist() == list(range(skipped, rows))
    stream = ScanStream(*_scan(engine, table, f"SELECT a, d FROM t {limits}"))
    sizes = [batch.num_rows for batch in stream.stream([0, 1])]
    assert sum(sizes) == 20_000
    assert sizes[0] == (min(rows, 16_384) or sizes[0])


@pytest.mark.parametrize("clauses", ["ORDER BY d LIMIT 3", "LIMIT 1 + 1", ""])
def test_other_queries_have_no_first_rows(tmp_path: Path, clauses: str) -> None:
    engine, table = CountingEngine(), table_of(tmp_path, 1, 2, 3)
    assert _scan(engine, table, f"SELECT a FROM t {clauses}")[-1] == 0


def _scan(engine: QueryEngine, table: PartTable, query: str) -> tuple[Any, ...]:
    """What a stream of the query's scan is made of."""
    tree, compiler, compiled = engine._compile(
        query, MemoryCatalog({"t": table}), DEFAULT_SETTINGS, "default", None, None, None
    )
    plan = make_plan(tree, compiler.scans, compiled)
    (planned,) = plan.scans
    assert planned.analysis is not None
    return planned.scan, planned.analysis.copy_unused().prune(table.parts), ScanState(), 0, plan.first_rows


def test_a_plan_does_not_hold_its_table(tmp_path: Path) -> None:
    engine, table = CountingEngine(), table_of(tmp_path, 1, 2)
    engine.rows("SELECT a FROM t WHERE a = 2", table)
    assert len(engine._plans._plans) == 1
    gone = weakref.ref(table)
    del table
    gc.collect()
    assert gone() is None


def test_the_longest_unused_plan_goes(tmp_path: Path) -> None:
    engine, table = CountingEngine(), table_of(tmp_path, 1, 2)
    engine._plans = query_engine.PlanCache(most=2)
    for number in (1, 2, 1, 3, 1, 2):
        engine.rows(f"SELECT a FROM t WHERE a = {number}", table)
    assert [text[-1] for text in engine.compiled] == ["1", "2", "3", "2"]
