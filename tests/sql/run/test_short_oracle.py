"""Short queries give ClickHouse's names, types, values and order, for literals that they were not planned with."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sql.formats.registry import write_blocks
from sql.grammar.statement_parser import parse_statement
from sql.run.query_engine import QueryEngine
from sql.run.short_queries.short_query_cache import ShortQueryCache
from sql.settings.session_settings import (
    make_settings,
)
from tests.portions import one_in
from tests.sql.run.dataset import TABLES, Engines, MemoryCatalog, parsed, same_cell
from tests.sql.run.part_tables import describe

_KEYS = {"types": "id", "visits": "(user, day, duration)"}
_QUERIES = [
    # Order, of all types, by rows of two parts
    "SELECT id, u8, s FROM types WHERE id BETWEEN {0} AND {1} ORDER BY id",
    "SELECT id FROM types WHERE id >= {0} AND id < {1} ORDER BY s, e DESC, f64",
    "SELECT id, f64, f32 FROM types WHERE id >= {0} ORDER BY f64 DESC, f32 LIMIT 11",
    "SELECT id, nf FROM types WHERE id >= {0} AND id <= {1} ORDER BY nf / 0 DESC, nf, id",
    "SELECT id FROM types WHERE id < {1} ORDER BY f64 / (u8 % 2), id LIMIT 7, 20",
    "SELECT e, id FROM types WHERE id < {1} ORDER BY e DESC, id LIMIT 30 OFFSET 2",
    "SELECT ns, id FROM types WHERE id > {0} ORDER BY ns, id DESC LIMIT 40",
    "SELECT ns, id FROM types WHERE id > {0} ORDER BY ns DESC NULLS FIRST, id LIMIT 40",
    "SELECT lcn, lc, id FROM types WHERE id > {0} ORDER BY lcn DESC, lc, id LIMIT 40",
    "SELECT dt64, dtm, d32 FROM types WHERE id > {0} ORDER BY dt64 DESC LIMIT 5",
    "SELECT uid FROM types WHERE id > {0} ORDER BY uid DESC LIMIT 5",
    "SELECT dec, ip, b FROM types WHERE id > {0} ORDER BY b, dec DESC LIMIT 5",
    "SELECT * FROM types WHERE id IN ({0}, {1}) ORDER BY id",
    # Totals
    "SELECT sum(f64), sum(f32), avg(f64), avg(f32), avg(u8), avg(i32), sum(i64), sum(u64) FROM types WHERE id <= {1}",
    "SELECT min(f32), max(f64), min(s), max(s), max(dt), min(dt64), max(d), min(d32) FROM types WHERE id > {0}",
    "SELECT count(), avg(u8), sum(f32), min(s), max(dt), min(d32), max(f64), sum(i8) FROM types WHERE id = 9{0}",
    "SELECT min(e), max(e), sum(dec), min(ns), sum(ni), count(nf), avg(dec) FROM types WHERE id < {1}",
    "SELECT count() FROM types WHERE id > {0} AND id < {1}",
    # Whatever else
    "SELECT id + 1 AS x, u8 * {0}, f64 / 2, toString(d), upper(s), round(f64, 1), dt, -i32 FROM types WHERE id = {1}",
    "SELECT e, count() AS n, sum(f64), uniqExact(s) FROM types WHERE id < {1} GROUP BY e ORDER BY e",
    "SELECT s, max(dt) FROM types WHERE id >= {0} GROUP BY s HAVING count() > 1 ORDER BY s LIMIT 4",
    "SELECT DISTINCT lc, b FROM types WHERE id >= {0} ORDER BY lc, b",
    "SELECT id, multiIf(u8 > 10, 'many', 'few'), coalesce(ni, 0), arr FROM types WHERE id IN ({0}, 3) ORDER BY id",
    # Conditions on other columns, and on the columns of a longer key
    "SELECT id FROM types WHERE id > {0} AND lc = 'lc1' AND u16 > {1} ORDER BY id",
    "SELECT id FROM types WHERE f64 >= {0} AND f32 < {1} ORDER BY id",
    "SELECT id FROM types WHERE id > {0} AND s LIKE 'str%1' AND ns IS NOT NULL ORDER BY id",
    "SELECT id, dt FROM types WHERE dt >= '2020-01-0{2} 07:00:00' AND d < '2020-03-1{2}' ORDER BY id",
    "SELECT day, duration, revenue FROM visits WHERE user = {0} ORDER BY user, day, duration, revenue",
    "SELECT region, count(), sum(revenue) FROM visits WHERE user = {1} AND day > toDate('2024-01-0{2}') "
    "GROUP BY region ORDER BY region",
    "SELECT max(day), min(duration), count() FROM visits WHERE user IN ({0}, {1}) AND duration > {2}",
    "SELECT url, duration FROM visits WHERE user = {1} AND region = 'eu' ORDER BY duration DESC, url LIMIT 3",
]
_LITERALS = [(0, 40, 1), (5, 9, 3), (17, 119, 2), (60, 61, 9), (3, 3, 5), (118, 400, 7)]


@pytest.fixture(scope="module")
def stored(engines: Engines, tmp_path_factory: pytest.TempPathFactory) -> MemoryCatalog:
    """Tables of the oracle in two parts each."""
    tables = {}
    for name, key in _KEYS.items():
        table = describe(TABLES[name][0], key, granularity=256)
        block = engines.catalog.tables[name].read(table.description.schema.names)  # type: ignore[union-attr]
        half = pa.array([number % 3 == 1 for number in range(block.num_rows)])
        for rows in (block.filter(half), block.filter(pa.compute.invert(half))):
            table.insert(tmp_path_factory.mktemp(name), rows.combine_chunks())
        tables[name] = table
    return MemoryCatalog(tables)  # type: ignore[arg-type]


@pytest.mark.parametrize("template", one_in(3, _QUERIES))
def test_the_same_as_clickhouse(engines: Engines, stored: MemoryCatalog, template: str) -> None:
    short = ShortQueryCache(QueryEngine())
    settings = make_settings({}, engines.zone)
    short_answers = 0
    for literals in [*_LITERALS[:2], *_LITERALS]:
        text = template.format(*literals)
        short.learn(text, parse_statement(text), settings, "default", stored)
        found = short.answer(text, settings, "default", stored)
        if found is None:
            continue
        short_answers += 1
        names, types, rows = engines.clickhouse(text)
        data = b"".join(write_blocks("TabSeparatedWithNamesAndTypes", list(found.columns), iter(found.batches)))
        our_names, our_types, our_rows = parsed(data.decode())
        assert (our_names, our_types, len(our_rows)) == (names, types, len(rows))
        for row, ours in zip(rows, our_rows, strict=True):
            assert all(map(same_cell, row, ours, types)), text
    assert short_answers > len(_LITERALS) // 2
