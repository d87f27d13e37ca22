"""Checks of values, and the search for the first bad one, which errors name."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from parts.common.errors import UserError
from parts.types import DataType
from sql.formats.format_options import BadValueError, range_error
from sql.grammar.text_escapes import is_valid_utf8, view_as_text


def first_true_index(mask: pa.Array) -> int:
    """Returns the index of the first true, or -1."""
    return int(pc.index(mask, pa.scalar(True)).as_py())


def fail_first(texts: pa.Array, bad: pa.Array, error: Callable[[int, str], BadValueError]) -> None:
    """Raises the error for the first text where ``bad`` is true, if there is one."""
    index = first_true_index(bad)
    if index >= 0:
        raise error(index, texts[index].as_py())


def describe_value(array: pa.Array, index: int) -> str:
    """Returns a value for an error's text; for a day or an instant outside Python's dates its number."""
    try:
        return str(array[index].as_py())
    except (OverflowError, ValueError):
        stored = pa.int32() if pa.types.is_date32(array.type) else pa.int64()
        return str(array.slice(index, 1).view(stored)[0].as_py())


def check_range(numbers: pa.Array, low: int, high: int, shown: pa.Array, type_: DataType) -> None:
    """Raises 321 if a number is not between ``low`` and ``high``; the error tells its row of ``shown``."""
    bounds = pc.min_max(numbers)
    if bounds["min"].as_py() is None or (low <= bounds["min"].as_py() and bounds["max"].as_py() <= high):
        return
    outside = pc.or_(pc.less(numbers, low), pc.greater(numbers, high))
    index = first_true_index(outside)
    if index >= 0:
        raise range_error(index, describe_value(shown, index), type_)


def decode_utf8(values: pa.Array) -> pa.Array:
    """Returns binary values as strings. Raises :class:`BadValueError` 117 for bytes that are not UTF-8."""
    return check_utf8(view_as_text(values))


def check_utf8(array: pa.Array) -> pa.Array:
    """Returns the strings themselves. Raises :class:`BadValueError` 117 for bytes that are not UTF-8."""
    if is_valid_utf8(array):
        return array
    binary = pc.cast(array, pa.binary())
    try:
        binary.validate(full=True)
    except pa.ArrowInvalid as error:
        raise UserError("INCORRECT_DATA", f"Malformed Arrow data: {error}") from None
    values = binary.to_pylist()
    index = next((i for i, value in enumerate(values) if not is_text(value)), 0)
    text = repr(values[index])
    raise BadValueError("INCORRECT_DATA", index, text, f"Invalid UTF-8: {text[:60]}")


def is_text(value: bytes | None) -> bool:
    """Returns whether the bytes are UTF-8."""
    try:
        (value or b"").decode()
    except UnicodeDecodeError:
        return False
    return True
