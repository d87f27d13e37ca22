"""Bit operations, integer hashes, digests and random values.

intHash32 and intHash64 are exact, because tables are sampled by them. NumPy computes them, for queries and for keys.
Hashes of any values are in ``value_hashes``.

Source of the integer hashes: the 64-bit finaliser of MurmurHash3, and Thomas Wang's 64 to 32 bit mix, as documented for
ClickHouse's functions.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parts.common.errors import UserError
from parts.types import (
    BoolType,
    Date32Type,
    DateTimeType,
    DateType,
    FixedStringType,
    IntegerType,
    StringType,
)
from sql.functions.numbers.arithmetic import with_addresses
from sql.functions.registry import Call, define, function
from sql.functions.strings.basic_strings import string_argument
from sql.typing.casts.casts import cast_to
from sql.typing.column_kernels.kernels import Kernel, fixed_width_column, fixed_width_values
from sql.typing.column_kernels.scannable import Compute, Scannable
from sql.typing.duckdb.macro_weights import define_macros
from sql.typing.duckdb.sql_fragments import Fragment, fragment, function_call
from sql.typing.integer_conversions import wrap_integer, wrap_to_64_bits
from sql.typing.result_types import bool_as_integer
from sql.typing.typed_expressions import FLOAT64, UINT8, UINT16, UINT32, UINT64, Typed, cast

_INTEGER = (IntegerType, BoolType)
HASH32_SALT = 0x75D9543DE018BF45
HASH64_SALT = 0x4CF2D2BAAE6DA887


def _build_bitwise(operator: str) -> Callable[[Call], Typed]:
    def build(call: Call) -> Typed:
        if isinstance(call.args[0].type, FixedStringType) and call.types[0] == call.types[1]:
            bits = [fragment("CAST({} AS BIT)", arg.sql) for arg in call.args]
            return Typed(cast(combined(*bits), call.types[0]), call.types[0])
        for position, arg in enumerate(call.args):
            if not isinstance(arg.type, _INTEGER):
                raise call.wrong_type(position, "an integer")
        left, right = (bool_as_integer(type_) for type_ in call.types)
        type_ = IntegerType(max(left.bits, right.bits), left.signed or right.signed)
        a, b = (wrap_integer(arg.sql, bool_as_integer(arg.type), type_) for arg in call.args)
        return Typed(combined(a, b), type_)

    def combined(a: Fragment, b: Fragment) -> Fragment:
        return function_call("xor", a, b) if operator == "xor" else fragment("({} {} {})", a, operator, b)

    return with_addresses(build)


define("bitAnd", _build_bitwise("&"), 2)
define("bitOr", _build_bitwise("|"), 2)
define("bitXor", _build_bitwise("xor"), 2)


@function("bitNot", 1)
def bit_not(call: Call) -> Typed:
    """Compiles ``bitNot(value)`` of an integer or FixedString. Raises ``UserError`` 43."""
    if isinstance(call.args[0].type, FixedStringType):
        return Typed(cast(fragment("(~CAST({} AS BIT))", call.args[0].sql), call.types[0]), call.types[0])
    if not isinstance(call.args[0].type, _INTEGER):
        raise call.wrong_type(0, "an integer")
    type_ = bool_as_integer(call.args[0].type)
    if type_.signed:
        return Typed(cast(fragment("(-CAST({} AS HUGEINT) - 1)", call.args[0].sql), type_), type_)
    return Typed(cast(fragment("xor({}, {})", call.args[0].sql, cast(str(type_.maximum), type_)), type_), type_)


@function("bitShiftLeft", 2)
@with_addresses
def bit_shift_left(call: Call) -> Typed:
    """Compiles ``bitShiftLeft(value, count)``."""
    value, type_ = call.args[0], bool_as_integer(call.args[0].type)
    count = fragment("CAST({} AS INTEGER)", call.args[1].sql)
    shifted = fragment("(CAST({} AS HUGEINT) * CAST(pow(2, {}) AS HUGEINT))", value.sql, count)
    low = wrap_to_64_bits(shifted, IntegerType(64, type_.signed))
    kept = wrap_integer(low, IntegerType(64, type_.signed), type_)
    return Typed(fragment("(CASE WHEN {} >= {} THEN {} ELSE {} END)", count, type_.bits, cast("0", type_), kept), type_)


@function("bitShiftRight", 2)
@with_addresses
def bit_shift_right(call: Call) -> Typed:
    """Compiles ``bitShiftRight(value, count)``. Raises ``UserError`` 48 for an Int64."""
    value, type_ = call.args[0], bool_as_integer(call.args[0].type)
    count = fragment("CAST({} AS INTEGER)", call.args[1].sql)
    if type_.signed:
        quotient = fragment("floor(CAST({} AS DOUBLE) / pow(2, {}))", value.sql, count)
        if type_.bits == 64:
            raise UserError("NOT_IMPLEMENTED", "bitShiftRight of Int64 is not supported")
        return Typed(cast(quotient, type_), type_)
    zero = cast("0", type_)
    return Typed(
        fragment(
            "(CASE WHEN {} >= {} THEN {} ELSE {} END)",
            count,
            type_.bits,
            zero,
            cast(fragment("{} >> {}", value.sql, count), type_),
        ),
        type_,
    )


@function("bitTest", 2)
def bit_test(call: Call) -> Typed:
    """Compiles ``bitTest(value, position)``."""
    number = wrap_integer(call.args[0].sql, bool_as_integer(call.args[0].type), UINT64)
    return Typed(cast(fragment("(({} >> CAST({} AS INTEGER)) & 1)", number, call.args[1].sql), UINT8), UINT8)


@function("bitCount", 1)
def bit_count(call: Call) -> Typed:
    """Compiles ``bitCount(value)`` of an integer or string. Raises ``UserError`` 43."""
    value = call.args[0]
    if isinstance(value.type, FixedStringType):
        return Typed(cast(fragment("bit_count(CAST({} AS BIT))", value.sql), UINT16), UINT16)
    if isinstance(value.type, StringType):
        count = fragment("(CASE WHEN {0} = '' THEN 0 ELSE bit_count(CAST(encode({0}) AS BIT)) END)", value.sql)
        return Typed(cast(count, UINT64), UINT64)
    if not isinstance(call.args[0].type, _INTEGER):
        raise call.wrong_type(0, "an integer")
    return Typed(cast(fragment("bit_count({})", call.args[0].sql), UINT8), UINT8)


# Integer hashes -------------------------------------------------------------------------------------------------------


def _build_hash(width: int, type_: IntegerType) -> Callable[[Call], Typed]:
    def build(call: Call) -> Typed:
        value = given = call.args[0]
        if isinstance(value.type, (DateType, Date32Type, DateTimeType)):
            days = UINT32 if isinstance(value.type, DateTimeType) else IntegerType(64, True)
            value = Typed(cast_to(value, days, call.environment.zone), days)
        if not isinstance(value.type, _INTEGER):
            raise call.wrong_type(0, "an integer")
        wide = IntegerType(64, bool_as_integer(value.type).signed)
        sql = function_call(f"pando_hash{width}_{wide.name.lower()}", cast(value.sql, wide))
        return Typed(Scannable(sql, given.sql, _hash_kernel(width, type_), type_.arrow), type_)

    return build


def _hash_kernel(width: int, type_: IntegerType) -> Compute:
    """Returns a scan kernel that hashes integers, days and seconds."""
    hashed = int_hash_32 if width == 32 else int_hash_64

    def compute(given: pa.Array) -> pa.Array:
        if pa.types.is_timestamp(given.type):
            given = pc.cast(given, pa.timestamp("s"), safe=False)
        elif pa.types.is_date32(given.type):
            given = given.view(pa.int32())
        wide = given.cast(pa.uint64() if pa.types.is_unsigned_integer(given.type) else pa.int64())
        return fixed_width_column(hashed(fixed_width_values(wide, np.uint64)), type_.arrow, wide)

    return compute


define("intHash32", _build_hash(32, UINT32), 1)
define("intHash64", _build_hash(64, UINT64), 1)


def int_hash_32(values: np.ndarray) -> np.ndarray:
    """Computes intHash32 of 64-bit patterns."""
    with np.errstate(over="ignore"):
        key = values.astype(np.uint64)
        key ^= np.uint64(HASH32_SALT)
        key = ~key + (key << np.uint64(18))
        key ^= (key >> np.uint64(31)) | (key << np.uint64(33))
        key *= np.uint64(21)
        key ^= (key >> np.uint64(11)) | (key << np.uint64(53))
        key += key << np.uint64(6)
        key ^= (key >> np.uint64(22)) | (key << np.uint64(42))
    return key.astype(np.uint32)


def int_hash_64(values: np.ndarray) -> np.ndarray:
    """Computes intHash64 of 64-bit patterns."""
    key = values.astype(np.uint64) ^ np.uint64(HASH64_SALT)
    with np.errstate(over="ignore"):
        key ^= key >> np.uint64(33)
        key *= np.uint64(0xFF51AFD7ED558CCD)
        key ^= key >> np.uint64(33)
        key *= np.uint64(0xC4CEB9FE1A85EC53)
        key ^= key >> np.uint64(33)
    return key


# Digests and others ---------------------------------------------------------------------------------------------------


class DigestBytes(Fragment):
    """The SQL of a digest's bytes; ``digits`` is the SQL of the same in hexadecimal."""

    __slots__ = ("digits",)

    def __init__(self, digits: Fragment) -> None:
        sql = fragment("unhex({})", digits)
        super().__init__(sql.texts, sql.parts, sql.size, sql.traits, sql.own_traits, sql.weight, sql.depth)
        self.digits = digits


