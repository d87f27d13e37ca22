"""FORMAT Native is ClickHouse's, byte for byte; each reads what the other writes."""

from __future__ import annotations

import io
import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from parts.common.errors import UserError
from parts.common.query_status import MemoryTracker, QueryStatus
from parts.table.table_description import Column
from parts.types import parse_type
from sql.formats.registry import read_blocks, write_blocks
from tests.fuzz.body_values import texts_of
from tests.portions import one_in
from tests.sql.formats.test_formats_oracle import QUERY, ROWS, TYPES
from tests.sql.oracle import Oracle, columns_of, read

MORE = {
    "nothing": ("Nullable(Nothing)", "NULL"),
    "empty": ("Array(Nothing)", "[]"),
    "nullable uuid": (
        "Nullable(UUID)",
        "arrayJoin([toNullable(toUUID('00112233-4455-6677-8899-aabbccddeeff')), NULL])",
    ),
    "nullable decimal": ("Nullable(Decimal(9, 2))", "arrayJoin([CAST(-1.25, 'Nullable(Decimal(9, 2))'), NULL])"),
    "low cardinality": ("LowCardinality(String)", "toLowCardinality('v' || toString(number % 3)) FROM numbers(10)"),
    "with default": ("LowCardinality(String)", "toLowCardinality(if(number % 3 = 1, '', 'x')) FROM numbers(5)"),
    "nullable low": (
        "LowCardinality(Nullable(String))",
        "toLowCardinality(if(number % 3 = 1, NULL, toString(number % 4))) FROM numbers(20)",
    ),
    "inside": (
        "Array(LowCardinality(String))",
        "CAST(arrayMap(x -> toString(x), range(number)), 'Array(LowCardinality(String))') FROM numbers(4)",
    ),
    "inside empty": ("Array(LowCardinality(String))", "[]::Array(LowCardinality(String))"),
    "map": (
        "Map(LowCardinality(String), Array(UInt64))",
        "map(toLowCardinality(toString(number)), range(number)) FROM numbers(4)",
    ),
    "tuple": (
        "Tuple(a LowCardinality(String), b Nullable(Int32))",
        "CAST((toString(number), if(number = 0, NULL, number)), "
        "'Tuple(a LowCardinality(String), b Nullable(Int32))') FROM numbers(3)",
    ),
    "long strings": ("String", "repeat('é', number * 50) FROM numbers(40)"),
    "one long string": ("String", "repeat('x', 300000)"),
    "enum16": ("Enum16('a' = -300, 'b' = 3)", "CAST('b', 'Enum16(\\'a\\' = -300, \\'b\\' = 3)')"),
}


def native(table: pa.Table, columns: list[Column], version: int = 0) -> bytes:
    batches = iter(table.combine_chunks().to_batches())
    described = [(column.name, column.type) for column in columns]
    return b"".join(write_blocks("Native", described, batches, client_protocol_version=version))


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    asked = Oracle()
    definition = ", ".join(f"`{name}` {text}" for name, text in TYPES.items())
    asked.query(f"CREATE OR REPLACE TABLE every_type ({definition}) ENGINE = Memory")
    asked.query(f"INSERT INTO every_type VALUES {', '.join(ROWS)}")
    yield asked
    asked.close()


def test_every_type_is_written_and_read_as_clickhouse_does(oracle: Oracle) -> None:
    columns = columns_of(TYPES)
    table = read(oracle.query(QUERY, "Values"), columns, "Values")
    for column in columns:
        theirs = oracle.query(f"SELECT `{column.name}` FROM ({QUERY})", "Native")
        assert native(table.select([column.name]), [column]) == theirs, column.name
        again = read(theirs, [column], "Native")
        assert repr(again.column(0).to_pylist()) == repr(table.column(column.name).to_pylist()), column.name
        assert again.column(0).type == column.type.arrow


@pytest.mark.parametrize("name", MORE)
def test_shapes_that_are_easily_wrong(oracle: Oracle, name: str) -> None:
    type_, query = MORE[name]
    tail = " SETTINGS max_threads = 1"
    theirs = oracle.query(
        f"SELECT {query.replace(' FROM', ' AS a FROM', 1) if ' FROM' in query else query + ' AS a'}{tail}", "Native"
    )
    column = Column("a", parse_type(type_))
    assert f"a{chr(len(type_))}{type_}".encode() in theirs
    table = read(theirs, [column], "Native")
    assert native(table, [column]) == theirs


def test_clickhouse_reads_what_is_written(oracle: Oracle, tmp_path: Path) -> None:
    columns = columns_of(TYPES)
    table = read(oracle.query(QUERY, "Values"), columns, "Values")
    (tmp_path / "ours.native").write_bytes(native(table, columns))
    names = ", ".join(f"`{name}`" for name in TYPES)
    oracle.query("CREATE OR REPLACE TABLE again AS every_type")
    oracle.query(f"INSERT INTO again SELECT {names} FROM file('{tmp_path / 'ours.native'}', Native)")
    assert oracle.query(QUERY.replace("every_type", "again"), "TSV") == oracle.query(QUERY, "TSV")


