"""Completing blocks, and casting the results of queries."""

from __future__ import annotations

import datetime

import pyarrow as pa
import pytest

from parts.common.errors import UserError
from parts.table.table_description import Column, TableSchema
from parts.types import NothingType, parse_type
from sql.definitions.column_defaults import cast_block, complete_block, list_insert_columns
from sql.settings.session_settings import (
    make_settings,
)
from tests.sql.oracle import columns_of, read

SCHEMA = TableSchema(
    (
        Column("a", parse_type("UInt8")),
        Column("b", parse_type("UInt16"), "", "DEFAULT", "c + 1"),
        Column("c", parse_type("UInt16"), "", "DEFAULT", "a + 1"),
        Column("d", parse_type("UInt16"), "", "MATERIALIZED", "b + c"),
        Column("e", parse_type("UInt16"), "", "ALIAS", "a + 100"),
        Column("n", parse_type("Nullable(String)"), "", "DEFAULT", "'none'"),
        Column("s", parse_type("Array(String)")),
    )
)


def test_expressions_fill_what_is_left_out() -> None:
    block = complete_block(pa.table({"a": pa.array([1, 2], pa.uint8())}), SCHEMA)
    assert block.schema == SCHEMA.stored.arrow
    assert block.to_pylist() == [
        {"a": 1, "b": 3, "c": 2, "d": 5, "n": "none", "s": []},
        {"a": 2, "b": 4, "c": 3, "d": 7, "n": "none", "s": []},
    ]


def test_nulls_take_the_default_row_by_row() -> None:
    block = pa.table(
        {"a": pa.array([1, None], pa.uint8()), "b": pa.array([None, 9], pa.uint16()), "n": pa.array([None, "x"])}
    )
    rows = complete_block(block, SCHEMA).to_pylist()
    assert [(row["a"], row["b"], row["c"], row["n"]) for row in rows] == [(1, 3, 2, None), (0, 9, 1, "x")]
    with pytest.raises(UserError, match="Cannot insert NULL") as caught:
        complete_block(block, SCHEMA, settings=make_settings({"input_format_null_as_default": 0}))
    assert caught.value.code == 53


def test_missing_and_null_differ_for_a_nullable_column() -> None:
    data = b'{"a":1,"n":null}\n{"a":2}\n{"a":3,"n":"x"}\n'
    block = complete_block(read(data, list_insert_columns(SCHEMA), "JSONEachRow"), SCHEMA)
    assert block.column("n").to_pylist() == [None, "none", "x"]


def test_empty_and_null_differ_in_csv() -> None:
    columns = [column for column in SCHEMA.columns if column.name in ("a", "n")]
    block = complete_block(read(b'1,\n\\N,\\N\n3,""\n4,x\n', columns, "CSV"), SCHEMA)
    assert block.column("n").to_pylist() == ["none", None, "", "x"]
    assert block.column("a").to_pylist() == [1, 0, 3, 4]


def test_defaults_for_omitted_fields_can_be_off() -> None:
    block = complete_block(
        pa.table({"a": pa.array([1], pa.uint8())}),
        SCHEMA,
        settings=make_settings({"input_format_defaults_for_omitted_fields": 0}),
    )
    assert block.to_pylist() == [{"a": 1, "b": 0, "c": 0, "d": 0, "n": None, "s": []}]


@pytest.mark.parametrize(
    "type_",
    ["UInt8", "String", "FixedString(3)", "Map(String, UInt8)", "Tuple(Int8, Array(String))", "LowCardinality(String)",
     "LowCardinality(Nullable(String))", "Enum8('b' = 2, 'a' = 1)", "UUID", "DateTime64(3)", "Decimal(9, 2)"],
)  # fmt: skip
def test_defaults_of_types(type_: str) -> None:
    schema = TableSchema((Column("k", parse_type("UInt8")), Column("x", parse_type(type_))))
    block = complete_block(pa.table({"k": pa.array([1, 2], pa.uint8())}), schema)
    block.validate(full=True)
    expected = pa.array([schema.columns[1].type.default] * 2, getattr(schema.columns[1].type.arrow, "value_type", None)
                        if "LowCardinality" in type_ else schema.columns[1].type.arrow)  # fmt: skip
    assert block.column("x").to_pylist() == expected.to_pylist()


