"""A few plain rows are read as any number of rows are: the same blocks, the same errors."""

from __future__ import annotations

import io
from collections.abc import Iterator

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parts.common.errors import UserError
from parts.table.table_description import Column
from parts.types import parse_type
from sql.formats.format_options import FormatOptions
from sql.formats.registry import find_format, read_blocks
from sql.formats.small_inserts import MAX_SMALL_INSERT_BYTES
from sql.formats.streams.row_chunks import PrependedStream, resize_blocks

pytestmark = pytest.mark.long

TYPES = [
    "UInt8", "Int8", "UInt64", "Int64", "Int32", "Float64", "Float32", "String", "Nullable(String)", "Nullable(Int16)",
    "Date", "Nullable(Date)", "DateTime", "DateTime('UTC')", "DateTime('Europe/Berlin')", "DateTime64(3)", "Bool",
    "LowCardinality(String)", "Array(UInt8)", "Decimal(9, 2)", "FixedString(3)", "UUID", "Enum8('a' = 1, 'b' = 2)",
]  # fmt: skip
BARE = [
    "0", "1", "-1", "-0", "007", "127", "128", "255", "256", "-129", "18446744073709551615", "18446744073709551616",
    "9223372036854775808", "1.5", "-2.25", "1.", "0.1", "123456789012345.123456789012345", "1e3",
    "0.30000000000000004", "-0.7853981633974483", "5.421010862427522e-20", "1.7976931348623157E+99", "1e-99", "3e",
    "123456789012345678.123456789012345678", "1234567890123456789.5", "nan", "inf", "NULL",
    "true", "1 + 1", "2020-01-01", "[1, 2]", "+5", "",
]  # fmt: skip
QUOTED = [
    "", "a", "b", "abc", "ä", "1", "-7", "1.5", "2020-01-31", "2020-02-30", "1969-12-31", "2149-06-06", "2149-06-07",
    "2020-1-2", "20200102", "2020-01-02 03:04:05", "2020-01-02 24:00:00", "2106-02-07 06:28:15", "2106-02-07 06:28:16",
    "2020-01-02T03:04:05", "2020-01-02 03:04:05.123", "NULL", r"a\'b", "it''s", r"\t", "x y", "[1]", "\u00a0", "a\nb",
]  # fmt: skip


def outcome(blocks: Iterator[pa.Table]) -> object:
    try:
        found = list(blocks)
    except UserError as error:
        return error.code, error.message
    return pa.concat_tables(found).combine_chunks() if found else None


def check(format: str, data: bytes, columns: list[Column]) -> None:
    entry, options = find_format(format), FormatOptions()
    assert entry.reader is not None
    usual = outcome(resize_blocks(entry.reader(io.BytesIO(data), columns, options), 1 << 20))
    read = outcome(read_blocks(format, io.BytesIO(data), columns))
    assert str(read) == str(usual) if isinstance(usual, pa.Table) else read == usual, (data, read, usual)
    if isinstance(usual, pa.Table):
        assert isinstance(read, pa.Table)
        assert read.equals(usual) or "nan" in str(usual)
        read.validate(full=True)


def columns_of(types: list[str]) -> list[Column]:
    return [Column(f"c{index}", parse_type(type_)) for index, type_ in enumerate(types)]


kinds = st.lists(st.sampled_from(TYPES), min_size=1, max_size=4)