@function("MD5", 1)
def md5(call: Call) -> Typed:
    """Compiles ``MD5(text)``: 16 bytes."""
    from parts.types import FixedStringType

    return Typed(DigestBytes(fragment("md5({})", string_argument(call, 0))), FixedStringType(16))


@function("SHA1", 1)
def sha1(call: Call) -> Typed:
    """Compiles ``SHA1(text)``: 20 bytes."""
    from parts.types import FixedStringType

    return Typed(DigestBytes(fragment("sha1({})", string_argument(call, 0))), FixedStringType(20))


@function("SHA256", 1)
def sha256(call: Call) -> Typed:
    """Compiles ``SHA256(text)``: 32 bytes."""
    from parts.types import FixedStringType

    return Typed(DigestBytes(fragment("sha256({})", string_argument(call, 0))), FixedStringType(32))


@function("rand rand32", (0, 1), nulls=False)
def rand(call: Call) -> Typed:
    """Compiles ``rand([tag])``."""
    return Typed(fragment("CAST(floor(pando_random({}) * 4294967296) AS UINTEGER)", _tag(call)), UINT32)


@function("rand64", (0, 1), nulls=False)
def rand64(call: Call) -> Typed:
    """Compiles ``rand64([tag])``."""
    return Typed(fragment("CAST(floor(pando_random({}) * 18446744073709549568) AS UBIGINT)", _tag(call)), UINT64)


