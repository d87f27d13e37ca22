"""ClickHouse's data types and how each is stored in Arrow.

One class per family; a value of the class is one concrete type. ``name`` is ClickHouse's canonical spelling,
``arrow`` is the Arrow type of a block's column (the *storage* type, one block type everywhere in Pando):

======================  ==========================================================
UInt8…UInt64, Int8…64   uint8…uint64, int8…int64
Float32, Float64        float, double
Bool                    bool
Decimal(P, S)           decimal128(P, S), P ≤ 38
String                  string (valid UTF-8; anything else is refused on insert)
FixedString(N)          fixed_size_binary(N), zero-padded
Date, Date32            date32
DateTime[('tz')]        timestamp[s], UTC instants without an Arrow zone
DateTime64(p[, 'tz'])   timestamp[s|ms|us|ns], the coarsest unit that holds p digits
UUID, IPv6              fixed_size_binary(16), network byte order
IPv4                    uint32
Enum8, Enum16           int8, int16 (the numbers)
Nullable(T)             T's, nulls allowed (nowhere else)
LowCardinality(T)       dictionary<int32, T's>
Array(T)                list<item: T's>
Map(K, V)               map<K's, V's>
Tuple(…)                struct; unnamed elements are "1", "2", …
======================  ==========================================================

Source: ClickHouse documentation, "Data types".
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True)
class DataType:
    """Base of all types. Equality is by structure; ``str(type)`` is the canonical ClickHouse name."""

    @property
    def name(self) -> str:
        raise NotImplementedError

    @property
    def arrow(self) -> pa.DataType:
        raise NotImplementedError

    @property
    def is_nullable(self) -> bool:
        return False

    @property
    def default(self) -> object:
        """The value of an omitted column, as the Python object ``pa.scalar(default, self.arrow)`` accepts."""
        return 0

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class IntegerType(DataType):
    bits: int
    signed: bool

    @property
    def name(self) -> str:
        return f"{'' if self.signed else 'U'}Int{self.bits}"

    @property
    def arrow(self) -> pa.DataType:
        return pa.type_for_alias(f"{'' if self.signed else 'u'}int{self.bits}")

    @property
    def minimum(self) -> int:
        return -(1 << (self.bits - 1)) if self.signed else 0

    @property
    def maximum(self) -> int:
        return (1 << (self.bits - 1 if self.signed else self.bits)) - 1


@dataclass(frozen=True)
class FloatType(DataType):
    bits: int

    @property
    def name(self) -> str:
        return f"Float{self.bits}"

    @property
    def arrow(self) -> pa.DataType:
        return pa.float32() if self.bits == 32 else pa.float64()

    @property
    def default(self) -> object:
        return 0.0


@dataclass(frozen=True)
class BoolType(DataType):
    @property
    def name(self) -> str:
        return "Bool"

    @property
    def arrow(self) -> pa.DataType:
        return pa.bool_()

    @property
    def default(self) -> object:
        return False


@dataclass(frozen=True)
class DecimalType(DataType):
    precision: int
    scale: int

    @property
    def name(self) -> str:
        return f"Decimal({self.precision}, {self.scale})"

    @property
    def arrow(self) -> pa.DataType:
        return pa.decimal128(self.precision, self.scale)


@dataclass(frozen=True)
class StringType(DataType):
    @property
    def name(self) -> str:
        return "String"

    @property
    def arrow(self) -> pa.DataType:
        return pa.string()

    @property
    def default(self) -> object:
        return ""


@dataclass(frozen=True)
class FixedStringType(DataType):
    length: int

    @property
    def name(self) -> str:
        return f"FixedString({self.length})"

    @property
    def arrow(self) -> pa.DataType:
        return pa.binary(self.length)

    @property
    def default(self) -> object:
        return bytes(self.length)


@dataclass(frozen=True)
class DateType(DataType):
    """Days from 1970-01-01 to 2149-06-06."""

    @property
    def name(self) -> str:
        return "Date"

    @property
    def arrow(self) -> pa.DataType:
        return pa.date32()


@dataclass(frozen=True)
class Date32Type(DataType):
    """Days from 1900-01-01 to 2299-12-31."""

    @property
    def name(self) -> str:
        return "Date32"

    @property
    def arrow(self) -> pa.DataType:
        return pa.date32()


@dataclass(frozen=True)
class DateTimeType(DataType):
    """Seconds since the epoch, 32 bits unsigned; ``timezone`` is only for reading and writing text."""

    timezone: str | None = None

    @property
    def name(self) -> str:
        return f"DateTime({_quote(self.timezone)})" if self.timezone else "DateTime"

    @property
    def arrow(self) -> pa.DataType:
        return pa.timestamp("s")


@dataclass(frozen=True)
class DateTime64Type(DataType):
    """Instants with ``precision`` (0–9) decimal digits of a second."""

    precision: int
    timezone: str | None = None

    @property
    def name(self) -> str:
        zone = f", {_quote(self.timezone)}" if self.timezone else ""
        return f"DateTime64({self.precision}{zone})"

    @property
    def unit(self) -> str:
        """Arrow's unit: the coarsest that holds ``precision`` digits."""
        return ("s", "ms", "us", "ns")[(self.precision + 2) // 3]

    @property
    def arrow(self) -> pa.DataType:
        return pa.timestamp(self.unit)


@dataclass(frozen=True)
class UUIDType(DataType):
    @property
    def name(self) -> str:
        return "UUID"

    @property
    def arrow(self) -> pa.DataType:
        return pa.binary(16)

    @property
    def default(self) -> object:
        return bytes(16)


@dataclass(frozen=True)
class IPv4Type(DataType):
    @property
    def name(self) -> str:
        return "IPv4"

    @property
    def arrow(self) -> pa.DataType:
        return pa.uint32()


@dataclass(frozen=True)
class IPv6Type(DataType):
    @property
    def name(self) -> str:
        return "IPv6"

    @property
    def arrow(self) -> pa.DataType:
        return pa.binary(16)

    @property
    def default(self) -> object:
        return bytes(16)


@dataclass(frozen=True)
class EnumType(DataType):
    """``values`` are (name, number) pairs sorted by number, both unique."""

    bits: int
    values: tuple[tuple[str, int], ...]

    @property
    def name(self) -> str:
        pairs = ", ".join(f"{_quote(name)} = {number}" for name, number in self.values)
        return f"Enum{self.bits}({pairs})"

    @property
    def arrow(self) -> pa.DataType:
        return pa.int8() if self.bits == 8 else pa.int16()

    @property
    def default(self) -> object:
        return self.values[0][1]


@dataclass(frozen=True)
class NullableType(DataType):
    inner: DataType

    @property
    def name(self) -> str:
        return f"Nullable({self.inner.name})"

    @property
    def arrow(self) -> pa.DataType:
        return self.inner.arrow

    @property
    def is_nullable(self) -> bool:
        return True

    @property
    def default(self) -> object:
        return None


@dataclass(frozen=True)
class LowCardinalityType(DataType):
    inner: DataType

    @property
    def name(self) -> str:
        return f"LowCardinality({self.inner.name})"

    @property
    def arrow(self) -> pa.DataType:
        return pa.dictionary(pa.int32(), self.inner.arrow)

    @property
    def is_nullable(self) -> bool:
        return self.inner.is_nullable

    @property
    def default(self) -> object:
        return self.inner.default


@dataclass(frozen=True)
class ArrayType(DataType):
    inner: DataType

    @property
    def name(self) -> str:
        return f"Array({self.inner.name})"

    @property
    def arrow(self) -> pa.DataType:
        return pa.list_(
            pa.field("item", self.inner.arrow, nullable=self.inner.is_nullable or isinstance(self.inner, NothingType))
        )

    @property
    def default(self) -> object:
        return []


@dataclass(frozen=True)
class MapType(DataType):
    key: DataType
    value: DataType

    @property
    def name(self) -> str:
        return f"Map({self.key.name}, {self.value.name})"

    @property
    def arrow(self) -> pa.DataType:
        return pa.map_(self.key.arrow, pa.field("value", self.value.arrow, nullable=self.value.is_nullable))

    @property
    def default(self) -> object:
        return []


@dataclass(frozen=True)
class TupleType(DataType):
    """``elements`` are (name or ``None``, type) pairs; either all or none are named. ``()`` has none of them."""

    elements: tuple[tuple[str | None, DataType], ...]

    @property
    def is_named(self) -> bool:
        return bool(self.elements) and self.elements[0][0] is not None

    @property
    def name(self) -> str:
        texts = [f"{_identifier(name)} {type_.name}" if name else type_.name for name, type_ in self.elements]
        return f"Tuple({', '.join(texts)})"

    @property
    def arrow(self) -> pa.DataType:
        return pa.struct(
            [
                pa.field(name or str(position), type_.arrow, nullable=type_.is_nullable)
                for position, (name, type_) in enumerate(self.elements, 1)
            ]
        )

    @property
    def default(self) -> object:
        return {name or str(position): type_.default for position, (name, type_) in enumerate(self.elements, 1)}


@dataclass(frozen=True)
class NothingType(DataType):
    """The type of ``NULL`` and of the elements of ``[]``; never a column's."""

    @property
    def name(self) -> str:
        return "Nothing"

    @property
    def arrow(self) -> pa.DataType:
        return pa.null()

    @property
    def default(self) -> object:
        return None


def strip_nullable(type_: DataType) -> DataType:
    """The type without ``LowCardinality`` and ``Nullable`` around it."""
    while isinstance(type_, (NullableType, LowCardinalityType)):
        type_ = type_.inner
    return type_


def make_nullable(type_: DataType) -> DataType:
    """``Nullable(T)``; LowCardinality keeps outermost; composite types (which cannot be inside Nullable) as they
    are."""
    if isinstance(type_, LowCardinalityType):
        return LowCardinalityType(make_nullable(type_.inner))
    if type_.is_nullable or isinstance(type_, (ArrayType, MapType, TupleType)):
        return type_
    return NullableType(type_)


def parse_type(text: str) -> DataType:
    """Parses a ClickHouse type name, aliases included (``INT``, ``VARCHAR(10)``, ``DOUBLE``).

    Raises ``UserError`` 50 (UNKNOWN_TYPE), 62 (SYNTAX_ERROR), 48 (NOT_IMPLEMENTED), or 43 for illegal nesting.
    """
    from parts.type_parser import TypeParser  # that module builds the classes of this one

    parser = TypeParser(text)
    result = parser.type()
    parser.expect_end()
    return result


def _quote(text: str | None) -> str:
    escaped = (text or "").replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _identifier(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z_]\w*", name) else f"`{name}`"
