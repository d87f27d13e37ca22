"""Functions that make longer strings: of one text again and again, or of several side by side."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pyarrow as pa

from parts.errors import UserError
from parts.types import ArrayType, FixedStringType
from sql.functions import guards
from sql.functions.arrays import array_concat
from sql.functions.registry import Call, define, function
from sql.functions.scanned_strings import padded, spaces
from sql.functions.strings import FEW_TIMES, MOST_CHARACTERS, number, string
from sql.typing.fragments import Fragment, called, fragment, joined
from sql.typing.macros import macros
from sql.typing.scannable import OFTEN, Scannable
from sql.typing.texts import to_text
from sql.typing.typed import INT8, STRING, UINT8, Typed, text

_PADDED = guards.Most(
    "TOO_LARGE_STRING_SIZE", 1_000_000, False, "New padded length ({size}) is too big, maximum is: {most}"
)  # fmt: skip
_REPEATED = guards.Most(
    "TOO_LARGE_STRING_SIZE", 1_000_000, False, "Too many times to repeat ({size}), maximum is: {most}"
)  # fmt: skip


def _pad(name: str) -> Callable[[Call], Typed]:
    def build(call: Call) -> Typed:
        fill = fragment("coalesce(nullif({}, ''), ' ')", string(call, 2)) if len(call.args) > 2 else text(" ")
        size = fragment("pando_pad_length({})", guards.room_for(call.args[1], number(call, 1), 1, _PADDED))
        sql, value, known = called(name, string(call, 0), size, fill), string(call, 0), call.args[1].value
        filled = (call.args[2].value or " ") if len(call.args) > 2 else " "
        if isinstance(filled, str) and type(known) is int and 0 <= known < MOST_CHARACTERS:
            sql = Scannable(sql, value, partial(padded(name, filled), sizes=known), pa.string(), worth_at=2)
        elif isinstance(filled, str) and call.args[1].type == UINT8:
            sql = Scannable(sql, (value, call.args[1].sql), padded(name, filled), pa.string())
        return Typed(sql, STRING)

    return build


define("leftPad lpad leftPadUTF8", _pad("lpad"), (2, 3), any_case=True)
define("rightPad rpad rightPadUTF8", _pad("rpad"), (2, 3), any_case=True)


_BLOCK = 64


@function("repeat", 2, any_case=True)
def repeat(call: Call) -> Typed:
    times = fragment("greatest({}, 0)", number(call, 1))
    if not isinstance(call.args[1].value, int) or call.args[1].value > FEW_TIMES:
        times = guards.room(times, fragment("strlen({})", string(call, 0)), _REPEATED)
        if isinstance(call.args[0].value, str) and len(call.args[0].value) < _BLOCK:  # DuckDB copies each one alone
            template = "list_transform([{}], lambda n: repeat({}, n // {}) || repeat({}, n % {}))[1]"
            block = text(call.args[0].value * _BLOCK)
            return Typed(fragment(template, times, block, _BLOCK, string(call, 0), _BLOCK), STRING)
    return Typed(fragment("repeat({}, {})", string(call, 0), times), STRING)


@function("space", 1, any_case=True)
def space(call: Call) -> Typed:
    value = call.args[0]
    times = guards.room_for(value, fragment("greatest({}, 0)", number(call, 0)), 1, _REPEATED)
    sql = fragment("repeat(' ', {})", times)
    if value.type in (UINT8, INT8):
        sql = Scannable(sql, value.sql, spaces, pa.string(), worth_at=OFTEN)
    return Typed(sql, STRING)


_MOST_IN_A_ROW = 8


@function("concat", (0, None), any_case=True)
def concat(call: Call) -> Typed:
    if call.args and all(isinstance(arg.type, ArrayType) for arg in call.args):
        return array_concat(call)
    texts = [
        fragment("decode({})", arg.sql)
        if isinstance(arg.type, FixedStringType)
        else to_text(arg, call.environment.zone)
        for arg in call.args
    ]
    return Typed(_joined(texts), STRING)


def _joined(texts: list[Fragment]) -> Fragment:
    """In halves: DuckDB takes very long to plan hundreds of operators in one another."""
    if len(texts) <= _MOST_IN_A_ROW:
        return fragment("({})", joined(" || ", texts)) if texts else text("")
    middle = len(texts) // 2
    return fragment("({} || {})", _joined(texts[:middle]), _joined(texts[middle:]))


@function("concatWithSeparator concat_ws", (1, None), any_case=True)
def concat_with_separator(call: Call) -> Typed:
    separator = string(call, 0)
    texts = [to_text(arg, call.environment.zone) for arg in call.args[1:]]
    separated = [piece for word in texts for piece in (separator, word)]
    return Typed(fragment("({})", joined(" || ", separated[1:])) if texts else text(""), STRING)


@function("format", (1, None))
def format_string(call: Call) -> Typed:
    """``format('{} and {1}', a, b)``."""
    import re

    pattern, counter = call.constant_text(0), 0
    pieces: list[Fragment] = []
    for part in re.split(r"(\{\{|\}\}|\{\d*\})", pattern):
        if part in ("{{", "}}"):
            pieces.append(text(part[0]))
        elif re.fullmatch(r"\{\d*\}", part):
            index = int(part[1:-1]) if part != "{}" else counter
            counter += 1
            if index + 1 >= len(call.args):
                raise UserError("BAD_ARGUMENTS", f"format: {{{index}}} has no argument")
            pieces.append(to_text(call.args[index + 1], call.environment.zone))
        elif part:
            pieces.append(text(part))
    return Typed(fragment("({})", joined(" || ", pieces)) if pieces else text(""), STRING)


MACROS = macros(
    r"""pando_pad_length(n) AS CAST(CASE WHEN n < 0
        THEN error('pando:353:New padded length (' || n || ') is negative') ELSE n END AS INTEGER)""",
)