def test_insertable_columns() -> None:
    assert [column.name for column in list_insert_columns(SCHEMA)] == ["a", "b", "c", "n", "s"]
    assert [column.name for column in list_insert_columns(SCHEMA, ("s", "a"))] == ["s", "a"]
    assert [column.name for column in list_insert_columns(SCHEMA, (), ("a", "s"))] == ["b", "c", "n"]
    for names, code in ((("d",), 44), (("e",), 44), (("zz",), 16), (("a", "a"), 15)):
        with pytest.raises(UserError) as caught:
            list_insert_columns(SCHEMA, names)
        assert caught.value.code == code


def test_invalid_utf8_is_named() -> None:
    bad = pa.Array.from_buffers(
        pa.string(), 2, [None, pa.py_buffer(b"\0\0\0\0\1\0\0\0\2\0\0\0"), pa.py_buffer(b"a\xff")]
    )
    schema = TableSchema((Column("s", parse_type("String")),))
    with pytest.raises(UserError, match=r"Invalid UTF-8 in column s at row 2") as caught:
        complete_block(pa.table({"s": bad}), schema)
    assert caught.value.code == 117


CASTS = [
    ("UInt8", [1, 2], "Int64", [1, 2]),
    ("Int64", [1, -1], "String", ["1", "-1"]),
    ("String", ["1", "2"], "UInt8", [1, 2]),
    ("Float64", [1.9, -1.9], "Int8", [1, -1]),
    ("Float64", [1.999], "Decimal(9, 2)", ["1.99"]),
    ("Decimal(9, 2)", ["1.99", "-1.99"], "Int8", [1, -1]),
    ("Decimal(18, 4)", ["1.2399"], "Decimal(9, 2)", ["1.23"]),
    ("Bool", [True, False], "UInt8", [1, 0]),
    ("UInt8", [2, 0], "Bool", [True, False]),
    ("UInt8", [1, 2], "Nullable(UInt8)", [1, 2]),
    ("Nullable(UInt8)", [1, None], "UInt8", [1, None]),
    ("String", ["a", "b", "a"], "LowCardinality(String)", ["a", "b", "a"]),
    ("LowCardinality(String)", ["1", "2"], "UInt8", [1, 2]),
    ("String", ["a", "b"], "Enum8('a' = 1, 'b' = 2)", [1, 2]),
    ("Enum8('a' = 1, 'b' = 2)", [1, 2], "Enum16('b' = 7, 'a' = 5)", [5, 7]),
    ("Enum8('a' = 1, 'b' = 2)", [1, 2], "String", ["a", "b"]),
    ("String", ["ab"], "FixedString(3)", [b"ab\0"]),
    ("Array(UInt8)", [[1, 2], []], "Array(String)", [["1", "2"], []]),
    ("Map(String, UInt8)", [[("k", 1)]], "Map(String, Nullable(Int64))", [[("k", 1)]]),
    ("Tuple(UInt8, String)", [{"1": 1, "2": "5"}], "Tuple(a Int8, b Int8)", [{"a": 1, "b": 5}]),
]


@pytest.mark.parametrize(("source", "values", "target", "expected"), CASTS, ids=range(len(CASTS)))
def test_casts(source: str, values: list[object], target: str, expected: list[object]) -> None:
    from decimal import Decimal

    def array(type_: str, items: list[object]) -> pa.Array:
        if type_.startswith("Decimal"):
            items = [Decimal(str(item)) for item in items]
        if type_.startswith("LowCardinality"):
            return pa.array(items).dictionary_encode()
        return pa.array(items, parse_type(type_).arrow)

    block = pa.table({"x": array(source, values)})
    (column,) = columns_of({"y": target})
    result = cast_block(block, [parse_type(source)], [column]).column("y")
    assert result.type == column.type.arrow
    assert result.to_pylist() == array(target, expected).to_pylist()


