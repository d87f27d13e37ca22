"""ClickHouse's types that Pando does not have, and what to use instead."""

from __future__ import annotations

from parts.common.errors import UserError

_WIDE = "Int64, UInt64 or Decimal(38, 0)"
_SHAPES = {
    "Point": "Tuple(Float64, Float64)",
    "Ring": "Array(Tuple(Float64, Float64))",
    "LineString": "Array(Tuple(Float64, Float64))",
    "MultiPoint": "Array(Tuple(Float64, Float64))",
    "Polygon": "Array(Array(Tuple(Float64, Float64)))",
    "MultiLineString": "Array(Array(Tuple(Float64, Float64)))",
    "MultiPolygon": "Array(Array(Array(Tuple(Float64, Float64))))",
    "Geometry": "Array(Array(Tuple(Float64, Float64)))",
}
_UNITS = (
    "Nanosecond", "Microsecond", "Millisecond", "Second", "Minute", "Hour", "Day", "Week", "Month", "Quarter", "Year",
)  # fmt: skip
_INSTEAD = {
    **dict.fromkeys(("Int128", "UInt128", "Int256", "UInt256"), _WIDE),
    "Decimal256": "a Decimal of at most 38 digits",
    "BFloat16": "Float32",
    "Variant": "String, or a column for each type",
    "Dynamic": "String",
    "JSON": "String with the functions of JSON, or Map(String, String)",
    "Object": "String with the functions of JSON, or Map(String, String)",
    "Time": "Int32, the seconds",
    "Time64": "Decimal64, the seconds",
    "QBit": "Array(Float32)",
    **_SHAPES,
    **{f"Interval{unit}": "Int64; INTERVAL stands in expressions only" for unit in _UNITS},
}
_IN_ANY_CASE = {name.lower(): name for name in ("Decimal256", "JSON", "Time", "Time64", "Geometry")}


def refuse_missing(word: str) -> None:
    """Raises 48 (NOT_IMPLEMENTED) for a type family that Pando does not have."""
    name = _IN_ANY_CASE.get(word.lower(), word)
    if name in _INSTEAD:
        raise UserError("NOT_IMPLEMENTED", f"The data type {name} is not supported: use {_INSTEAD[name]}")