@function("randCanonical", (0, 1), nulls=False)
def rand_canonical(call: Call) -> Typed:
    """Compiles ``randCanonical([tag])``: a float from 0 to 1."""
    return Typed(fragment("pando_random({})", _tag(call)), FLOAT64)


def _tag(call: Call) -> Fragment:
    """Returns the optional argument. Calls with equal arguments give one value in a row."""
    return call.args[0].sql if call.args else fragment("0")


@function("generateUUIDv4", (0, 1), nulls=False)
def generate_uuid(call: Call) -> Typed:
    """Compiles ``generateUUIDv4([tag])``."""
    from parts.types import UUIDType

    return Typed(fragment("unhex(replace(CAST(pando_any_uuid({}) AS VARCHAR), '-', ''))", _tag(call)), UUIDType())


MACROS = define_macros(
    r"pando_random(x) AS random()",
    r"pando_any_uuid(x) AS uuid()",
)


def _duckdb_kernel(width: int, engine: str, hashed: Callable[[np.ndarray], np.ndarray], result: pa.DataType) -> Kernel:
    """Builds the DuckDB kernel of a hash over the 64 bits of a number, signed or not."""
    name = f"pando_hash{width}_{'int64' if engine == 'BIGINT' else 'uint64'}"
    return Kernel(
        name,
        (engine,),
        "UINTEGER" if width == 32 else "UBIGINT",
        lambda array: fixed_width_column(hashed(fixed_width_values(array, np.uint64)), result, array),
    )


KERNELS = tuple(
    _duckdb_kernel(width, engine, hashed, result)
    for width, hashed, result in ((32, int_hash_32, pa.uint32()), (64, int_hash_64, pa.uint64()))
    for engine in ("BIGINT", "UBIGINT")
)
