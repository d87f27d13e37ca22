"""RowBinary is ClickHouse's, byte for byte; each reads what the other writes."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from parts.common.errors import UserError
from parts.table.table_description import Column
from parts.types import parse_type
from sql.formats.binary import row_binary_reader
from sql.formats.registry import read_blocks, write_blocks
from tests.sql.formats.test_formats_oracle import QUERY, ROWS, TYPES
from tests.sql.oracle import Oracle, columns_of, read

FORMATS = ["RowBinary", "RowBinaryWithNames", "RowBinaryWithNamesAndTypes"]
FOLLOWED = {name: text for name, text in TYPES.items() if name not in ("a", "an", "ad", "m", "tn", "mm", "am", "al")}


def row_binary(table: pa.Table, columns: list[Column], name: str) -> bytes:
    batches = iter(table.combine_chunks().to_batches())
    return b"".join(write_blocks(name, [(column.name, column.type) for column in columns], batches))


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    asked = Oracle()
    definition = ", ".join(f"`{name}` {text}" for name, text in TYPES.items())
    asked.query(f"CREATE OR REPLACE TABLE every_type ({definition}) ENGINE = Memory")
    asked.query(f"INSERT INTO every_type VALUES {', '.join(ROWS)}")
    yield asked
    asked.close()


@pytest.fixture(scope="module")
def table(oracle: Oracle) -> pa.Table:
    return read(oracle.query(QUERY, "Values"), columns_of(TYPES), "Values")


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("types", [TYPES, FOLLOWED, {"i8": "Int8", "u": "UUID", "t64": TYPES["t64"]}])
def test_every_type_is_written_and_read_as_clickhouse_does(
    oracle: Oracle, table: pa.Table, name: str, types: dict[str, str]
) -> None:
    columns = columns_of(types)
    theirs = oracle.query(QUERY.replace("*", ", ".join(f"`{column}`" for column in types)), name)
    assert row_binary(table.select(list(types)), columns, name) == theirs
    again = read(theirs, columns, name)
    for column in columns:
        assert repr(again.column(column.name).to_pylist()) == repr(table.column(column.name).to_pylist()), column.name
        assert again.column(column.name).type == column.type.arrow


def test_clickhouse_reads_what_is_written(oracle: Oracle, table: pa.Table, tmp_path: Path) -> None:
    path = tmp_path / "ours.bin"
    path.write_bytes(row_binary(table, columns_of(TYPES), FORMATS[2]))
    names = ", ".join(f"`{name}`" for name in TYPES)
    oracle.query("CREATE OR REPLACE TABLE again AS every_type")
    oracle.query(f"INSERT INTO again SELECT {names} FROM file('{path}', {FORMATS[2]})")
    assert oracle.query(QUERY.replace("every_type", "again"), "TSV") == oracle.query(QUERY, "TSV")


@pytest.mark.parametrize("type_", ["String", "Nullable(String)", "Array(UInt16)", "Array(String)", "UInt32"])
@pytest.mark.long
def test_rows_that_span_windows(type_: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_binary_reader, "_WINDOW_BYTES", 100)
    chance = np.random.default_rng(1)
    sizes = chance.choice([0, 1, 20, 127, 128, 400], 500)
    values: dict[str, list] = {
        "String": ["x" * size for size in sizes],
        "Nullable(String)": ["y" * size if size != 20 else None for size in sizes],
        "Array(UInt16)": [list(range(size)) for size in sizes],
        "Array(String)": [["z" * (size % 7)] * (size // 3) for size in sizes],
        "UInt32": list(range(500)),
    }
    column = Column("v", parse_type(type_))
    id_ = Column("i", parse_type("UInt16"))
    table = pa.table({"v": pa.array(values[type_], column.type.arrow), "i": pa.array(range(500), pa.uint16())})
    data = row_binary(table, [column, id_], "RowBinary")
    blocks = list(read_blocks("RowBinary", io.BytesIO(data), [column, id_]))
    assert pa.concat_tables(blocks).to_pydict() == table.to_pydict()
    with pytest.raises(UserError) as caught:
        list(read_blocks("RowBinary", io.BytesIO(data[:-1]), [column, id_]))
    assert caught.value.name == "CANNOT_READ_ALL_DATA"


def test_with_types_columns_are_cast_and_unknown_ones_skipped() -> None:
    given = pa.table({"n": pa.array([1, 300], pa.int64()), "x": pa.array(["p", "q"])})
    data = row_binary(given, [Column("n", parse_type("Int64")), Column("x", parse_type("String"))], FORMATS[2])
    (block,) = read_blocks(FORMATS[2], io.BytesIO(data), [Column("n", parse_type("String"))])
    assert block.to_pydict() == {"n": ["1", "300"]}
    with pytest.raises(UserError, match=r"300 is out of range.*row 2, column n"):
        list(read_blocks(FORMATS[2], io.BytesIO(data), [Column("n", parse_type("UInt8"))]))
    named = row_binary(given, [Column("n", parse_type("Int64")), Column("x", parse_type("String"))], FORMATS[1])
    with pytest.raises(UserError, match="Unknown field found in RowBinary header: 'x'"):
        list(read_blocks(FORMATS[1], io.BytesIO(named), [Column("n", parse_type("Int64"))]))


@pytest.mark.parametrize("type_", ["String", "Array(UInt64)", "Array(String)", "Nullable(String)"])
def test_a_length_that_is_not_there_takes_no_memory(type_: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for size in (b"\xff\xff\xff\xff\x07", b"\xff\xff\xff\xff\xff\xff\xff\xff\x7f", b"\xff" * 40):
        data = (b"\0" if type_.startswith("Nullable") else b"") + size + b"abc"
        with pytest.raises(UserError) as caught:
            list(read_blocks("RowBinary", io.BytesIO(data), [Column("v", parse_type(type_))]))
        assert caught.value.name == "CANNOT_READ_ALL_DATA"
    monkeypatch.setattr(row_binary_reader, "MAX_ROW_BYTES", 1 << 20)
    with pytest.raises(UserError, match="longer than"):
        list(read_blocks("RowBinary", io.BytesIO(size + bytes(8 << 20)), [Column("v", parse_type("String"))]))
