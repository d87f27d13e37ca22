"""With join_use_nulls the columns of a side that may lack a row are Nullable, in every kind of join."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sql.formats.registry import write_blocks
from sql.settings.supported_settings import DEFAULT_SETTINGS
from tests.portions import one_in
from tests.sql.run.dataset import Engines

_LEFT = "(SELECT toUInt8(1 + number) AS id, toLowCardinality('x') AS v, 5 AS t FROM numbers(2)) AS a"
_RIGHT = "(SELECT toInt32(2 * number) AS id, toLowCardinality('y') AS w, [2] AS l, 4 AS t FROM numbers(3)) AS b"
_NAMES = ("id", "a.id", "b.id", "v", "w", "l", "a.t", "b.t")
_KINDS = (
    "INNER", "ANY INNER", "ASOF", "LEFT", "ANY LEFT", "SEMI LEFT", "ANTI LEFT", "ASOF LEFT", "RIGHT", "ANY RIGHT",
    "SEMI RIGHT", "ANTI RIGHT", "FULL",
)  # fmt: skip


def _same(engines: Engines, query: str, *, use_nulls: bool) -> None:
    names, types, rows = engines.clickhouse(f"{query} SETTINGS join_use_nulls = {int(use_nulls)}")
    result = engines.engine.select(
        query, catalog=engines.catalog, settings=replace(DEFAULT_SETTINGS, join_use_nulls=use_nulls)
    )
    columns = list(result.columns)
    text = b"".join(write_blocks("TabSeparated", columns, result.batches)).decode()
    assert [(name, type_.name) for name, type_ in columns] == list(zip(names, types, strict=True))
    assert [line.split("\t") for line in text.splitlines()] == rows


@pytest.mark.parametrize("use_nulls", one_in(2, [False, True]))
@pytest.mark.parametrize("kind", one_in(4, _KINDS))
def test_using(engines: Engines, kind: str, use_nulls: bool) -> None:
    columns = "id, t" if kind.startswith("ASOF") else "id"
    values = ", ".join(f"{name} AS x{i}, toTypeName({name}) AS y{i}" for i, name in enumerate(_NAMES))
    source = f"{_LEFT} {kind} JOIN {_RIGHT} USING ({columns})"
    _same(engines, f"SELECT {values} FROM {source} ORDER BY ALL", use_nulls=use_nulls)
    _same(engines, f"SELECT *, b.* FROM {source} ORDER BY ALL", use_nulls=use_nulls)
    _same(engines, f"SELECT a.*, b.* FROM {source} ORDER BY ALL", use_nulls=use_nulls)


@pytest.mark.parametrize("use_nulls", one_in(2, [False, True]))
@pytest.mark.parametrize("kind", _KINDS)
def test_on(engines: Engines, kind: str, use_nulls: bool) -> None:
    condition = "a.id = b.id AND a.t >= b.t" if kind.startswith("ASOF") else "a.id = b.id"
    source = f"{_LEFT} {kind} JOIN {_RIGHT} ON {condition}"
    _same(engines, f"SELECT b.*, a.* FROM {source} ORDER BY ALL", use_nulls=use_nulls)
    _same(engines, f"SELECT toTypeName(w), count() FROM {source} GROUP BY w ORDER BY ALL", use_nulls=use_nulls)
