"""``reinterpretAsT`` and ``reinterpret``: read a value's bytes as a value of another type.

Numbers are the little-endian bytes that ClickHouse stores. Missing bytes at the end are zero; surplus bytes are cut
off.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pyarrow as pa

from parts.types import (
    BoolType,
    DataType,
    DateTimeType,
    DateType,
    EnumType,
    FixedStringType,
    FloatType,
    IntegerType,
    IPv4Type,
    StringType,
    parse_type,
)
from sql.functions.hashes.row_words import rows_of_texts
from sql.functions.registry import Call, define, function
from sql.typing.casts.casts import cast_to
from sql.typing.column_kernels.kernels import Kernel, fixed_width_column, fixed_width_values
from sql.typing.duckdb.sql_fragments import Fragment, fragment, function_call
from sql.typing.integer_conversions import wrap_integer
from sql.typing.scalars.all_scalars import scalar_of
from sql.typing.typed_expressions import UINT64, Typed

_NUMBERS = (IntegerType, FloatType, BoolType, EnumType, IPv4Type, DateType, DateTimeType)


def _first_eight_bytes(call: Call, value: Typed) -> Fragment:
    """Returns the first eight bytes of a value as a UBIGINT."""
    if isinstance(value.type, StringType):
        return function_call("pando_first_bytes", function_call("encode", value.sql))
    if isinstance(value.type, FixedStringType):
        return function_call("pando_first_bytes", value.sql)
    scalar = scalar_of(value.type)
    if scalar is not None and isinstance(value.type, _NUMBERS):
        return scalar.memory_bits(value, value.type)
    raise call.wrong_type(0, "a number, a date or a string")


def _reinterpret(call: Call, target: DataType) -> Typed:
    bits = _first_eight_bytes(call, call.args[0])
    match target:
        case IntegerType():
            return Typed(wrap_integer(bits, UINT64, target), target)
        case FloatType(width):
            return Typed(function_call(f"pando_float{width}_of_bits", bits), target)
        case DateType() | DateTimeType():
            number = IntegerType(8 * target.memory_width_bytes, False)
            days = Typed(wrap_integer(bits, UINT64, number), number)
            if isinstance(target, DateType):
                return Typed(fragment("(DATE '1970-01-01' + CAST({} AS INTEGER))", days.sql), target)
            return Typed(cast_to(days, target, call.environment.zone), target)
    raise call.wrong_type(0, f"a value that is reinterpreted as a number or a date, not as {target}")


def _build_reinterpretation(target: DataType) -> Callable[[Call], Typed]:
    return lambda call: _reinterpret(call, target)


for _type in (
    *(IntegerType(bits, signed) for bits in (8, 16, 32, 64) for signed in (False, True)),
    FloatType(32), FloatType(64), DateType(), DateTimeType(),
):  # fmt: skip
    define(f"reinterpretAs{_type.name}", _build_reinterpretation(_type), 1)


@function("reinterpret", 2)
def reinterpret(call: Call) -> Typed:
    """Compiles ``reinterpret(value, 'T')``. Raises ``UserError`` 43."""
    return _reinterpret(call, parse_type(call.constant_text(1)))


def _first_bytes(texts: pa.Array) -> pa.Array:
    found = []
    for rows in rows_of_texts(texts):
        word = rows.words(rows.begins)
        beyond = 8 * (8 - np.minimum(rows.lengths, 8)).astype(np.uint64)
        found.append(
            np.where(beyond == 64, np.uint64(0), (word << (beyond & np.uint64(63))) >> (beyond & np.uint64(63)))
        )
    return fixed_width_column(np.concatenate(found) if found else np.empty(0, np.uint64), pa.uint64(), texts)


def _float_of(kind: type[np.unsignedinteger], result: pa.DataType, bits: pa.Array) -> pa.Array:
    return fixed_width_column(fixed_width_values(bits, np.uint64).astype(kind), result, bits)


KERNELS = (
    Kernel("pando_first_bytes", ("BLOB",), "UBIGINT", _first_bytes),
    Kernel("pando_float32_of_bits", ("UBIGINT",), "FLOAT", partial(_float_of, np.uint32, pa.float32())),
    Kernel("pando_float64_of_bits", ("UBIGINT",), "DOUBLE", partial(_float_of, np.uint64, pa.float64())),
)
