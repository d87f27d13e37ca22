"""The objects that read and write scalar types: importing this module enters all of them."""

from __future__ import annotations

from typing import Any

import sql.formats.converters.scalars.address_formats
import sql.formats.converters.scalars.number_formats
import sql.formats.converters.scalars.string_formats
import sql.formats.converters.scalars.time_formats  # noqa: F401
from parts.types import DataType, strip_nullable
from sql.formats.converters.scalars.scalar_format import ScalarFormat, find_format


def scalar_format(type_: DataType) -> ScalarFormat[Any] | None:
    """Returns the object of a scalar type, or ``None`` for a composite one."""
    return find_format(type_)


def is_textual(type_: DataType) -> bool:
    """Returns whether texts of the type may hold any characters."""
    format_ = find_format(strip_nullable(type_))
    return format_ is not None and format_.is_textual