@settings(max_examples=400, deadline=None)
@given(st.data())
def test_values(data: st.DataObject) -> None:
    types = data.draw(kinds)
    literal = st.sampled_from(BARE) | st.sampled_from([f"'{text}'" for text in QUOTED])
    blank = st.sampled_from(["", "", " ", "\n", "\t "])
    rows = data.draw(st.lists(st.lists(literal, min_size=len(types), max_size=len(types)), min_size=1, max_size=3))
    texts = [f"({data.draw(blank)}{','.join(row)}{data.draw(blank)})" for row in rows]
    between = data.draw(st.sampled_from([",", ", ", "", " ,\n", ";", ",,"]))
    text = (
        data.draw(blank) + between.join(texts) + data.draw(st.sampled_from(["", "", ";", ",", " ;\n", "; x", "(", "x"]))
    )
    check("Values", text.encode(), columns_of(types))


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_tab_separated(data: st.DataObject) -> None:
    types = data.draw(kinds)
    field = st.sampled_from([*BARE, *QUOTED, r"\N", "a\rb"])
    rows = data.draw(st.lists(st.lists(field, min_size=len(types), max_size=len(types)), min_size=1, max_size=3))
    text = "\n".join("\t".join(row) for row in rows) + data.draw(st.sampled_from(["", "\n", "\n\n", "\r\n"]))
    check("TabSeparated", text.encode(), columns_of(types))


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_json_each_row(data: st.DataObject) -> None:
    types = data.draw(kinds)
    strings = [f'"{text}"' for text in QUOTED if "\\'" not in text and "\n" not in text]
    value = st.sampled_from([*BARE[:-4], *strings, "null", "[1]", "1.0", '"\\u00e4"', '"\\ud800"', "{}"])
    rows = data.draw(st.lists(st.lists(value, min_size=len(types), max_size=len(types)), min_size=1, max_size=3))
    keys = [f'"c{index}"' for index in range(len(types))]
    if data.draw(st.booleans()):
        keys[-1] = data.draw(st.sampled_from(['"c0"', '"other"', '"c\\u0030"']))
    objects = ["{" + ",".join(f"{key}:{text}" for key, text in zip(keys, row, strict=True)) + "}" for row in rows]
    if data.draw(st.integers(0, 9)) == 0:
        pairs = [f'["c{index}",{text}]' for index, text in enumerate(rows[-1])]
        objects[-1] = data.draw(st.sampled_from([f"[{','.join(rows[-1])}]", f"[{','.join(pairs)}]"]))
    check("JSONEachRow", ("\n".join(objects) + data.draw(st.sampled_from(["", "\n"]))).encode(), columns_of(types))


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_row_binary(data: st.DataObject) -> None:
    types = data.draw(
        st.lists(st.sampled_from([*TYPES[:4], "String", "Date", "DateTime", "Bool"]), min_size=1, max_size=3)
    )
    string = st.binary(max_size=3).map(lambda value: bytes([len(value)]) + value)
    texts = st.lists(string, min_size=1, max_size=6).map(b"".join)
    text = data.draw(st.binary(max_size=40) | texts | st.just(b"\x03abc" * 5) | st.just(bytes(24)))
    check("RowBinary", text, columns_of(types))


@pytest.mark.parametrize(
    "size",
    [MAX_SMALL_INSERT_BYTES - 10, MAX_SMALL_INSERT_BYTES, MAX_SMALL_INSERT_BYTES + 1, 3 * MAX_SMALL_INSERT_BYTES],
)
def test_what_is_not_small_is_joined_again(size: int) -> None:
    row = b"(1,'abc'),"
    data = row * (size // len(row)) + b"(2,'" + b"x" * (size % len(row)) + b"')"
    check("Values", data, columns_of(["UInt8", "String"]))


def test_not_utf8() -> None:
    check("Values", b"(1,'a\xff')", columns_of(["UInt8", "String"]))
    check("TabSeparated", b"1\ta\xff\n", columns_of(["UInt8", "String"]))
    for text in (
        b"\x01\x01\xff",
        b"\x01\x01\xc3\x02\x01\xa9",
        b"\x01\x02\xc3\xa9",
    ):  # the second: half a character each
        check("RowBinary", text, columns_of(["UInt8", "String"]))


@pytest.mark.parametrize("row", ['[1,"x"]', '[["c0",1],["c1","x"]]', "[]", "1", '"c0"', "null"])
def test_a_row_that_is_no_object(row: str) -> None:
    for text in (row, f'{{"c0":1,"c1":"x"}}\n{row}\n'):
        check("JSONEachRow", text.encode(), columns_of(["UInt8", "String"]))


def test_rejoined_gives_the_first_bytes_then_the_rest() -> None:
    stream = PrependedStream(b"abcd", io.BytesIO(b"efg"))
    assert [stream.read(3), stream.read(3), stream.read(2), stream.read()] == [b"abc", b"d", b"ef", b"g"]


@pytest.mark.parametrize(
    ("format", "data"),
    [("JSONEachRow", b'{"c0": 5}'), ("JSONEachRow", b'{"c0": null}'), ("TabSeparated", b"5\n"), ("Values", b"(-0)"),
     ("Values", b"('-0')"), ("Values", b"(5)"), ("RowBinary", b"\x00\x05")],
)  # fmt: skip
@pytest.mark.parametrize(
    "type_", ["UInt8", "Nullable(UInt8)", "LowCardinality(UInt8)", "LowCardinality(Nullable(UInt8))"]
)
def test_one_number_of_every_kind_of_column(format: str, data: bytes, type_: str) -> None:
    check(format, data, columns_of([type_]))
