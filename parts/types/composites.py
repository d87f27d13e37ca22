"""Types made of others: Nullable, LowCardinality, Array, Map, Tuple."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from parts.common.errors import UserError
from parts.types.data_type import DataType
from parts.types.string_types import NothingType

_NULL, _ARRAY, _TUPLE = 0, 17, 18
"""Kinds of fields in the hash of a partition."""


@dataclass(frozen=True)
class NullableType(DataType):
    """``Nullable(inner)``."""

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

    def partition_field(self, value: pa.Scalar) -> bytes:
        return self.inner.partition_field(value) if value.is_valid else bytes([_NULL])


@dataclass(frozen=True)
class LowCardinalityType(DataType):
    """``LowCardinality(inner)``, stored as a dictionary."""

    may_be_nullable: ClassVar[bool] = False
    may_be_low_cardinality: ClassVar[bool] = False

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

    def partition_field(self, value: pa.Scalar) -> bytes:
        return self.inner.partition_field(value)


@dataclass(frozen=True)
class ArrayType(DataType):
    """``Array(inner)``."""

    is_composite: ClassVar[bool] = True
    may_be_nullable: ClassVar[bool] = False
    may_be_low_cardinality: ClassVar[bool] = False
    may_be_map_key: ClassVar[bool] = False

    inner: DataType

    @property
    def name(self) -> str:
        return f"Array({self.inner.name})"

    @property
    def arrow(self) -> pa.DataType:
        return pa.list_(_field("item", self.inner))

    @property
    def default(self) -> object:
        return []

    def partition_field(self, value: pa.Scalar) -> bytes:
        fields = [self.inner.partition_field(item) for item in value.values]
        return struct.pack("<BQ", _ARRAY, len(fields)) + b"".join(fields)


@dataclass(frozen=True)
class MapType(DataType):
    """``Map(key, value)``, stored as a list of pairs."""

    is_composite: ClassVar[bool] = True
    may_be_nullable: ClassVar[bool] = False
    may_be_low_cardinality: ClassVar[bool] = False
    may_be_map_key: ClassVar[bool] = False

    key: DataType
    value: DataType

    @property
    def name(self) -> str:
        return f"Map({self.key.name}, {self.value.name})"

    @property
    def arrow(self) -> pa.DataType:
        if isinstance(self.key, NothingType):
            raise UserError("NOT_IMPLEMENTED", f"{self.name} is not supported: give the keys another type")
        return pa.map_(self.key.arrow, _field("value", self.value))

    @property
    def default(self) -> object:
        return []


@dataclass(frozen=True)
class TupleType(DataType):
    """A tuple. ``elements`` are (name or ``None``, type) pairs, all or none named; ``()`` for none."""

    is_composite: ClassVar[bool] = True
    may_be_nullable: ClassVar[bool] = False
    may_be_low_cardinality: ClassVar[bool] = False
    may_be_map_key: ClassVar[bool] = False

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
            [_field(name or str(position), type_) for position, (name, type_) in enumerate(self.elements, 1)]
        )

    @property
    def default(self) -> object:
        return {name or str(position): type_.default for position, (name, type_) in enumerate(self.elements, 1)}

    def partition_field(self, value: pa.Scalar) -> bytes:
        fields = [type_.partition_field(value[position]) for position, (_, type_) in enumerate(self.elements)]
        return struct.pack("<BQ", _TUPLE, len(fields)) + b"".join(fields)


def _field(name: str, type_: DataType) -> pa.Field:
    """Returns an Arrow field. pyarrow requires fields of the null type to be nullable."""
    return pa.field(name, type_.arrow, nullable=type_.is_nullable or isinstance(type_, NothingType))


def strip_nullable(type_: DataType) -> DataType:
    """Returns the type without ``LowCardinality`` and ``Nullable`` around it."""
    while isinstance(type_, (NullableType, LowCardinalityType)):
        type_ = type_.inner
    return type_


def strip_low_cardinality(type_: DataType) -> DataType:
    """Returns the type without ``LowCardinality`` around it; Nullable stays."""
    return type_.inner if isinstance(type_, LowCardinalityType) else type_


def make_nullable(type_: DataType) -> DataType:
    """Returns ``Nullable(T)``. LowCardinality stays outermost; composite types are returned unchanged."""
    if isinstance(type_, LowCardinalityType):
        return LowCardinalityType(make_nullable(type_.inner))
    if type_.is_nullable or not type_.may_be_nullable:
        return type_
    return NullableType(type_)


def _identifier(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z_]\w*", name) else f"`{name}`"
