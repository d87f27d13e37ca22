"""The 22 TPC-H queries over MergeTree parts give ClickHouse's answers."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from parts.types import DataType, DateType, DecimalType, IntegerType, StringType
from sql.formats.registry import write_blocks
from sql.run.query_engine import QueryEngine
from tests.portions import one_in
from tests.sql.run.dataset import Engines, MemoryCatalog, same_cell
from tests.sql.run.part_tables import PartTable, describe

QUERIES = sorted((Path(__file__).parent / "tpch").glob("q*.sql"))
KEYS = {
    "lineitem": ("(l_shipdate, l_orderkey)", "toYear(l_shipdate)"),
    "orders": ("(o_orderdate, o_orderkey)", ""),
    "customer": ("c_custkey", ""),
    "supplier": ("s_suppkey", ""),
    "part": ("p_partkey", ""),
    "partsupp": ("(ps_partkey, ps_suppkey)", ""),
    "nation": ("n_nationkey", ""),
    "region": ("r_regionkey", ""),
}


@dataclass(frozen=True)
class Loaded:
    catalog: MemoryCatalog
    session: object
    database: str
    data: Path
    columns: dict[str, str]


def _load(engines: Engines, directory: Path, scale: str, database: str) -> Loaded:
    generator = Path(sys.executable).with_name("tpchgen-cli")
    data = directory / "data"
    subprocess.run(
        [generator, "parquet", "-s", scale, "--output-dir", data], check=True, capture_output=True, timeout=120
    )
    engines.session.query(f"CREATE DATABASE {database}")  # type: ignore[attr-defined]
    tables: dict[str, PartTable] = {}
    declared: dict[str, str] = {}
    for name, (order_by, partition_by) in KEYS.items():
        table = pq.read_table(data / f"{name}.parquet")
        types = [_type_of(field.type) for field in table.schema]
        columns = ", ".join(f"{column} {type_.name}" for column, type_ in zip(table.column_names, types, strict=True))
        declared[name] = columns
        created = describe(columns, order_by, partition_by, granularity=8192)
        created.insert(directory / name, table.cast(created.description.schema.arrow))
        tables[name] = created
        query = engines.session.query  # type: ignore[attr-defined]
        query(f"CREATE TABLE {database}.{name} ({columns}) ENGINE = MergeTree ORDER BY tuple()")
        query(f"INSERT INTO {database}.{name} SELECT * FROM file('{data / name}.parquet')")
    return Loaded(MemoryCatalog(dict(tables)), engines.session, database, data, declared)


def _type_of(arrow: pa.DataType) -> DataType:
    if pa.types.is_date(arrow):
        return DateType()
    if pa.types.is_decimal(arrow):
        return DecimalType(arrow.precision, arrow.scale)
    return IntegerType(arrow.bit_width, True) if pa.types.is_integer(arrow) else StringType()


@pytest.fixture(scope="module")
def small(engines: Engines, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loaded]:
    yield from _loaded(engines, tmp_path_factory, "0.01", "tpch_small")


@pytest.fixture(scope="module")
def large(engines: Engines, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loaded]:
    yield from _loaded(engines, tmp_path_factory, "0.1", "tpch_large")


def _loaded(engines: Engines, tmp_path_factory: pytest.TempPathFactory, scale: str, database: str) -> Iterator[Loaded]:
    directory = tmp_path_factory.mktemp(database)
    for name in KEYS:
        (directory / name).mkdir()
    yield _load(engines, directory, scale, database)
    engines.session.query(f"DROP DATABASE {database}")  # type: ignore[attr-defined]


def _clickhouse(loaded: Loaded, path: Path) -> str:
    query = loaded.session.query  # type: ignore[attr-defined]
    query(f"USE {loaded.database}")
    try:
        return str(query(path.read_text(), "TabSeparatedWithNamesAndTypes").bytes().decode())
    finally:
        query("USE default")


def _check(loaded: Loaded, path: Path) -> None:
    result = QueryEngine().select(path.read_text(), catalog=loaded.catalog)
    ours = b"".join(write_blocks("TabSeparatedWithNamesAndTypes", result.columns, result.batches)).decode()
    _compare(_clickhouse(loaded, path), ours)
    assert math.isfinite(result.statistics.read_rows)


def _compare(theirs: str, ours: str) -> None:
    expected, answered = (answer.split("\n")[:-1] for answer in (theirs, ours))
    assert answered[:2] == expected[:2]
    assert len(answered) == len(expected)
    types = expected[1].split("\t")
    for row, our_row in zip(expected[2:], answered[2:], strict=True):
        cells = zip(row.split("\t"), our_row.split("\t"), types, strict=True)
        assert all(same_cell(cell, our_cell, type_) for cell, our_cell, type_ in cells), (row, our_row)


@pytest.mark.parametrize("path", one_in(6, QUERIES), ids=[path.stem for path in QUERIES])
def test_small(small: Loaded, path: Path) -> None:
    _check(small, path)


@pytest.mark.long
@pytest.mark.parametrize("path", QUERIES, ids=[path.stem for path in QUERIES])
def test_tenth(large: Loaded, path: Path) -> None:
    _check(large, path)


@pytest.mark.long
def test_pando_local(large: Loaded, tmp_path: Path) -> None:
    """The same through the command: tables kept in a directory, Parquet files from standard input, all 22 queries."""
    creates = []
    for name, (order_by, partition_by) in KEYS.items():
        partition = f" PARTITION BY {partition_by}" if partition_by else ""
        creates.append(f"CREATE TABLE {name} ({large.columns[name]}) ENGINE = MergeTree{partition} ORDER BY {order_by}")
    _pando_local(tmp_path, ";\n".join(creates))
    for name in KEYS:
        with open(large.data / f"{name}.parquet", "rb") as file:
            _pando_local(tmp_path, f"INSERT INTO {name} FORMAT Parquet", file)
    mark = "-- next --"
    texts = [path.read_text().strip().rstrip(";") for path in QUERIES]
    script = f";\nSELECT '{mark}' FORMAT TabSeparated;\n".join(
        f"{t} FORMAT TabSeparatedWithNamesAndTypes" for t in texts
    )
    answers = _pando_local(tmp_path, script).split(f"{mark}\n")
    assert len(answers) == len(QUERIES) == 22
    for path, answer in zip(QUERIES, answers, strict=True):
        _compare(_clickhouse(large, path), answer)


def _pando_local(path: Path, query: str, stdin: BinaryIO | None = None) -> str:
    command = [sys.executable, "-m", "engine.cli", "local", "--path", str(path), "--query", query]
    done = subprocess.run(
        command, stdin=stdin or subprocess.DEVNULL, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
