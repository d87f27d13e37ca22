"""Maps a table's columns to Spark's types, and checks what Spark reads and writes them as.

Unsigned integers are widened; UInt64 is decimal(20,0). FixedString, UUID, IPv4, IPv6 and Enum are strings (FixedString
without its padding zeros; as binary it keeps them). DateTime and DateTime64 are timestamps, which have microseconds
(those with nanoseconds may be read as bigint or string). Array, Map and Tuple are array, map and struct. A column is
nullable if its type is.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import types as spark

from parts.common.errors import UserError
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
    strip_nullable,
)
from spark_connector.shared.options import Options
from spark_connector.shared.transport import Transport

_COMPUTED = ("MATERIALIZED", "ALIAS")
_OPTIONS_KEY = "pando.options"


@dataclass(frozen=True)
class TableColumn:
    """A row of DESCRIBE TABLE. ``default_kind`` is ``""``, DEFAULT, MATERIALIZED or ALIAS."""

    name: str
    type: DataType
    default_kind: str


def describe_table(transport: Transport) -> list[TableColumn]:
    """Returns the table's columns, from the first server that answers."""
    return describe_columns(transport, f"TABLE {transport.options.quoted_name}")


def describe_columns(transport: Transport, what: str) -> list[TableColumn]:
    """Returns the columns of ``what``: ``TABLE name`` or ``(SELECT …)``."""
    sql = f"DESCRIBE {what} FORMAT JSONEachRow"
    answer = transport.try_servers(transport.options.urls, lambda url: transport.query(url, sql)[0])
    rows = [json.loads(line) for line in answer.splitlines() if line]
    return [TableColumn(row["name"], parse_type(row["type"]), row["default_type"]) for row in rows]


def build_readable_schema(
    columns: Sequence[TableColumn], wanted: Sequence[str], table: str, nanoseconds: str = "error"
) -> spark.StructType:
    """Returns the schema of ``SELECT *``, or of the wanted columns.

    These may be MATERIALIZED ones too. ``nanoseconds`` is the option.
    """
    known = {column.name: column for column in columns}
    for name in wanted:
        if name not in known:
            raise UserError(
                "NO_SUCH_COLUMN_IN_TABLE", f"There is no column {name!r} in {table}{_suggest_names(name, list(known))}"
            )
    chosen = [known[name] for name in wanted] or [c for c in columns if c.default_kind not in _COMPUTED]
    exact = _EXACT_INSTANTS.get(nanoseconds)
    return spark.StructType(
        [
            spark.StructField(column.name, exact, column.type.is_nullable)
            if exact is not None and has_nanoseconds(column.type)
            else to_spark_field(column.name, column.type)
            for column in chosen
        ]
    )


_EXACT_INSTANTS: dict[str, spark.DataType] = {"long": spark.LongType(), "string": spark.StringType()}


def has_nanoseconds(type_: DataType) -> bool:
    """Returns whether values may be finer than Spark's timestamps."""
    type_ = strip_nullable(type_)
    return isinstance(type_, DateTime64Type) and type_.unit == "ns"


def store_options_in_schema(schema: spark.StructType, options: Mapping[str, str]) -> spark.StructType:
    """Returns the schema with the options in the metadata of its columns.

    The options have no secrets (see ``refuse_secrets``). Spark keeps the options of ``CREATE TABLE … USING pando`` in
    its catalog, but gives readers and writers only the schema.
    """
    metadata = {_OPTIONS_KEY: json.dumps(dict(options))}
    return spark.StructType([spark.StructField(f.name, f.dataType, f.nullable, metadata) for f in schema.fields])


def read_options_from_schema(schema: spark.StructType) -> dict[str, str]:
    """Returns the options that :func:`store_options_in_schema` stored in a schema."""
    for field in schema.fields:
        if _OPTIONS_KEY in (field.metadata or {}):
            return dict(json.loads(field.metadata[_OPTIONS_KEY]))
    return {}


def to_spark_field(name: str, type_: DataType) -> spark.StructField:
    """Returns the field of a column that is read."""
    return spark.StructField(name, to_spark_type(type_), type_.is_nullable)


