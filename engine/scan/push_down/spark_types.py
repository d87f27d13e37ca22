"""Maps types of columns to Spark's, as the JSON of ``StructType``, and these to Arrow's.

Unsigned integers are widened; UInt64 is ``decimal(20,0)``. FixedString, UUID, addresses and Enum are strings. DateTime
and DateTime64 are timestamps, which have microseconds. Array, Map and Tuple are array, map and struct. A column is
nullable if its type is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from engine.scan.push_down.expressions import parse_decimal_type
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
    strip_nullable,
)

SparkType = str | Mapping[str, Any]
SparkField = Mapping[str, Any]
_INTEGERS = {
    (8, True): "byte", (16, True): "short", (32, True): "integer", (64, True): "long",
    (8, False): "short", (16, False): "integer", (32, False): "long", (64, False): "decimal(20,0)",
}  # fmt: skip
_EXACT_INSTANTS = {"long": "long", "string": "string"}
_ARROW = {
    "byte": pa.int8(), "short": pa.int16(), "integer": pa.int32(), "long": pa.int64(), "float": pa.float32(),
    "double": pa.float64(), "boolean": pa.bool_(), "string": pa.string(), "binary": pa.binary(), "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
}  # fmt: skip
_MOST_DEPTH = 50
_MOST_PRECISION = 38


def has_nanoseconds(type_: DataType) -> bool:
    """Returns whether values may be finer than Spark's timestamps."""
    type_ = strip_nullable(type_)
    return isinstance(type_, DateTime64Type) and type_.unit == "ns"


def make_spark_field(name: str, type_: DataType, nanoseconds: str = "error") -> dict[str, Any]:
    """Returns the field of a column that is read; ``nanoseconds`` is the option of the format ``pando``."""
    exact = _EXACT_INSTANTS.get(nanoseconds) if has_nanoseconds(type_) else None
    return {"name": name, "type": exact or _get_spark_type(type_), "nullable": type_.is_nullable, "metadata": {}}


def _get_spark_type(type_: DataType) -> SparkType:
    match type_:
        case NullableType(inner) | LowCardinalityType(inner):
            return _get_spark_type(inner)
        case ArrayType(inner):
            return {"type": "array", "elementType": _get_spark_type(inner), "containsNull": inner.is_nullable}
        case MapType(key, value):
            types = {"keyType": _get_spark_type(key), "valueType": _get_spark_type(value)}
            return {"type": "map", **types, "valueContainsNull": value.is_nullable}
        case TupleType(elements):
            fields = [
                make_spark_field(name or str(position), inner) for position, (name, inner) in enumerate(elements, 1)
            ]
            return {"type": "struct", "fields": fields}
        case IntegerType(bits, signed) if (bits, signed) in _INTEGERS:
            return _INTEGERS[bits, signed]
        case FloatType(bits):
            return "float" if bits == 32 else "double"
        case DecimalType(precision, scale):
            return f"decimal({precision},{scale})"
        case BoolType():
            return "boolean"
        case DateType() | Date32Type():
            return "date"
        case DateTimeType() | DateTime64Type():
            return "timestamp"
        case StringType() | FixedStringType() | EnumType() | UUIDType() | IPv4Type() | IPv6Type():
            return "string"
    raise UserError("NOT_IMPLEMENTED", f"Type {type_} has no Spark counterpart")


def make_arrow_schema(fields: Sequence[object]) -> pa.Schema:
    """Returns the Arrow schema that Spark reads these fields from.

    Raises 36 for what is no field of Spark.
    """
    return pa.schema([_make_arrow_field(field, 0) for field in fields])


def _make_arrow_field(field: object, depth: int) -> pa.Field:
    match field:
        case {"name": str(name), "type": type_, "nullable": bool(nullable)}:
            return pa.field(name, _get_arrow_type(type_, depth), nullable)
    raise UserError("BAD_ARGUMENTS", f"'spark_fields' must hold fields of Spark's StructType, got {field!r}")


def _get_arrow_type(type_: object, depth: int) -> pa.DataType:
    match type_:
        case _ if depth > _MOST_DEPTH:
            pass
        case str() if type_ in _ARROW:
            return _ARROW[type_]
        case str():
            found = parse_decimal_type(type_)
            if found is not None and 0 < found[0] <= _MOST_PRECISION and 0 <= found[1] <= found[0]:
                return pa.decimal128(*found)
        case {"type": "array", "elementType": element, "containsNull": bool(nullable)}:
            return pa.list_(pa.field("element", _get_arrow_type(element, depth + 1), nullable))
        case {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": bool(nullable)}:
            return pa.map_(
                _get_arrow_type(key, depth + 1), pa.field("value", _get_arrow_type(value, depth + 1), nullable)
            )
        case {"type": "struct", "fields": list(fields)}:
            return pa.struct([_make_arrow_field(field, depth + 1) for field in fields])
    raise UserError("BAD_ARGUMENTS", f"'spark_fields' has a type that a scan cannot give: {type_!r}")
