"""The behaviour of scalar types in queries: importing this module enters all of them."""

from __future__ import annotations

from typing import Any

import sql.typing.scalars.address_scalars
import sql.typing.scalars.number_scalars
import sql.typing.scalars.string_scalars
import sql.typing.scalars.time_scalars  # noqa: F401
from parts.types import DataType, IntegerType, strip_nullable
from sql.typing.duckdb.sql_fragments import Fragment
from sql.typing.scalars.scalar import Scalar, find_scalar
from sql.typing.typed_expressions import Typed


def scalar_of(type_: DataType) -> Scalar[Any] | None:
    """Returns the object of a scalar type, or ``None`` for a composite one; Nullable is ignored."""
    return find_scalar(strip_nullable(type_))


def to_integer(value: Typed, source: DataType, goal: IntegerType) -> Fragment | None:
    """Compiles CAST to an integer type for all types but strings; ``None`` if ClickHouse has none."""
    scalar = find_scalar(source)
    return scalar.to_integer(value, source, goal) if scalar is not None else None
