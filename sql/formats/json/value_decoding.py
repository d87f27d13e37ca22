"""Decodes JSON with numbers as written, and converts the decoded values to storage values."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parts.blocks.default_values import type_default
from parts.common.errors import UserError
from parts.types import ArrayType, DataType, FloatType, IntegerType, MapType, TupleType, strip_nullable
from sql.formats.converters.null_filling import combine_chunks
from sql.formats.converters.text_parsing import parse_texts, refuse_blanks
from sql.formats.format_options import BadValueError, FormatOptions, parse_error
from sql.grammar.text_escapes import shorten_for_message

_NUMBERS = (IntegerType, FloatType)
ABSENT: Any = object()
"""Marks a missing value."""


class DuplicateKeyObject(dict[str, Any]):
    """An object in which a key is there twice. A Map takes all ``list_pairs``."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(reversed(pairs))
        self.pairs = pairs


def drop_duplicate_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Returns an object's pairs as a dictionary in which the first value of a repeated key wins."""
    row = dict(pairs)
    return row if len(row) == len(pairs) else DuplicateKeyObject(pairs)


# Numbers stay as written: their meaning depends on the column. The second decoder accepts line ends and other
# control characters inside strings too.
DECODER, PATIENT_DECODER = (
    json.JSONDecoder(
        parse_int=str, parse_float=str, parse_constant=str, object_pairs_hook=drop_duplicate_keys, strict=is_strict
    )
    for is_strict in (True, False)
)


def skip_blanks_and_marks(text: str, position: int, marks: str) -> int:
    """Returns the first position that is neither blank nor one of ``marks``."""
    end = len(text)
    while position < end and (text[position].isspace() or text[position] in marks):
        position += 1
    return position


def broken_json_error(text: str, position: int, row: int, message: str) -> UserError:
    """Returns the error 27 for JSON that cannot be parsed, naming the row."""
    return UserError(
        "CANNOT_PARSE_INPUT_ASSERTION_FAILED",
        f"Cannot parse input: {message} before: {shorten_for_message(text[position : position + 61])!r}: "
        f"(at row {row})",
    )


def convert_json(values: list[Any], type_: DataType, options: FormatOptions) -> pa.Array:
    """Converts decoded values to the type's storage. Raises ``BadValueError``."""
    if isinstance(type_, ArrayType):
        return _convert_list(values, type_, options)
    if isinstance(type_, MapType):
        return _convert_map(values, type_, options)
    if isinstance(type_, TupleType):
        return _convert_tuple(values, type_, options)
    texts: list[str | None] = []
    for index, value in enumerate(values):
        if isinstance(value, bool):
            value = "true" if value else "false"
            if isinstance(strip_nullable(type_), _NUMBERS):
                value = "1" if value == "true" else "0"
        elif isinstance(value, (list, dict)):
            raise parse_error(index, json.dumps(value, ensure_ascii=False), type_)
        texts.append(value)
    array = string_array(texts)
    refuse_blanks(array, type_)
    return parse_texts(array, type_, options)


def string_array(texts: list[str | None]) -> pa.Array:
    """Returns a string array. Raises ``BadValueError`` for half of a surrogate pair."""
    try:
        return pa.array(texts, pa.string())
    except UnicodeEncodeError:
        index = next(
            index for index, text in enumerate(texts) if text and not text.isascii() and _has_half_surrogate(text)
        )
        raise BadValueError(
            "INCORRECT_DATA",
            index,
            ascii(texts[index]),
            f"Half of a surrogate pair in {shorten_for_message(ascii(texts[index]))}",
        ) from None


def _has_half_surrogate(text: str) -> bool:
    return any("\ud800" <= char <= "\udfff" for char in text)


def _flatten(
    values: list[Any], groups: list[list[Any]], type_: DataType, inner: DataType, options: FormatOptions
) -> tuple[pa.Array, pa.Array]:
    offsets = np.zeros(len(groups) + 1, np.int32)
    np.cumsum([len(group) for group in groups], out=offsets[1:])
    try:
        flat = convert_json(list(chain.from_iterable(groups)), inner, options)
    except BadValueError as error:
        raise error.with_index(int(np.searchsorted(offsets, error.index, side="right")) - 1) from None
    if flat.null_count and not inner.is_nullable:
        element = int(pc.index(pc.is_null(flat), pa.scalar(True)).as_py())
        row = int(np.searchsorted(offsets, element, side="right")) - 1
        raise parse_error(row, "null", type_)
    return pa.array(offsets, pa.int32()), flat


