"""What is written is read back, whatever the values."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parts.table.table_description import Column
from parts.types import (
    ArrayType,
    DataType,
    LowCardinalityType,
    MapType,
    NullableType,
    TupleType,
    parse_type,
)
from tests.portions import one_in
from tests.sql.oracle import read, write

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
SIMPLE: dict[str, st.SearchStrategy[Any]] = {
    "UInt8": st.integers(0, 255),
    "Int64": st.integers(-(2**63), 2**63 - 1),
    "UInt64": st.integers(0, 2**64 - 1),
    "Float64": st.floats(allow_nan=False, allow_infinity=False),
    "Float32": st.floats(width=32, allow_nan=False, allow_infinity=False),
    "Bool": st.booleans(),
    "Decimal(12, 3)": st.decimals(-999999999, 999999999, places=3, allow_nan=False).map(lambda d: Decimal(d)),
    "String": text,
    "FixedString(8)": st.text("ab\t'\"\\,é", max_size=4).map(lambda s: s.encode().ljust(8, b"\0")),
    "Date": st.dates(dt.date(1970, 1, 1), dt.date(2149, 6, 6)),
    "Date32": st.dates(dt.date(1900, 1, 1), dt.date(2299, 12, 31)),
    "DateTime('UTC')": st.datetimes(dt.datetime(1970, 1, 1), dt.datetime(2106, 2, 7)).map(
        lambda t: t.replace(microsecond=0)
    ),
    "DateTime('Asia/Tokyo')": st.datetimes(dt.datetime(1971, 1, 1), dt.datetime(2106, 2, 1)).map(
        lambda t: t.replace(microsecond=0)
    ),
    "DateTime64(6, 'UTC')": st.datetimes(dt.datetime(1900, 1, 2), dt.datetime(2262, 1, 1)),
    "UUID": st.binary(min_size=16, max_size=16),
    "IPv4": st.integers(0, 2**32 - 1),
    "IPv6": st.binary(min_size=16, max_size=16),
    "Enum8('b\\'' = -2, 'a' = 1)": st.sampled_from([1, -2]),
}  # fmt: skip


def values_of(type_: DataType) -> st.SearchStrategy[Any]:
    if isinstance(type_, NullableType):
        return st.none() | values_of(type_.inner)
    if isinstance(type_, LowCardinalityType):
        return values_of(type_.inner)
    if isinstance(type_, ArrayType):
        return st.lists(values_of(type_.inner), max_size=3)
    if isinstance(type_, MapType):
        return st.dictionaries(values_of(type_.key), values_of(type_.value), max_size=3).map(lambda d: list(d.items()))
    if isinstance(type_, TupleType):
        names = [name or str(index) for index, (name, _) in enumerate(type_.elements, 1)]
        inner = st.tuples(*(values_of(kind) for _, kind in type_.elements))
        return inner.map(lambda items: dict(zip(names, items, strict=True)))
    return SIMPLE[str(type_)]


simple = st.sampled_from(sorted(SIMPLE)).map(parse_type)
keys = st.sampled_from(["String", "UInt8", "Date"]).map(parse_type)
composite = st.recursive(
    simple | simple.map(NullableType),
    lambda inner: (
        inner.map(ArrayType)
        | st.builds(MapType, keys, inner)
        | st.lists(inner, min_size=1, max_size=3).map(lambda kinds: TupleType(tuple((None, kind) for kind in kinds)))
        | st.lists(inner, min_size=1, max_size=2).map(
            lambda kinds: TupleType(tuple((f"n{i}", kind) for i, kind in enumerate(kinds)))
        )
    ),
    max_leaves=4,
)
types = composite | st.sampled_from(["LowCardinality(String)", "LowCardinality(Nullable(UInt8))"]).map(parse_type)

TEXT = ["TSV", "TSVWithNamesAndTypes", "CSV", "CSVWithNamesAndTypes", "Values", "JSONEachRow"]


@pytest.mark.parametrize("format", one_in(8, [*TEXT, "Parquet", "Arrow", "ArrowStream"]))
@settings(max_examples=60, deadline=None)
@given(kinds=st.lists(types, min_size=1, max_size=3), data=st.data())
def test_round_trip(format: str, kinds: list[DataType], data: st.DataObject) -> None:
    columns = [Column(f"c'{index}", type_) for index, type_ in enumerate(kinds)]
    rows = data.draw(st.integers(1, 4))
    arrays = []
    for column in columns:
        values = data.draw(st.lists(values_of(column.type), min_size=rows, max_size=rows))
        arrays.append(pa.array(values, column.type.arrow))
    table = pa.Table.from_arrays(arrays, names=[column.name for column in columns])
    again = read(write(table, columns, format), columns, format)
    assert again.schema.types == table.schema.types
    assert again.to_pylist() == table.to_pylist()


@settings(max_examples=30, deadline=None)
@given(texts=st.lists(text, min_size=1, max_size=5), format=st.sampled_from(TEXT))
def test_one_string_column(texts: list[str], format: str) -> None:
    columns = [Column("s", parse_type("String"))]
    table = pa.table({"s": pa.array(texts, pa.string())})
    assert read(write(table, columns, format), columns, format).to_pylist() == table.to_pylist()