def to_spark_type(type_: DataType) -> spark.DataType:
    """Returns the type in which a column is read; nested nullability is exact."""
    match type_:
        case NullableType(inner) | LowCardinalityType(inner):
            return to_spark_type(inner)
        case ArrayType(inner):
            return spark.ArrayType(to_spark_type(inner), inner.is_nullable)
        case MapType(key, value):
            return spark.MapType(to_spark_type(key), to_spark_type(value), value.is_nullable)
        case TupleType(elements):
            return spark.StructType(
                [to_spark_field(name or str(position), inner) for position, (name, inner) in enumerate(elements, 1)]
            )
        case IntegerType(bits, signed):
            return _INTEGERS[bits, signed]
        case FloatType(bits):
            return spark.FloatType() if bits == 32 else spark.DoubleType()
        case DecimalType(precision, scale):
            return spark.DecimalType(precision, scale)
        case BoolType():
            return spark.BooleanType()
        case DateType() | Date32Type():
            return spark.DateType()
        case DateTimeType() | DateTime64Type():
            return spark.TimestampType()
        case StringType() | FixedStringType() | EnumType() | UUIDType() | IPv4Type() | IPv6Type():
            return spark.StringType()
    raise UserError("NOT_IMPLEMENTED", f"Type {type_} has no Spark counterpart")


_INTEGERS: dict[tuple[int, bool], spark.DataType] = {
    (8, True): spark.ByteType(), (16, True): spark.ShortType(),
    (32, True): spark.IntegerType(), (64, True): spark.LongType(),
    (8, False): spark.ShortType(), (16, False): spark.IntegerType(),
    (32, False): spark.LongType(), (64, False): spark.DecimalType(20, 0),
}  # fmt: skip


# -- reading with a schema that the user gave ------------------------------------------------------------------------


def check_read_schema(schema: spark.StructType, columns: Sequence[tuple[str, DataType]]) -> None:
    """Raises 53 if a column cannot be read as the schema says.

    The columns are in the schema's order.
    """
    for field, (name, type_) in zip(schema.fields, columns, strict=True):
        natural = to_spark_type(type_)
        if not _is_readable_as(natural, field.dataType, type_):
            raise UserError(
                "TYPE_MISMATCH",
                f"Column {name!r} of type {type_} cannot be read as {field.dataType.simpleString()}; "
                f"its Spark type is {natural.simpleString()}",
            )
        if type_.is_nullable and not field.nullable:
            raise UserError("TYPE_MISMATCH", f"Column {name!r} of type {type_} cannot be read as NOT NULL")


_WIDTHS = ["tinyint", "smallint", "int", "bigint"]


def _is_readable_as(natural: spark.DataType, wanted: spark.DataType, type_: DataType) -> bool:
    """Returns whether the wanted type is the natural one, or holds every value of it."""
    if _without_nullability(natural) == _without_nullability(wanted):
        return _is_null_safe(natural, wanted)
    source, target = natural.simpleString(), wanted.simpleString()
    if source in _WIDTHS and target in _WIDTHS:
        return _WIDTHS.index(source) <= _WIDTHS.index(target)
    if (source, target) == ("float", "double"):
        return True
    if isinstance(natural, spark.DecimalType) and isinstance(wanted, spark.DecimalType):
        digits = wanted.precision - wanted.scale >= natural.precision - natural.scale
        return digits and wanted.scale >= natural.scale
    if has_nanoseconds(type_):
        return target in ("bigint", "string")
    return isinstance(strip_nullable(type_), FixedStringType) and target == "binary"


def _without_nullability(type_: spark.DataType) -> str:
    return type_.simpleString()


def _is_null_safe(natural: spark.DataType, wanted: spark.DataType) -> bool:
    if isinstance(natural, spark.ArrayType) and isinstance(wanted, spark.ArrayType):
        is_fine = wanted.containsNull or not natural.containsNull
        return is_fine and _is_null_safe(natural.elementType, wanted.elementType)
    if isinstance(natural, spark.MapType) and isinstance(wanted, spark.MapType):
        is_fine = wanted.valueContainsNull or not natural.valueContainsNull
        return is_fine and _is_null_safe(natural.valueType, wanted.valueType)
    if isinstance(natural, spark.StructType) and isinstance(wanted, spark.StructType):
        return all(
            (theirs.nullable or not ours.nullable) and _is_null_safe(ours.dataType, theirs.dataType)
            for ours, theirs in zip(natural.fields, wanted.fields, strict=True)
        )
    return True


# -- writing ---------------------------------------------------------------------------------------------------------