def test_the_clients_protocol_adds_info_and_a_byte_per_column() -> None:
    column = Column("a", parse_type("UInt8"))
    table = pa.table({"a": pa.array([7], pa.uint8())})
    assert native(table, [column]) == b"\x01\x01\x01a\x05UInt8\x07"
    info = b"\x01\x00\x02\xff\xff\xff\xff\x00"
    assert native(table, [column], 54405) == info + b"\x01\x01\x01a\x05UInt8\x07"
    assert native(table, [column], 54454) == info + b"\x01\x01\x01a\x05UInt8\x00\x07"


def test_no_rows_are_one_block_that_names_the_columns() -> None:
    columns = [Column("a", parse_type("UInt8")), Column("b", parse_type("LowCardinality(String)"))]
    ours = native(pa.table({"a": pa.array([], pa.uint8()), "b": pa.array([], columns[1].type.arrow)}), columns)
    assert ours == b"\x02\x00\x01a\x05UInt8\x01b\x16LowCardinality(String)"
    assert list(read_blocks("Native", io.BytesIO(ours), columns)) == []


@pytest.mark.parametrize(
    "type_", ["LowCardinality(Date)", "Array(LowCardinality(DateTime))", "Tuple(LowCardinality(UUID))"]
)
def test_blocks_without_rows_are_read(type_: str) -> None:
    columns = [Column("a", parse_type(type_))]
    empty = b"".join(write_blocks("Native", [("a", columns[0].type)], iter(())))
    assert list(read_blocks("Native", io.BytesIO(empty + empty), columns)) == []


def test_columns_of_another_type_are_cast_and_unknown_ones_skipped() -> None:
    given = pa.table({"n": pa.array([1, 2, 300], pa.int64()), "x": pa.array(["p", "q", "r"])})
    data = native(given, [Column("n", parse_type("Int64")), Column("x", parse_type("String"))])
    wanted = [Column("n", parse_type("LowCardinality(String)"))]
    (block,) = read_blocks("Native", io.BytesIO(data), wanted)
    assert block.to_pydict() == {"n": ["1", "2", "300"]}
    with pytest.raises(UserError, match=r"300 is out of range.*at row 3, column n UInt8"):
        list(read_blocks("Native", io.BytesIO(data), [Column("n", parse_type("UInt8"))]))


@pytest.mark.parametrize("type_", ["String", "Tuple(UInt8, String)", "LowCardinality(String)"])
def test_bytes_of_a_fixed_string_that_are_no_text_do_not_become_a_string(type_: str) -> None:
    data = b"\x01\x02\x01a\x0eFixedString(2)" + b"ab\xc3("
    with pytest.raises(UserError, match=r"UTF-8.*row 2, column a"):
        list(read_blocks("Native", io.BytesIO(data), [Column("a", parse_type(type_))]))


