"""Evaluates SQL expressions in VALUES: ``now()``, ``1 + 1``, ``toDate('2020-01-01')``.

Texts that differ only in their string literals (``toDate('…')`` on every row) are one expression over columns of
strings, evaluated once. Others are compiled one by one, each distinct text once. Each is evaluated for as many rows as
have it, so that ``generateUUIDv4`` gives every row its own value. Numbers are not taken out of an expression: the type
of a number literal depends on its value, and with it the result of some functions.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parts.common.errors import UserError
from parts.table.table_description import Column, TableSchema
from parts.types import DataType, IntegerType, MapType, StringType
from sql.formats.converters.array_casts import cast_array
from sql.formats.format_options import BadValueError, FormatOptions
from sql.grammar.text_escapes import shorten_for_message
from sql.grammar.tokens import unquote_string
from sql.run.block_expressions import compile_expressions

_STRING = re.compile(r"'(?:[^'\\]++|\\.|'')*+'", re.DOTALL)
_EMPTY_MAP = re.compile(r"\s*map\s*\(\s*\)\s*")
_MOST_CHARACTERS, _MOST_NESTING = 262_144, 100
_OPENING, _CLOSING = (np.frombuffer(marks, np.uint8) for marks in (b"([{", b")]}"))
_FEW = 8  # so few distinct texts are not searched for a common shape


def evaluate_expressions(texts: pa.Array, type_: DataType, options: FormatOptions) -> pa.Array:
    """Evaluates the expressions and casts the values to the type.

    Raises ``BadValueError`` with the row of the first bad one.
    """
    encoded = pc.dictionary_encode(texts)
    distinct: list[str] = encoded.dictionary.to_pylist()
    for code, text in enumerate(distinct):
        if len(text) > _MOST_CHARACTERS or _count_nesting(text) > _MOST_NESTING:
            index = int(pc.index(encoded.indices, pa.scalar(code, pa.int32())).as_py())
            detail = (
                f"An expression in VALUES may have {_MOST_CHARACTERS} characters and {_MOST_NESTING} brackets inside "
                f"each other: {shorten_for_message(text)!r}"
            )
            raise BadValueError("SYNTAX_ERROR", index, text, detail)
    if len(distinct) > _FEW:
        values = _evaluate_by_shape(distinct, encoded.indices, type_, options)
        if values is not None:
            return values
    codes = np.asarray(encoded.indices)
    order = np.argsort(codes, kind="stable")
    counts = np.bincount(codes, minlength=len(distinct))
    firsts = np.cumsum(counts) - counts
    pieces: list[pa.Array] = []
    for code, text in enumerate(distinct):
        options.status.check()
        try:
            pieces.append(_evaluate_one(text, int(counts[code]), type_, options))
        except (UserError, BadValueError) as error:
            message = error.message if isinstance(error, UserError) else error.detail
            index = int(order[firsts[code]])
            raise BadValueError(
                error.name, index, text, f"{message} in the expression {shorten_for_message(text)!r}"
            ) from None
    inverse = np.empty(len(order), np.int64)
    inverse[order] = np.arange(len(order))
    return pa.concat_arrays(pieces).take(pa.array(inverse))


def _count_nesting(text: str) -> int:
    """Returns how deep brackets are nested, also those in strings."""
    if text.count("(") + text.count("[") <= _MOST_NESTING:
        return 0
    data = np.frombuffer(text.encode(), np.uint8)
    change = np.isin(data, _OPENING).astype(np.int32) - np.isin(data, _CLOSING).astype(np.int32)
    return int(np.cumsum(change).max())


def _evaluate_one(text: str, rows: int, type_: DataType, options: FormatOptions) -> pa.Array:
    if isinstance(type_, MapType) and _EMPTY_MAP.fullmatch(text):  # its keys and values have no type, which Arrow lacks
        return pa.array([[]] * rows, type_.arrow)
    schema = TableSchema((Column("_row", IntegerType(8, False)),))
    (compiled,) = compile_expressions([text], schema, options.timezone)
    block = pa.table({"_row": pa.array(np.zeros(rows, np.uint8))})
    return cast_array(compiled.evaluate(block), compiled.type, type_, options)


def _evaluate_by_shape(
    distinct: Sequence[str], rows: pa.Array, type_: DataType, options: FormatOptions
) -> pa.Array | None:
    """Evaluates all texts as one expression over their string literals.

    Returns ``None`` when they have no common shape.
    """
    shapes = {_STRING.sub("''", text) for text in distinct}
    if len(shapes) != 1:
        return None
    literals = [_STRING.findall(text) for text in distinct]
    names = [f"_literal_{index}" for index in range(len(literals[0]))]
    replacements = iter(names)
    expression = _STRING.sub(lambda _: next(replacements), distinct[0])
    columns = zip(*literals, strict=True)
    arrays = [pa.array([unquote_string(literal) for literal in column], pa.string()) for column in columns]
    schema = TableSchema(tuple(Column(name, StringType()) for name in names))
    try:
        (compiled,) = compile_expressions([expression], schema, options.timezone)
        block = pa.Table.from_arrays([array.take(rows) for array in arrays], names=names)
        return cast_array(compiled.evaluate(block), compiled.type, type_, options)
    except (UserError, BadValueError):
        return None  # a function that needs a constant, or a bad value: evaluation one by one tells