def _convert_list(values: list[Any], type_: ArrayType, options: FormatOptions) -> pa.Array:
    groups = [_expect(value, list, index, type_) for index, value in enumerate(values)]
    offsets, flat = _flatten(values, groups, type_, type_.inner, options)
    mask = pa.array([value is None for value in values], pa.bool_())
    return pa.ListArray.from_arrays(offsets, flat, type=type_.arrow, mask=mask)


def _convert_map(values: list[Any], type_: MapType, options: FormatOptions) -> pa.Array:
    groups = [list_pairs(_expect(value, dict, index, type_)) for index, value in enumerate(values)]
    offsets, keys = _flatten(values, [[key for key, _ in group] for group in groups], type_, type_.key, options)
    _, items = _flatten(values, [[item for _, item in group] for group in groups], type_, type_.value, options)
    array = pa.MapArray.from_arrays(offsets, keys, items, type=type_.arrow)
    return _apply_nulls(array, values)


def list_pairs(value: dict[str, Any]) -> Collection[tuple[str, Any]]:
    """Returns all pairs of an object, also with repeated keys."""
    return value.pairs if isinstance(value, DuplicateKeyObject) else value.items()


def _convert_tuple(values: list[Any], type_: TupleType, options: FormatOptions) -> pa.Array:
    rows = [_tuple_row(value, index, type_, options) for index, value in enumerate(values)]
    children = []
    for position, (_, inner) in enumerate(type_.elements):
        elements = [row[position] if row else ABSENT for row in rows]
        groups = [[] if element is ABSENT else [element] for element in elements]
        _, child = _flatten(values, groups, type_, inner, options)
        children.append(_insert_defaults(child, [group for group, row in zip(groups, rows, strict=True) if row], inner))
    present = np.cumsum([bool(row) for row in rows]) - 1
    indices = pa.array([int(place) if row else None for place, row in zip(present, rows, strict=True)], pa.int64())
    return pa.StructArray.from_arrays(children, fields=list(type_.arrow)).take(indices)


def _insert_defaults(child: pa.Array, groups: list[list[Any]], type_: DataType) -> pa.Array:
    """Returns the elements, with the type's default for each group that has none."""
    if len(child) == len(groups):
        return child
    is_there = np.array([bool(group) for group in groups])
    places = np.where(is_there, np.cumsum(is_there) - 1, len(child))
    return pa.concat_arrays([child, combine_chunks(type_default(type_, 1))]).take(pa.array(places))


def _tuple_row(value: Any, index: int, type_: TupleType, options: FormatOptions) -> list[Any]:
    if value is None:
        return []
    if isinstance(value, dict) and type_.is_named:
        if isinstance(value, DuplicateKeyObject):
            _refuse_repeated(value, index, type_)
        row = [value.get(name, ABSENT) for name, _ in type_.elements]
        if None in row and options.null_as_default:
            kinds = zip(row, type_.elements, strict=True)
            row = [ABSENT if item is None and not inner.is_nullable else item for item, (_, inner) in kinds]
        return row
    if isinstance(value, list) and len(value) == len(type_.elements):
        return value
    raise parse_error(index, json.dumps(value, ensure_ascii=False), type_)


def _refuse_repeated(value: DuplicateKeyObject, index: int, type_: TupleType) -> None:
    names = {name for name, _ in type_.elements}
    counts = Counter(key for key, _ in value.pairs if key in names)
    for key, count in counts.items():
        if count > 1:
            raise BadValueError("INCORRECT_DATA", index, key, f"JSON object contains duplicate key {key!r}")


def _expect(value: Any, kind: type, index: int, type_: DataType) -> Any:
    if value is None:
        return kind()
    if not isinstance(value, kind):
        raise parse_error(index, json.dumps(value, ensure_ascii=False), type_)
    return value


def _apply_nulls(array: pa.Array, values: list[Any]) -> pa.Array:
    if not any(value is None for value in values):
        return array
    return array.take(pa.array([None if value is None else index for index, value in enumerate(values)], pa.int64()))
