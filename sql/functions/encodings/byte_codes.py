"""Functions between strings and the codes of their bytes: ``ascii``, ``char``, ``hex``, ``bin``."""

from __future__ import annotations

import pyarrow as pa

from parts.common.errors import UserError
from parts.types import (
    BoolType,
    DataType,
    DateTimeType,
    DateType,
    DecimalType,
    FixedStringType,
    FloatType,
    IntegerType,
    StringType,
    strip_nullable,
)
from sql.functions.hashes.integer_hashes import DigestBytes
from sql.functions.registry import Call, function
from sql.functions.strings.basic_strings import string_argument
from sql.functions.strings.string_kernels import first_bytes, significant_bytes
from sql.typing.casts.casts import cast_to
from sql.typing.column_kernels.scannable import Scannable
from sql.typing.duckdb.bound_values import bind_value
from sql.typing.duckdb.macro_weights import define_macros
from sql.typing.duckdb.sql_fragments import Fragment, fragment, join_fragments
from sql.typing.integer_conversions import wrap_integer
from sql.typing.result_types import is_number
from sql.typing.typed_expressions import INT32, STRING, UINT64, Typed

_STORED_BITS: dict[type[DataType], int] = {DateType: 32, DateTimeType: 64}
"""Bits of a day or second in Arrow; the numbers are never negative."""


@function("char", (1, None))
def char(call: Call) -> Typed:
    """Compiles ``char(…)``: one byte for each number, its integer part modulo 256; NaN gives 0."""
    codes = []
    for position, arg in enumerate(call.args):
        if not is_number(arg.type) or isinstance(arg.type, DecimalType):
            raise call.wrong_type(position, "an integer or a float")
        is_float = isinstance(arg.type, FloatType)
        whole = fragment("CAST({} AS UTINYINT)", arg.sql) if isinstance(arg.type, BoolType) else arg.sql
        codes.append(fragment("pando_float_byte({})" if is_float else "pando_byte({})", whole))
    if len(codes) == 1 and isinstance(call.args[0].type, IntegerType):
        template = "(CASE WHEN {0} & 255 < 128 THEN chr(CAST({0} & 255 AS INTEGER)) ELSE decode(unhex({1})) END)"
        return Typed(bind_value(call.args[0].sql, "code", lambda v: fragment(template, v, codes[0])), STRING)
    return Typed(fragment("decode(unhex({}))", join_fragments(" || ", codes)), STRING)


@function("ascii", 1)
def ascii_code(call: Call) -> Typed:
    """Compiles ``ascii(text)``: the first byte as a number."""
    template = """(CASE WHEN {0} = '' THEN 0 WHEN {0} < chr(128) THEN ascii({0})
        ELSE CAST('0x' || left(hex(encode(left({0}, 1))), 2) AS INTEGER) END)"""
    sql = bind_value(string_argument(call, 0), "whole", lambda v: fragment(template, v))
    return Typed(Scannable(sql, string_argument(call, 0), first_bytes, pa.int32()), INT32)


@function("hex", 1)
def hexadecimal(call: Call) -> Typed:
    """Compiles ``hex(value)`` of strings, integers, dates and times. Raises ``UserError`` 48."""
    value = call.args[0]
    if isinstance(strip_nullable(value.type), (StringType, FixedStringType)):
        if isinstance(value.sql, DigestBytes):
            return Typed(fragment("upper({})", value.sql.digits), STRING)
        return Typed(
            fragment("hex({})" if isinstance(value.type, FixedStringType) else "hex(encode({}))", value.sql), STRING
        )
    if (number := _as_unsigned(call)) is not None:
        digits = bind_value(fragment("to_hex({})", number), "digits", lambda v: fragment("pando_even_hex({})", v))
        return Typed(_scan_digits(value, digits, is_binary=False), STRING)
    raise UserError("NOT_IMPLEMENTED", f"hex of {value.type} is not supported")


def _as_unsigned(call: Call) -> Fragment | None:
    """Returns the bits of an integer, day or second as UBIGINT, or ``None``."""
    value = call.args[0]
    if isinstance(value.type, IntegerType):
        bits = wrap_integer(value.sql, value.type, IntegerType(value.type.bits, False))
        return fragment("CAST({} AS UBIGINT)", bits)
    if isinstance(value.type, (BoolType, DateType, DateTimeType)):
        return cast_to(value, UINT64, call.environment.zone)
    return None


@function("bin", 1)
def binary(call: Call) -> Typed:
    """Compiles ``bin(value)``: a string byte by byte, a number without its leading zero bytes."""
    value = call.args[0]
    if isinstance(value.type, StringType):
        return Typed(fragment("bin({})", value.sql), STRING)
    if (number := _as_unsigned(call)) is None:
        raise UserError("NOT_IMPLEMENTED", f"bin of {value.type} is not supported")
    digits = fragment("to_binary({})", number)
    width = fragment("CAST(greatest(8, ceil(length({digits}) / 8.0) * 8) AS INTEGER)", digits=digits)
    return Typed(_scan_digits(value, fragment("lpad({}, {}, '0')", digits, width), is_binary=True), STRING)


def _scan_digits(value: Typed, sql: Fragment, *, is_binary: bool) -> Fragment:
    bits = value.type.bits if isinstance(value.type, IntegerType) else _STORED_BITS.get(type(value.type))
    return sql if bits is None else Scannable(sql, value.sql, significant_bytes(bits, is_binary=is_binary), pa.string())


MACROS = define_macros(
    r"pando_byte(x) AS lpad(to_hex(CAST(x & 255 AS INTEGER)), 2, '0')",
    r"""pando_float_byte(x) AS CASE WHEN abs(x) < 9223372036854775808 THEN pando_byte(CAST(trunc(x) AS BIGINT))
        ELSE '00' END""",
    r"pando_even_hex(h) AS CASE WHEN length(h) % 2 = 1 THEN '0' || h ELSE h END",
)