@pytest.mark.parametrize(
    ("source", "value", "target", "code"),
    [
        ("UInt16", 300, "UInt8", 321),
        ("Int8", -1, "UInt8", 321),
        ("Float64", 1e30, "Int64", 321),
        ("String", "abc", "UInt8", 6),
        ("String", "300", "UInt8", 321),
        ("Array(UInt8)", [1], "UInt8", 53),
        ("UUID", b"0" * 16, "UInt8", 53),
        ("Tuple(UInt8)", {"1": 1}, "Tuple(UInt8, UInt8)", 53),
        ("String", "c", "Enum8('a' = 1)", 691),
    ],
)
def test_casts_that_fail(source: str, value: object, target: str, code: int) -> None:
    block = pa.table({"x": pa.array([value], parse_type(source).arrow)})
    with pytest.raises(UserError) as caught:
        cast_block(block, [parse_type(source)], columns_of({"y": target}))
    assert caught.value.code == code, caught.value
    assert "column y" in caught.value.message


def test_number_of_columns() -> None:
    with pytest.raises(UserError) as caught:
        cast_block(pa.table({"x": [1]}), [parse_type("Int64")], columns_of({"y": "Int64", "z": "Int64"}))
    assert caught.value.code == 20


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        ("Date", datetime.date(2200, 1, 1)),
        ("Date", datetime.date(1969, 12, 31)),
        ("DateTime", datetime.datetime(2106, 2, 8)),
    ],
)
def test_nothing_outside_the_range_of_its_type_is_stored(type_: str, value: object) -> None:
    """Arrow's dates go further than ClickHouse's."""
    column = columns_of({"y": type_})
    block = pa.table({"x": pa.array([value], parse_type(type_).arrow)})
    with pytest.raises(UserError, match=r"out of range of type .* \(at row 1, column y") as error:
        cast_block(block, [parse_type(type_)], column)
    assert error.value.code == 321


def test_null_of_no_type() -> None:
    result = cast_block(pa.table({"x": pa.nulls(2)}), [NothingType()], columns_of({"y": "Nullable(String)"}))
    assert result.column("y").to_pylist() == [None, None]


def test_expressions_in_values() -> None:
    columns = columns_of({"a": "UInt8", "s": "String", "d": "Date", "n": "Nullable(Int32)", "l": "Array(UInt8)"})
    data = (
        b"(1 + 1, upper('x'), toDate('2020-01-01'), NULL, [1, 1 + 1]), (3, 'y', '2020-01-02', -5, []), "
        b"(4, 5, 18262, 1, [])"
    )
    rows = read(data, columns, "Values").to_pylist()
    assert [(row["a"], row["s"], str(row["d"]), row["n"], row["l"]) for row in rows] == [
        (2, "X", "2020-01-01", None, [1, 2]),
        (3, "y", "2020-01-02", -5, []),
        (4, "5", "2020-01-01", 1, []),
    ]
    with pytest.raises(UserError, match=r"nonsense.*\(at row 2, column a UInt8\)") as caught:
        read(b"(1), (nonsense(1))", columns[:1], "Values")
    assert caught.value.code == 46


def test_a_materialized_column_may_be_given() -> None:
    settings = make_settings({"insert_allow_materialized_columns": 1})
    assert [column.name for column in list_insert_columns(SCHEMA, ("a", "d"), (), settings)] == ["a", "d"]
    assert "d" not in [column.name for column in list_insert_columns(SCHEMA, (), (), settings)]
    given = pa.table({"a": pa.array([1], pa.uint8()), "d": pa.array([77], pa.uint16())})
    assert complete_block(given, SCHEMA, settings=settings).column("d").to_pylist() == [77]
    for names in (("a", "d"), ("e",)):
        with pytest.raises(UserError, match="Cannot insert column"):
            list_insert_columns(SCHEMA, names, (), settings if names == ("e",) else make_settings({}))
