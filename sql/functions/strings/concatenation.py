"""Functions that build longer strings: padding, repetition, concatenation and ``format``."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pyarrow as pa

from parts.common.errors import UserError
from parts.types import ArrayType, FixedStringType
from sql.functions import memory_guards
from sql.functions.arrays.arrays import array_concat
from sql.functions.registry import Call, define, function
from sql.functions.strings.basic_strings import (
    MAX_SCANNED_PIECE_CHARACTERS,
    MAX_UNGUARDED_REPEATS,
    integer_argument,
    string_argument,
)
from sql.functions.strings.string_kernels import pad_text, repeat_blank
from sql.typing.casts.text_casts import to_text
from sql.typing.column_kernels.scannable import MIN_REPEATS_FOR_DICTIONARY, Scannable, parse_or_leave_over
from sql.typing.duckdb.macro_weights import define_macros
from sql.typing.duckdb.sql_fragments import Fragment, fragment, function_call, join_fragments
from sql.typing.typed_expressions import INT8, STRING, UINT8, Typed, string_literal

_PAD_LIMIT = memory_guards.SizeLimit(
    "TOO_LARGE_STRING_SIZE", 1_000_000, False, "New padded length ({size}) is too big, maximum is: {maximum}"
)  # fmt: skip
_REPEAT_LIMIT = memory_guards.SizeLimit(
    "TOO_LARGE_STRING_SIZE", 1_000_000, False, "Too many times to repeat ({size}), maximum is: {maximum}"
)  # fmt: skip


def _build_pad(name: str, *, by_bytes: bool) -> Callable[[Call], Typed]:
    macro = f"pando_byte_{name}" if by_bytes else name

    def build(call: Call) -> Typed:
        fill = (
            fragment("coalesce(nullif({}, ''), ' ')", string_argument(call, 2))
            if len(call.args) > 2
            else string_literal(" ")
        )
        size = fragment(
            "pando_pad_length({})",
            memory_guards.guarded_size_for(call.args[1], integer_argument(call, 1), 1, _PAD_LIMIT),
        )
        sql, value, known = (
            function_call(macro, string_argument(call, 0), size, fill),
            string_argument(call, 0),
            call.args[1].value,
        )
        filled = (call.args[2].value or " ") if len(call.args) > 2 else " "
        if not isinstance(filled, str) or (by_bytes and not filled.isascii()):
            return Typed(sql, STRING)
        compute = pad_text(name, filled, by_bytes=by_bytes)
        is_known = type(known) is int and 0 <= known < MAX_SCANNED_PIECE_CHARACTERS
        if is_known and by_bytes:
            sql = parse_or_leave_over(
                sql,
                value,
                partial(compute, sizes=known),
                pa.string(),
                lambda odd: function_call(macro, odd, size, fill),
            )
        elif is_known:
            sql = Scannable(sql, value, partial(compute, sizes=known), pa.string(), worth_at=2)
        elif call.args[1].type == UINT8 and not by_bytes:
            sql = Scannable(sql, (value, call.args[1].sql), compute, pa.string())
        return Typed(sql, STRING)

    return build


for _names, _engine in (("leftPad lpad", "lpad"), ("rightPad rpad", "rpad")):
    define(_names, _build_pad(_engine, by_bytes=True), (2, 3))
    define(f"{_names.split()[0]}UTF8", _build_pad(_engine, by_bytes=False), (2, 3))


_BLOCK = 64


@function("repeat", 2)
def repeat(call: Call) -> Typed:
    """Compiles ``repeat(text, times)``.

    Repeats a short literal in blocks of 64 copies, because DuckDB appends the copies one by one.
    """
    times = fragment("greatest({}, 0)", integer_argument(call, 1))
    if not isinstance(call.args[1].value, int) or call.args[1].value > MAX_UNGUARDED_REPEATS:
        times = memory_guards.guarded_size(times, fragment("strlen({})", string_argument(call, 0)), _REPEAT_LIMIT)
        if isinstance(call.args[0].value, str) and len(call.args[0].value) < _BLOCK:
            template = "list_transform([{}], lambda n: repeat({}, n // {}) || repeat({}, n % {}))[1]"
            block = string_literal(call.args[0].value * _BLOCK)
            return Typed(fragment(template, times, block, _BLOCK, string_argument(call, 0), _BLOCK), STRING)
    return Typed(fragment("repeat({}, {})", string_argument(call, 0), times), STRING)


@function("space", 1)
def space(call: Call) -> Typed:
    """Compiles ``space(n)``: n blanks."""
    value = call.args[0]
    times = memory_guards.guarded_size_for(
        value, fragment("greatest({}, 0)", integer_argument(call, 0)), 1, _REPEAT_LIMIT
    )
    sql = fragment("repeat(' ', {})", times)
    if value.type in (UINT8, INT8):
        sql = Scannable(sql, value.sql, repeat_blank, pa.string(), worth_at=MIN_REPEATS_FOR_DICTIONARY)
    return Typed(sql, STRING)


_MAX_CHAIN = 8


@function("concat", (0, None))
def concat(call: Call) -> Typed:
    """Compiles ``concat(…)`` of arrays, or of values of any type as texts."""
    if call.args and all(isinstance(arg.type, ArrayType) for arg in call.args):
        return array_concat(call)
    texts = [
        fragment("decode({})", arg.sql)
        if isinstance(arg.type, FixedStringType)
        else to_text(arg, call.environment.zone)
        for arg in call.args
    ]
    return Typed(_join_texts(texts), STRING)


def _join_texts(texts: list[Fragment]) -> Fragment:
    """Joins texts with ``||`` as a balanced tree: DuckDB plans hundreds of nested operators very slowly."""
    if len(texts) <= _MAX_CHAIN:
        return fragment("({})", join_fragments(" || ", texts)) if texts else string_literal("")
    middle = len(texts) // 2
    return fragment("({} || {})", _join_texts(texts[:middle]), _join_texts(texts[middle:]))


@function("concatWithSeparator concat_ws", (1, None))
def concat_with_separator(call: Call) -> Typed:
    """Compiles ``concatWithSeparator(separator, …)``."""
    separator = string_argument(call, 0)
    texts = [to_text(arg, call.environment.zone) for arg in call.args[1:]]
    separated = [piece for word in texts for piece in (separator, word)]
    return Typed(fragment("({})", join_fragments(" || ", separated[1:])) if texts else string_literal(""), STRING)


@function("format", (1, None))
def format_string(call: Call) -> Typed:
    """Compiles ``format('{} and {1}', a, b)``. Raises ``UserError`` 36 for a missing argument."""
    import re

    pattern, counter = call.constant_text(0), 0
    pieces: list[Fragment] = []
    for part in re.split(r"(\{\{|\}\}|\{\d*\})", pattern):
        if part in ("{{", "}}"):
            pieces.append(string_literal(part[0]))
        elif re.fullmatch(r"\{\d*\}", part):
            index = int(part[1:-1]) if part != "{}" else counter
            counter += 1
            if index + 1 >= len(call.args):
                raise UserError("BAD_ARGUMENTS", f"format: {{{index}}} has no argument")
            pieces.append(to_text(call.args[index + 1], call.environment.zone))
        elif part:
            pieces.append(string_literal(part))
    return Typed(fragment("({})", join_fragments(" || ", pieces)) if pieces else string_literal(""), STRING)


MACROS = define_macros(
    r"""pando_pad_length(n) AS CAST(CASE WHEN n < 0
        THEN error('pando:353:New padded length (' || n || ') is negative') ELSE n END AS INTEGER)""",
    r"""pando_byte_padding(s, n, fill) AS
        decode(array_slice(encode(repeat(fill, (n - strlen(s)) // strlen(fill) + 1)), 1, n - strlen(s)))""",
    *(
        rf"""pando_byte_{name}(s, n, fill) AS CASE
        WHEN strlen(s) = length(s) AND strlen(fill) = length(fill) THEN {name}(s, n, fill)
        WHEN strlen(s) >= n THEN decode(array_slice(encode(s), 1, n))
        ELSE {whole} END"""
        for name, whole in (
            ("lpad", "pando_byte_padding(s, n, fill) || s"),
            ("rpad", "s || pando_byte_padding(s, n, fill)"),
        )
    ),
)