def match_columns_to_write(
    schema: spark.StructType, columns: Sequence[TableColumn], options: Options
) -> list[TableColumn]:
    """Returns the table's columns for those of the data frame, by name.

    Raises 16, 10 or 53 before anything is written.
    """
    known = {column.name: column for column in columns}
    names = schema.fieldNames()
    table = options.full_name
    for field in schema.fields:
        column = known.get(field.name)
        if column is None:
            raise UserError(
                "NO_SUCH_COLUMN_IN_TABLE",
                f"The data frame has a column {field.name!r} that {table} lacks"
                f"{_suggest_names(field.name, list(known))}; drop it or add it to the table",
            )
        if column.default_kind in _COMPUTED:
            raise UserError(
                "ILLEGAL_COLUMN", f"Column {field.name!r} of {table} is {column.default_kind} and cannot be written"
            )
        _check_writable(field, column)
    if len(set(names)) < len(names):
        raise UserError("DUPLICATE_COLUMN", f"The data frame has a column twice: {', '.join(names)}")
    missing = [c.name for c in columns if c.name not in names and not c.default_kind and not c.type.is_nullable]
    if missing:
        raise UserError(
            "NOT_FOUND_COLUMN_IN_BLOCK",
            f"The data frame lacks columns of {table} that have no DEFAULT: {', '.join(missing)}",
        )
    return [known[name] for name in names]


_NUMBERS = frozenset({"tinyint", "smallint", "int", "bigint", "float", "double", "decimal"})
_TEXT_SOURCES = frozenset({"string", "varchar", "char"})
_ACCEPTED: dict[str, frozenset[str]] = {
    "IntegerType": _NUMBERS | {"boolean"}, "FloatType": _NUMBERS, "DecimalType": _NUMBERS,
    "BoolType": frozenset({"boolean", "tinyint", "smallint", "int", "bigint"}),
    "StringType": _TEXT_SOURCES | {"binary"}, "FixedStringType": _TEXT_SOURCES | {"binary"},
    "EnumType": _TEXT_SOURCES, "UUIDType": _TEXT_SOURCES, "IPv4Type": _TEXT_SOURCES, "IPv6Type": _TEXT_SOURCES,
    "DateType": frozenset({"date"}), "Date32Type": frozenset({"date"}),
    "DateTimeType": frozenset({"timestamp"}), "DateTime64Type": frozenset({"timestamp"}),
    "ArrayType": frozenset({"array"}), "MapType": frozenset({"map"}), "TupleType": frozenset({"struct"}),
}  # fmt: skip


def _check_writable(field: spark.StructField, column: TableColumn) -> None:
    if not is_writable_as(field.dataType, column.type):
        advice = ""
        if isinstance(field.dataType, spark.TimestampNTZType):
            advice = "; it has no time zone, so cast it to TIMESTAMP (which uses the session's zone)"
        elif isinstance(strip_nullable(column.type), (DateTimeType, DateTime64Type)):
            advice = "; cast it to TIMESTAMP"
        raise UserError(
            "TYPE_MISMATCH",
            f"Column {field.name!r} is {field.dataType.simpleString()} in the data frame and {column.type} in the table"
            f"{advice}",
        )


def is_writable_as(source: spark.DataType, type_: DataType) -> bool:
    """Returns whether values of the Spark type may fit the column's type.

    Each value is still checked.
    """
    type_ = strip_nullable(type_)
    if source.typeName() == "void":
        return True
    if isinstance(source, spark.ArrayType) and isinstance(type_, ArrayType):
        return is_writable_as(source.elementType, type_.inner)
    if isinstance(source, spark.MapType) and isinstance(type_, MapType):
        return is_writable_as(source.keyType, type_.key) and is_writable_as(source.valueType, type_.value)
    if isinstance(source, spark.StructType) and isinstance(type_, TupleType):
        pairs = zip(source.fields, type_.elements, strict=False)
        return len(source.fields) == len(type_.elements) and all(
            name in (None, field.name) and is_writable_as(field.dataType, inner) for field, (name, inner) in pairs
        )
    if has_nanoseconds(type_) and isinstance(source, spark.LongType):
        return True
    kind = source.simpleString().partition("(")[0].partition("<")[0].partition(" ")[0]
    return kind in _ACCEPTED.get(type(type_).__name__, frozenset())


def _suggest_names(name: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.6)
    exact = [other for other in known if other.lower() == name.lower()]
    near = exact or near
    return f" (maybe {' or '.join(near)})" if near else f"; its columns are: {', '.join(known)}"
