"""ClickHouse's data types and how each is stored in Arrow.

One class per family; a value of the class is one concrete type. ``name`` is ClickHouse's canonical spelling, ``arrow``
is the Arrow type of a block's column (the *storage* type, one block type everywhere in Pando):

======================  ==========================================================
UInt8…UInt64, Int8…64   uint8…uint64, int8…int64;
Float32, Float64        float, double;
Bool                    bool;
Decimal(P, S)           decimal128(P, S), P ≤ 38;
String                  string (valid UTF-8; anything else is refused on insert);
FixedString(N)          fixed_size_binary(N), zero-padded;
Date, Date32            date32;
DateTime[('tz')]        timestamp[s], UTC instants without an Arrow zone;
DateTime64(p[, 'tz'])   timestamp[s|ms|us|ns], the coarsest unit that holds p digits;
UUID, IPv6              fixed_size_binary(16), network byte order;
IPv4                    uint32;
Enum8, Enum16           int8, int16 (the numbers);
Nullable(T)             T's, nulls allowed (nowhere else);
LowCardinality(T)       dictionary<int32, T's>;
Array(T)                list<item: T's>;
Map(K, V)               map<K's, V's>;
Tuple(…)                struct; unnamed elements are "1", "2" and so on.
======================  ==========================================================

Source: ClickHouse documentation, "Data types".
"""

from parts.types.composites import (
    ArrayType,
    LowCardinalityType,
    MapType,
    NullableType,
    TupleType,
    make_nullable,
    strip_low_cardinality,
    strip_nullable,
)
from parts.types.data_type import DataType
from parts.types.number_types import BoolType, DecimalType, FloatType, IntegerType
from parts.types.scalar_type import ScalarType
from parts.types.simple_aggregate_function import format_type, parse_aggregate_name
from parts.types.string_types import (
    EnumType,
    FixedStringType,
    IPv4Type,
    IPv6Type,
    NothingType,
    StringType,
    UUIDType,
)
from parts.types.time_types import Date32Type, DateTime64Type, DateTimeType, DateType, check_timezone
from parts.types.type_parser import list_type_families, parse_structure, parse_type

__all__ = [
    "ArrayType",
    "BoolType",
    "DataType",
    "Date32Type",
    "DateTime64Type",
    "DateTimeType",
    "DateType",
    "DecimalType",
    "EnumType",
    "FixedStringType",
    "FloatType",
    "IPv4Type",
    "IPv6Type",
    "IntegerType",
    "LowCardinalityType",
    "MapType",
    "NothingType",
    "NullableType",
    "ScalarType",
    "StringType",
    "TupleType",
    "UUIDType",
    "check_timezone",
    "format_type",
    "list_type_families",
    "make_nullable",
    "parse_aggregate_name",
    "parse_structure",
    "parse_type",
    "strip_low_cardinality",
    "strip_nullable",
]