@pytest.mark.parametrize("rows", [0, 1, 1000, 200_000])
def test_many_strings_of_all_lengths(rows: int) -> None:
    chance = np.random.default_rng(rows)
    lengths = chance.choice([0, 1, 5, 127, 128, 129, 300], rows, p=[0.3, 0.3, 0.3, 0.04, 0.02, 0.02, 0.02])
    table = pa.table({"s": pa.array(["é" * (size // 2) + "x" * (size % 2) for size in lengths])})
    column = Column("s", parse_type("String"))
    blocks = list(read_blocks("Native", io.BytesIO(native(table, [column])), [column]))
    assert pa.concat_tables(blocks).column("s").to_pylist() == table.column("s").to_pylist() if rows else not blocks


BAD = {
    b"\x01\x01\x01a\x05UInt8": "CANNOT_READ_ALL_DATA",
    b"\x01\xff\xff\xff\xff\x07\x01a\x06String\x01x": "CANNOT_READ_ALL_DATA",
    b"\x01\xff\xff\xff\xff\xff\xff\xff\xff\x7f\x01a\x06String": "INCORRECT_DATA",
    b"\x01\x01\x01a\x06String\xff\xff\xff\xff\x7f": "TOO_LARGE_STRING_SIZE",
    b"\x01\x01\x01a\x06String\x02\xff\xfe": "INCORRECT_DATA",
    b"\x01\x01\x01a\x0cArray(UInt8)" + (1 << 40).to_bytes(8, "little"): "INCORRECT_DATA",
    b"\x01\x02\x01a\x0cArray(UInt8)" + (2).to_bytes(8, "little") + (1).to_bytes(8, "little") + b"xx": "INCORRECT_DATA",
    b"\x01\x01\x01a\x16LowCardinality(String)" + bytes(8): "INCORRECT_DATA",
    b"\x01\x01\x01a\x16LowCardinality(String)" + b"\x01" + bytes(7) + b"\x00\x06" + bytes(6) + b"\x01" + bytes(7)
    + b"\x00" + b"\x01" + bytes(7) + b"\x05": "INCORRECT_DATA",
    b"\x01\x01\x01a\x06String\x01x\x01\x01\x01b\x06String\x01x": "THERE_IS_NO_COLUMN",
    b"\x01\x01\x01a\x07Strange\x00": "UNKNOWN_TYPE",
    b"\x02\x01\x01a\x05UInt8\x01\x01a\x05UInt8\x01": "INCORRECT_DATA",
    b"\x01\x01\x01a\x0dDecimal(9, 2)\xff\xff\xff\x7f": "VALUE_IS_OUT_OF_RANGE_OF_DATA_TYPE",
}  # fmt: skip


def test_blocks_have_the_same_columns() -> None:
    columns = [Column("a", parse_type("String")), Column("b", parse_type("String"))]
    data = b"\x01\x01\x01a\x06String\x01x" + b"\x02\x01\x01a\x06String\x01x\x01b\x06String\x01x"
    with pytest.raises(UserError, match="behind one of"):
        list(read_blocks("Native", io.BytesIO(data), columns))


@pytest.mark.parametrize("data", BAD)
def test_what_is_malformed_is_refused(data: bytes) -> None:
    memory = MemoryTracker("for query", 100 << 20)
    with pytest.raises(UserError) as caught:
        list(read_blocks("Native", io.BytesIO(data), [Column("a", parse_type("String"))], status=QueryStatus(memory)))
    assert caught.value.name == BAD[data], caught.value
    assert memory.used_bytes == 0


def test_nothing_is_allocated_for_elements_that_are_only_announced(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    zeros = np.zeros
    monkeypatch.setattr(np, "zeros", lambda shape, *more: made.append(shape) or zeros(shape, *more))
    data = b"\x01\x01\x01a\x13Array(Array(UInt8))" + (2**31 - 1).to_bytes(8, "little")
    with pytest.raises(UserError, match="cut off"):
        list(read_blocks("Native", io.BytesIO(data), [Column("a", parse_type("Array(Array(UInt8))"))]))
    assert max(made, default=0) < 1000


# Any type, any values -------------------------------------------------------------------------------------------------


LEAVES = ("UInt8", "Int64", "Float64", "Bool", "Decimal(18, 4)", "Decimal(38, 10)", "String", "FixedString(5)", "Date",
          "Date32", "DateTime", "DateTime64(1)", "DateTime64(9)", "UUID", "IPv4", "IPv6",
          "Enum16('a' = -300, 'b' = 7)")  # fmt: skip


KEYS = ("String", "UInt8", "LowCardinality(String)")


def any_type() -> st.SearchStrategy[str]:
    leaf = st.sampled_from(LEAVES)
    column = leaf | leaf.map("Nullable({})".format) | st.sampled_from(
        ["LowCardinality(String)", "LowCardinality(Nullable(String))", "LowCardinality(FixedString(5))"]
    )  # fmt: skip
    return st.recursive(
        column,
        lambda inner: st.one_of(
            inner.map("Array({})".format),
            st.tuples(st.sampled_from(KEYS), inner).map("Map({0[0]}, {0[1]})".format),
            st.tuples(inner, inner).map("Tuple(a {0[0]}, b {0[1]})".format),
        ),
        max_leaves=4,
    )


@pytest.mark.parametrize("name", one_in(2, ["Native", "RowBinaryWithNamesAndTypes", "RowBinary"]))
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(types=st.lists(any_type(), min_size=1, max_size=4), rows=st.integers(1, 60), data=st.data())
def test_what_is_written_is_read(name: str, types: list[str], rows: int, data: st.DataObject) -> None:
    columns = [Column(f"c{index}", parse_type(text)) for index, text in enumerate(types)]
    chance = random.Random(data.draw(st.integers(0, 1 << 32)))
    arrays = []
    for column in columns:
        texts = texts_of(column.type)
        lines = "".join(chance.choice(texts) + "\n" for _ in range(rows))
        arrays.append(read(lines.encode(), [column], "TabSeparated").column(column.name))
    table = pa.table(arrays, names=[column.name for column in columns])
    batches = iter(table.combine_chunks().to_batches())
    written = b"".join(write_blocks(name, [(column.name, column.type) for column in columns], batches))
    again = read(written, columns, name)
    assert repr(again.to_pylist()) == repr(table.to_pylist())
    assert again.schema.types == [column.type.arrow for column in columns]
