"""Random types, schemas and blocks for the tests of the parts room."""

from __future__ import annotations

import datetime
import decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from parts.table.table_description import Column, Key, PartSettings, TableDescription, TableSchema, make_column_key
from parts.types import (
    ArrayType,
    BoolType,
    DataType,
    Date32Type,
    DateTime64Type,
    DateTimeType,
    DateType,
    DecimalType,
    EnumType,
    FixedStringType,
    FloatType,
    IntegerType,
    IPv4Type,
    IPv6Type,
    LowCardinalityType,
    MapType,
    NullableType,
    StringType,
    TupleType,
    UUIDType,
    parse_type,
)

SCALAR_TYPES = [
    "UInt8", "UInt16", "UInt32", "UInt64", "Int8", "Int16", "Int32", "Int64", "Float32", "Float64", "Bool",
    "Decimal(9, 2)", "Decimal(18, 4)", "Decimal(38, 10)", "String", "FixedString(5)", "Date", "Date32", "DateTime",
    "DateTime('Europe/Berlin')", "DateTime64(0)", "DateTime64(3)", "DateTime64(6, 'UTC')", "DateTime64(9)", "UUID",
    "IPv4", "IPv6",
    "Enum8('a' = -3, 'b' = 7)", "Enum16('x' = 1, 'y' = 3000)",
]  # fmt: skip
NESTED_TYPES = [
    "Nullable(Int32)", "Nullable(String)", "Nullable(Float64)", "Nullable(Bool)", "Nullable(Decimal(20, 3))",
    "Nullable(FixedString(3))",
    "Nullable(DateTime)", "Nullable(UUID)", "LowCardinality(String)", "LowCardinality(Nullable(String))",
    "LowCardinality(Int64)",
    "Array(Int64)", "Array(String)", "Array(Array(Nullable(Int8)))", "Array(LowCardinality(String))",
    "Map(String, Int32)",
    "Map(Int64, Array(String))", "Tuple(Int32, String)", "Tuple(a Nullable(Int64), b Array(Date))",
    "Array(Tuple(UInt8, Bool))",
]  # fmt: skip
ALL_TYPES = SCALAR_TYPES + NESTED_TYPES

_EPOCH = datetime.datetime(1970, 1, 1)


def values_of(type_: DataType) -> st.SearchStrategy[Any]:
    """Python values that ``pa.array(values, type_.arrow)`` takes."""
    if isinstance(type_, NullableType):
        return st.none() | values_of(type_.inner)
    if isinstance(type_, LowCardinalityType):
        return values_of(type_.inner)
    if isinstance(type_, IntegerType):
        return st.integers(type_.minimum, type_.maximum) | st.integers(max(type_.minimum, -3), 3)
    if isinstance(type_, FloatType):
        return st.floats(width=type_.bits)
    if isinstance(type_, BoolType):
        return st.booleans()
    if isinstance(type_, DecimalType):
        limit = 10**type_.precision - 1
        context = decimal.Context(prec=60)
        return st.integers(-limit, limit).map(lambda n: decimal.Decimal(n).scaleb(-type_.scale, context))
    if isinstance(type_, StringType):
        return st.text(max_size=12) | st.sampled_from(["", "a", "b", "ä", "a\0"])
    if isinstance(type_, (FixedStringType, UUIDType, IPv6Type)):
        size = type_.length if isinstance(type_, FixedStringType) else 16
        return st.binary(min_size=size, max_size=size)
    if isinstance(type_, DateType):
        return st.integers(0, 65535).map(lambda days: datetime.date(1970, 1, 1) + datetime.timedelta(days))
    if isinstance(type_, Date32Type):
        return st.dates(datetime.date(1900, 1, 1), datetime.date(2299, 12, 31))
    if isinstance(type_, (DateTimeType, DateTime64Type)):
        seconds = st.integers(0, 2**32 - 1)
        return seconds.map(lambda s: _EPOCH + datetime.timedelta(seconds=s))
    if isinstance(type_, IPv4Type):
        return st.integers(0, 2**32 - 1)
    if isinstance(type_, EnumType):
        return st.sampled_from([number for _, number in type_.values])
    if isinstance(type_, ArrayType):
        return st.lists(values_of(type_.inner), max_size=3)
    if isinstance(type_, MapType):
        return st.lists(st.tuples(values_of(type_.key), values_of(type_.value)), max_size=3)
    if isinstance(type_, TupleType):
        names = [name or str(i) for i, (name, _) in enumerate(type_.elements, 1)]
        return st.tuples(*(values_of(t) for _, t in type_.elements)).map(lambda v: dict(zip(names, v, strict=True)))
    raise AssertionError(type_)


def arrow_array(values: list[Any], type_: DataType) -> pa.Array:
    if isinstance(type_, LowCardinalityType):
        return pa.array(values, type_.inner.arrow).dictionary_encode().cast(type_.arrow)
    return pa.array(values, type_.arrow)


def description_of(
    columns: list[tuple[str, str] | tuple[str, str, str]],
    order_by: tuple[str, ...] = (),
    partition_by: tuple[str, ...] = (),
    **settings: Any,
) -> TableDescription:
    """A table of plain-column keys; by default packed parts and a tiny granularity."""
    schema = TableSchema(tuple(Column(c[0], parse_type(c[1]), c[2] if len(c) > 2 else "") for c in columns))
    sorting: Key = make_column_key(schema, order_by)
    options = {"index_granularity": 4, "min_bytes_for_wide_part": 1 << 40, **settings}
    return TableDescription(
        schema,
        sorting,
        sorting,
        make_column_key(schema, partition_by),
        make_column_key(schema, ()),
        PartSettings(**options),
    )


WIDE = {"min_bytes_for_wide_part": 0}
COMPACT = {"min_bytes_for_full_part_storage": 0}
KINDS: dict[str, dict[str, Any]] = {"Packed": {}, "Compact": COMPACT, "Wide": WIDE}
"""What the settings make of a small part."""


def block_of(description: TableDescription, rows: list[tuple[Any, ...]]) -> pa.Table:
    columns = description.schema.columns
    arrays = [arrow_array([row[i] for row in rows], column.type) for i, column in enumerate(columns)]
    return pa.Table.from_arrays(arrays, schema=description.schema.arrow)


@st.composite
def blocks(draw: st.DrawFn, description: TableDescription, max_rows: int = 30) -> pa.Table:
    rows = draw(st.lists(st.tuples(*(values_of(c.type) for c in description.schema.columns)), max_size=max_rows))
    block = block_of(description, rows)
    if len(rows) > 2 and draw(st.booleans()):  # chunks and slices must not matter
        cut = draw(st.integers(1, len(rows) - 1))
        block = pa.concat_tables([block.slice(0, cut), block.slice(cut)])
    return block


def plain(table: pa.Table) -> pa.Table:
    """Without dictionaries and chunks, for comparison of values."""
    columns = [c.cast(c.type.value_type) if pa.types.is_dictionary(c.type) else c for c in table.columns]
    return pa.table(columns, names=table.column_names).combine_chunks()


def same_rows(left: pa.Table, right: pa.Table) -> bool:
    """Equal values in equal order; NaN equals NaN."""
    from parts.format.content_hash import hash_block

    return left.num_rows == right.num_rows and hash_block(plain(left)) == hash_block(plain(right))
