"""Every scalar type has its storage, its behaviour in queries, and its texts and bytes in formats."""

from __future__ import annotations

import pyarrow as pa
import pytest

from parts.types import DataType, NothingType, ScalarType, parse_type
from parts.types.scalar_type import PLAIN_TYPES, TYPE_PARSERS
from sql.formats.converters.array_casts import cast_array
from sql.formats.converters.scalars.all_formats import scalar_format
from sql.formats.format_options import BadValueError, FormatOptions
from sql.typing.duckdb.engine_types import duckdb_type
from sql.typing.scalars.all_scalars import scalar_of

_ARGUMENTS = {
    "FixedString": "(3)", "Decimal": "(9, 2)", "Decimal32": "(2)", "Decimal64": "(2)", "Decimal128": "(2)",
    "Enum": "('a' = 1)", "Enum8": "('a' = 1)", "Enum16": "('a' = 300)", "DateTime64": "(9)",
}  # fmt: skip
_TYPES = [parse_type(name + _ARGUMENTS.get(name, "")) for name in (*PLAIN_TYPES, *TYPE_PARSERS)]


@pytest.mark.parametrize("type_", _TYPES, ids=str)
def test_every_scalar_type_has_its_objects(type_: DataType) -> None:
    assert isinstance(type_, ScalarType)
    assert duckdb_type(type_)
    assert scalar_format(type_) is not None
    assert (scalar_of(type_) is None) == isinstance(type_, NothingType)  # NULL has no behaviour of its own


@pytest.mark.parametrize("type_", [type_ for type_ in _TYPES if type_ != NothingType()], ids=str)
def test_the_default_survives_its_text_and_its_bytes(type_: DataType) -> None:
    format_, options = scalar_format(type_), FormatOptions()
    assert format_ is not None
    array = pa.array([type_.default, type_.default], type_.arrow)
    assert format_.parse(format_.render(array, type_, options), type_, options) == array
    assert format_.check(array, type_) == array
    if type_.memory_width_bytes is not None:
        raw = format_.to_bytes(array, type_)
        assert raw.shape == (2, type_.memory_width_bytes)
        assert format_.from_bytes(raw, type_) == array


def test_a_day_outside_pythons_dates_is_out_of_range() -> None:
    with pytest.raises(BadValueError, match="2147483647 is out of range of type Date"):
        cast_array(pa.array([1 << 60], pa.uint64()), parse_type("UInt64"), parse_type("Date"))
