"""Refuses values that a column's type would change silently.

A Float32 makes infinity of a number that is too large; a DateTime drops fractions of a second; dates and instants
outside a type's range become others. All values of a block are checked, also inside arrays, maps and structs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parts.common.errors import UserError
from parts.types import (
    ArrayType,
    DataType,
    Date32Type,
    DateTime64Type,
    DateTimeType,
    DateType,
    DecimalType,
    FloatType,
    IntegerType,
    LowCardinalityType,
    MapType,
    TupleType,
    strip_nullable,
)

_SECOND = 1_000_000
_INSTANTS = (-2_208_988_800, 10_413_791_999)
"""Seconds of a DateTime64: 1900 to 2299."""


def check_lossless(array: pa.ChunkedArray, name: str, type_: DataType) -> None:
    """Raises ``UserError`` 321 with the first value that the column's type would change.

    ``array`` is as Spark gives it, for the column ``name``.
    """

    def refuse(value: object, reason: str) -> NoReturn:
        raise UserError(
            "VALUE_IS_OUT_OF_RANGE_OF_DATA_TYPE", f"Column {name!r} of type {type_} cannot hold {value}: {reason}"
        )

    for chunk in array.chunks:
        _check(chunk, type_, refuse)


_Refuse = Callable[[object, str], NoReturn]


def _check(array: pa.Array, type_: DataType, refuse: _Refuse) -> None:
    type_ = strip_nullable(type_)
    match type_:
        case LowCardinalityType(inner):
            _check(array, inner, refuse)
        case ArrayType(inner) if pa.types.is_list(array.type):
            _check(array.flatten(), inner, refuse)
        case MapType(key, value) if pa.types.is_map(array.type):
            entries = array.cast(
                pa.list_(pa.struct([("key", array.type.key_type), ("value", array.type.item_type)]))
            ).flatten()
            _check(entries.field(0), key, refuse)
            _check(entries.field(1), value, refuse)
        case TupleType(elements) if pa.types.is_struct(array.type):
            for item, (_, inner) in zip(array.flatten(), elements, strict=True):
                _check(item, inner, refuse)
        case FloatType() | IntegerType() | DecimalType() if is_number(array.type):
            _check_number(array, type_, refuse)
        case DateTimeType() if pa.types.is_timestamp(array.type):
            _check_instants(array, _SECOND, (0, (1 << 32) - 1), refuse)
        case DateTime64Type(precision) if pa.types.is_timestamp(array.type):
            _check_instants(array, 10 ** max(0, 6 - precision), _INSTANTS, refuse)
        case DateType() | Date32Type() if pa.types.is_date32(array.type):
            days = array.drop_null().view(pa.int32()).to_numpy()
            low, high = type_.days
            _refuse_first(array, (days < low) | (days > high), "it is outside the type's range", refuse)


def _check_number(array: pa.Array, type_: DataType, refuse: _Refuse) -> None:
    if array.type == type_.arrow:
        return
    try:
        made = pc.cast(array, type_.arrow)
    except pa.ArrowInvalid as error:
        refuse("a value", str(error))
    if isinstance(type_, FloatType):
        given = array.drop_null().cast(pa.float64(), safe=False).to_numpy()
        is_lost = np.isfinite(given) & ~np.isfinite(made.drop_null().to_numpy())
        _refuse_first(array, is_lost, "it would become infinite; use a Float64 column", refuse)


def _check_instants(array: pa.Array, step: int, seconds: tuple[int, int], refuse: _Refuse) -> None:
    """Checks that values are multiples of ``step`` microseconds, within the seconds."""
    given = array.drop_null().cast(pa.timestamp("us", array.type.tz)).view(pa.int64()).to_numpy()
    whole = given // _SECOND
    _refuse_first(array, (whole < seconds[0]) | (whole > seconds[1]), "it is outside the type's range", refuse)
    advice = "it is finer than the type: cut it (date_trunc) or use DateTime64(6)"
    _refuse_first(array, given % step != 0, advice, refuse)


def _refuse_first(array: pa.Array, is_lost: np.ndarray, reason: str, refuse: _Refuse) -> None:
    """Refuses the first lost value; ``is_lost`` is over the values that are not NULL."""
    if is_lost.any():
        refuse(array.drop_null()[int(is_lost.argmax())], reason)


def is_number(type_: pa.DataType) -> bool:
    """Returns whether an Arrow type is an integer, float or decimal."""
    return pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_)
