"""Which queries are grouped in two steps; that their answers are right is in ``cases/distinct_counts.sql``."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sql.compile.query_compiler import QueryCompiler
from sql.functions.registry import Environment
from sql.grammar.queries.query_parser import parse_query
from sql.run.duckdb.constant_folding import fold_constant
from tests.sql.run.dataset import MemoryCatalog, MemoryRelation, schema_of

_SCHEMA = schema_of("a String, b LowCardinality(Nullable(String)), n UInt32, m Int64, x Float64, d Decimal(9, 2)")
_CATALOG = MemoryCatalog({"t": MemoryRelation(_SCHEMA, pa.table({}))})


def _group_bys(query: str) -> int:
    compiled = QueryCompiler(_CATALOG, Environment(), constant=fold_constant).compile(parse_query(query))
    return compiled.sql.render().count(" GROUP BY ")


@pytest.mark.parametrize(
    "aggregates",
    [
        "uniqExact(n), count()",
        "uniq(n), sum(d), min(x), max(a), avg(m)",
        "count(DISTINCT n), countDistinct(n), count(m)",
        "sum(m), uniqExact(n + 1), uniqExact(n + 1) * 2",
    ],
)
def test_strings_as_keys_beside_one_distinct_count(aggregates: str) -> None:
    assert _group_bys(f"SELECT a, b, {aggregates} FROM t GROUP BY a, b") == 2


@pytest.mark.parametrize(
    "query",
    [
        "SELECT a, b, uniqExact(n) FROM t GROUP BY a, b",
        "SELECT a, b, count() FROM t GROUP BY a, b",
        "SELECT a, n, uniqExact(m), count() FROM t GROUP BY a, n",
        "SELECT a, b, uniqExact(a), count() FROM t GROUP BY a, b",
        "SELECT a, b, uniqExact(n), uniqExact(m), count() FROM t GROUP BY a, b",
        "SELECT a, b, uniqExact(n, m), count() FROM t GROUP BY a, b",
        "SELECT a, b, uniqExactIf(n, m > 1), count() FROM t GROUP BY a, b",
        "SELECT a, b, uniqExact(n), countIf(m > 1) FROM t GROUP BY a, b",
        "SELECT a, b, uniqExact(n), sum(DISTINCT m) FROM t GROUP BY a, b",
        "SELECT a, b, uniqExact(n), sumOrNull(m) FROM t GROUP BY a, b",
        "SELECT a, b, uniqExact(n), sum(x) FROM t GROUP BY a, b",
        "SELECT a, b, uniqExact(n), avg(d) FROM t GROUP BY a, b",
        "SELECT a, b, uniqExact(n), any(m) FROM t GROUP BY a, b",
        "SELECT a, b, uniqExact(n), count(), sum(m), min(m), max(m), avg(m) FROM t GROUP BY a, b",
        "SELECT a, b, uniqExact(n), count() FROM t GROUP BY ROLLUP(a, b)",
    ],
)
def test_everything_else_in_one(query: str) -> None:
    assert _group_bys(query) == 1
