"""Maps and tuples in JSON lines: what the reader of columns takes is what the exact reader of values takes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from parts.common.errors import UserError
from parts.table.table_description import Column
from parts.types import NullableType, StringType, parse_type
from sql.formats.format_options import FormatOptions
from sql.formats.json.arrow_parser import parse_lines, parse_string_lines
from sql.formats.json.compact_reader import read_strings_exactly
from sql.formats.json.line_rewriting import rewrite_as_objects, rows_with_keys
from sql.formats.json.object_reader import object_rows, read_objects_exactly
from tests.sql.oracle import columns_of, read

OPTIONS = FormatOptions()
TEXTS = st.text('ak01"\\[]{}:, né', max_size=4)
WIDE = st.sampled_from([0, -1, 12, 1.25, -0.5, 1.125, 1e22, 12345678, 123456789, 10**34, 10**37, 10**40, True])
NUMBERS = st.integers(0, 300) | st.integers(0, 9).map(str)


def tuples(*inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.tuples(*inner).map(list)


VALUES: dict[str, st.SearchStrategy[Any]] = {
    "Map(String, UInt8)": st.dictionaries(TEXTS, NUMBERS, max_size=3),
    "Map(UInt8, Array(String))": st.dictionaries(st.integers(0, 9).map(str), st.lists(TEXTS, max_size=2), max_size=3),
    "Map(String, Map(String, Nullable(Int8)))": st.dictionaries(
        TEXTS, st.dictionaries(TEXTS, NUMBERS | st.none(), max_size=2), max_size=2
    ),
    "Tuple(UInt8, String)": tuples(NUMBERS, TEXTS),
    "Tuple(Nullable(UInt8))": tuples(NUMBERS | st.none()),
    "Array(Tuple(String, Map(String, UInt8)))": st.lists(
        tuples(TEXTS, st.dictionaries(TEXTS, NUMBERS, max_size=2)), max_size=3
    ),
    "Tuple(a UInt8, m Map(String, UInt8))": st.builds(
        lambda number, inner, is_list: [number, inner] if is_list else {"a": number, "m": inner},
        NUMBERS,
        st.dictionaries(TEXTS, NUMBERS, max_size=2),
        st.booleans(),
    ),
    "LowCardinality(String)": TEXTS,
    "Decimal(10, 2)": WIDE | WIDE.map(str),
    "Array(Decimal(38, 4))": st.lists(WIDE, max_size=2),
    "DateTime": st.integers(-1, 3) | st.just("2020-01-02 03:04:05"),
    "Map(String, Enum8('a' = 1, 'b' = 0))": st.dictionaries(TEXTS, st.sampled_from([1, 0, "a", "b"]), max_size=2),
}


@st.composite
def bodies(draw: st.DrawFn) -> tuple[list[Column], bytes]:
    """Rows of two columns, with a byte changed now and then."""
    names = draw(st.lists(st.sampled_from(list(VALUES)), min_size=1, max_size=2))
    columns = [Column(f"c{place}", parse_type(name)) for place, name in enumerate(names)]
    rows = []
    for _ in range(draw(st.integers(1, 4))):
        row = {column.name: draw(VALUES[name] | st.none()) for column, name in zip(columns, names, strict=True)}
        if draw(st.booleans()):
            row["other"] = draw(TEXTS | st.dictionaries(TEXTS, TEXTS, max_size=1))
        rows.append(
            json.dumps(row, ensure_ascii=draw(st.booleans()), separators=draw(st.sampled_from([(",", ":"), None])))
        )
    body = bytearray(draw(st.sampled_from(["\n", "\n", ",\n", "\n,", ",,\n"])).join(rows).encode())
    for _ in range(draw(st.sampled_from([0, 0, 1, 2]))):
        place = draw(st.integers(0, len(body) - 1))
        body[place : place + draw(st.integers(0, 2))] = draw(
            st.sampled_from([b"", *(bytes([b]) for b in b'[]{}:,"\\1n \n')])
        )
    return columns, bytes(body)


def check_same(columns: list[Column], chunk: bytes) -> bool:
    objects = rewrite_as_objects(chunk, [(column.name, column.type) for column in columns], is_compact=False)
    table = None if objects is None else parse_lines(objects, columns, OPTIONS)
    if table is not None:
        exact = read_objects_exactly(chunk, columns, OPTIONS, 1)  # raises where it refuses what was taken
        assert table.to_pylist() == exact.to_pylist()
        assert table.schema == exact.schema
    return table is not None


@pytest.mark.long
@settings(deadline=None, max_examples=400)
@given(bodies())
@example((columns_of({"m": "Map(String, UInt8)"}), b'{"m":{{"0":"a","1":1}}}'))
@example((columns_of({"m": "Map(String, UInt8)"}), b'{"m":{null}}'))
@example((columns_of({"m": "Map(String, UInt8)"}), b'{"m":{null:1}}'))
@example((columns_of({"m": "Map(String, UInt8)"}), b'{"m":{"a","b":1}}'))
@example((columns_of({"m": "Map(String, UInt8)"}), b'{"m":[{"0":"a","1":1}]}'))
@example((columns_of({"m": "Map(String, UInt8)"}), b'{"m":{"a":1,"a":2}}'))
@example((columns_of({"t": "Tuple(UInt8, String)"}), b'{"\\u0074":{"0":1,"1":"x"}}'))
@example((columns_of({"t": "Tuple(UInt8, String)"}), b'{"t":{"0":1,"1":"x"}}'))
@example((columns_of({"d": "DateTime"}), b'{"d":1}\n{"d":-0}'))
@example((columns_of({"d": "Decimal(10, 4)"}), b'{"d":1234567890123456789012345678901234567}'))
@example((columns_of({"d": "Decimal(10, 4)"}), b'{"d":1e37}\n{"d":1E37}'))
@example((columns_of({"t": "Tuple(UInt8, String)"}), b'{"t":[1,"x"],"t":[2,"y"]}'))
def test_what_is_taken_is_what_the_exact_reader_takes(body: tuple[list[Column], bytes]) -> None:
    check_same(*body)


@pytest.mark.parametrize(
    ("type_", "values"),
    [
        ("Map(String, UInt8)", ["{}", '{"a":1, "b,{": 2}', "null", "{ }"]),
        ("Decimal(10, 2)", ["1", '"2.5"', "3.25"]),
        ("DateTime64(3)", ["1700000000", "null"]),
        ("Map(String, DateTime)", ['{"a":1900000000}', '{"b":1}']),
        ("Map(UInt8, Array(String))", ['{"1":["x"],"2":[]}', "{}"]),
        ("Tuple(UInt8, String)", ['[1, "x"]', '[2,"]"]']),
        ("Tuple(Nullable(UInt8))", ["[1]", "[null]"]),
        ("Array(Tuple(String, Map(String, Array(UInt64))))", ["[]", '[["x",{"k":["1","2"]}],["y",{}]]']),
        ("Tuple(a UInt8, m Map(String, UInt8))", ['{"m":{"x":1},"a":1}', '[2,{"y":2}]']),
    ],
)
def test_plain_rows_are_taken(type_: str, values: list[str]) -> None:
    body = "\n".join(f'{{"other":{{"c":[1]}},"c":{value}}}' for value in values)
    assert check_same(columns_of({"c": type_}), body.encode())


STRINGS = st.sampled_from(["1", "x", "[1, 2]", "{'a':1}", "NULL", "ᴺᵁᴸᴸ", "\\N", "", "\n", "0.5", 'a"b', "\ud800"])


@settings(deadline=None)
@given(
    st.lists(
        st.dictionaries(st.sampled_from(["a", "b"]), STRINGS | st.none() | st.integers(0, 9), max_size=2), min_size=1
    ),
    st.sampled_from(["String", "Nullable(String)", "UInt8", "Array(UInt8)", "Map(String, UInt8)", "Decimal(5, 2)"]),
)
def test_strings_are_read_as_one_by_one(rows: list[dict[str, Any]], type_: str) -> None:
    chunk = "\n".join(json.dumps(row) for row in rows).encode()
    columns = columns_of({"a": type_, "b": "String"})
    table = parse_string_lines(chunk, columns, OPTIONS)
    if table is not None:
        exact = read_strings_exactly(chunk, columns, OPTIONS, 1)
        assert table.to_pylist() == exact.to_pylist()


@pytest.mark.parametrize(
    ("type_", "body"),
    [
        ("Map(String, UInt8)", '{"c":{"a":1}}\n{"c":{"b":300}}'),
        ("Map(String, UInt8)", '{"c":{"a":1}}\n{"c":{"b":null}}'),
        ("Map(String, UInt8)", '{"c":{"a":1}}\n{"c":["b",1]}'),
        ("Tuple(UInt8, String)", '{"c":[1,"x"]}\n{"c":[1,"x",2]}'),
        ("Tuple(UInt8, String)", '{"c":[1,"x"]}\n{"c":{"0":1,"1":"x"}}'),
        ("Array(Map(String, UInt8))", '{"c":[{"a":1}]}\n{"c":[{"a":1},{"b":"x"}]}'),
    ],
)
@pytest.mark.parametrize("is_compact", [False, True])
def test_the_bad_row_is_named(type_: str, body: str, is_compact: bool) -> None:
    format_name = "JSONCompactEachRow" if is_compact else "JSONEachRow"
    lines = [json.loads(line)["c"] for line in body.split("\n")]
    data = "\n".join(json.dumps([line]) for line in lines) if is_compact else body
    with pytest.raises(UserError, match=r"at row 2, column c"):
        read(data.encode(), columns_of({"c": type_}), format_name)


@settings(deadline=None)
@given(bodies())
@example((columns_of({"c0": "Nullable(UInt8)"}), b'{"c0":1}\n{"c0":null}\n{}\n{"a":{"c0":1}}\n{"c0":2,"a":[]}'))
@pytest.mark.long
def test_left_out_columns_are_told(body: tuple[list[Column], bytes]) -> None:
    columns = [Column(column.name, NullableType(StringType()), default_kind="DEFAULT") for column in body[0]]
    found = rows_with_keys(body[1], [column.name for column in columns])
    try:
        rows = object_rows(body[1], columns, OPTIONS, 1)
    except UserError:
        return
    if found is not None:
        assert [list(rows_of_key) for rows_of_key in found] == [[c.name in row for row in rows] for c in columns]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_rows_of_an_array_are_taken(end: str) -> None:
    columns = columns_of({"a": "UInt8", "b": "String"})
    rows = [{"a": number, "b": "},\n{[,"} for number in range(5)]
    body = f"[{end}" + f",{end}".join(map(json.dumps, rows)) + f"{end}]{end}"
    assert read(body.encode(), columns, "JSONEachRow").to_pylist() == rows
    assert check_same(columns, body.strip().strip("[]").encode())
