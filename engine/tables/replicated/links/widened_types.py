"""Tells into which types every value of a type goes, so that a link's target may have them.

====================================  ======================================================================
source                                target
====================================  ======================================================================
an integer                            an integer of all its values; Float64 up to 32 bits, Float32 up to 16
Float32                               Float64
Decimal(P, S)                         a Decimal with no fewer digits before and behind the point
Bool                                  an integer
Date                                  Date32
DateTime                              DateTime64 with at most 6 digits
DateTime64(p)                         DateTime64 with at least p, at most 6 digits
Enum                                  an Enum that has its names with the same numbers
FixedString(n)                        String
a number, date, time, UUID, address   String (its text)
an Enum                               String (its names)
T                                     Nullable(U), LowCardinality(U) if T goes into U
LowCardinality(T)                     what T goes into
Nullable(T)                           Nullable(U) if T goes into U
Array, Map, Tuple                     the same, if each element's type goes into the other's; names must be equal
====================================  ======================================================================
"""

from __future__ import annotations

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
    LowCardinalityType,
    MapType,
    NullableType,
    StringType,
    TupleType,
    UUIDType,
)
from parts.types.string_types import IPv4Type, IPv6Type

_MOST_DIGITS = 6
"""DateTime64 with more digits does not reach all years of DateTime64."""
_HAVE_TEXTS = (
    IntegerType,
    BoolType,
    DecimalType,
    DateType,
    Date32Type,
    DateTimeType,
    DateTime64Type,
    EnumType,
    UUIDType,
    IPv4Type,
    IPv6Type,
    FixedStringType,
)


def goes_into(source: DataType, target: DataType) -> bool:
    """Tells whether every value of ``source`` is one of ``target``."""
    if source == target:
        return True
    if isinstance(source, LowCardinalityType):
        return goes_into(source.inner, target)
    if isinstance(target, LowCardinalityType):
        return goes_into(source, target.inner)
    if isinstance(target, NullableType):
        return goes_into(source.inner if isinstance(source, NullableType) else source, target.inner)
    if isinstance(source, NullableType):
        return False
    return _composite_goes_into(source, target) or _scalar_goes_into(source, target)


def _composite_goes_into(source: DataType, target: DataType) -> bool:
    match source, target:
        case ArrayType(), ArrayType():
            return goes_into(source.inner, target.inner)
        case MapType(), MapType():
            return goes_into(source.key, target.key) and goes_into(source.value, target.value)
        case TupleType(), TupleType():
            names = [name for name, _ in source.elements], [name for name, _ in target.elements]
            pairs = zip(source.elements, target.elements, strict=False)
            return names[0] == names[1] and all(goes_into(mine, other) for (_, mine), (_, other) in pairs)
    return False


def _scalar_goes_into(source: DataType, target: DataType) -> bool:
    match source, target:
        case IntegerType(), IntegerType():
            return target.minimum <= source.minimum and source.maximum <= target.maximum
        case IntegerType(), FloatType():
            return source.bits <= target.bits // 2
        case FloatType(), FloatType():
            return source.bits <= target.bits
        case DecimalType(), DecimalType():
            whole = source.precision - source.scale, target.precision - target.scale
            return source.scale <= target.scale and whole[0] <= whole[1]
        case BoolType(), IntegerType():
            return True
        case DateType(), Date32Type():
            return True
        case DateTimeType(), DateTimeType():
            return True  # the time zone is for texts alone
        case DateTimeType(), DateTime64Type():
            return target.precision <= _MOST_DIGITS
        case DateTime64Type(), DateTime64Type():
            return source.precision == target.precision or source.precision < target.precision <= _MOST_DIGITS
        case EnumType(), EnumType():
            return set(source.values) <= set(target.values)
        case _, StringType():
            return isinstance(source, _HAVE_TEXTS)
    return False
