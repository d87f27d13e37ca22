"""Hashes of any values, equal to those of ClickHouse's functions bit by bit.

A number is hashed as the bytes that ClickHouse stores, a string as it is. A tuple is hashed as its elements side by
side, an array as its size and its elements. The hashes of several arguments are combined from left to right. A scan
computes all of a call at once; DuckDB calls a kernel for every argument.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parts.common.errors import UserError
from parts.types import (
    ArrayType,
    BoolType,
    DataType,
    DateTime64Type,
    DecimalType,
    FixedStringType,
    IPv6Type,
    MapType,
    StringType,
    TupleType,
    UUIDType,
    strip_low_cardinality,
)
from sql.functions.hashes.city_hash import city_hash_64, combine_city_hashes
from sql.functions.hashes.integer_hashes import int_hash_32, int_hash_64
from sql.functions.hashes.murmur_hash import murmur_2_32, murmur_2_64, murmur_3_32, murmur_3_64, murmur_3_128
from sql.functions.hashes.row_words import HashedRows, order_by_length, rows_of_matrix, rows_of_texts
from sql.functions.hashes.sip_hash import sip_hash_64, sip_hash_128
from sql.functions.hashes.xx_hash import xx_hash_32, xx_hash_64
from sql.functions.registry import Call, define, find_rule
from sql.typing.column_kernels.kernels import (
    Kernel,
    blob_column,
    fixed_width_column,
    fixed_width_values,
    nullable_column,
    texts_of_size,
)
from sql.typing.column_kernels.scannable import Scannable
from sql.typing.duckdb.sql_fragments import Fragment, fragment, function_call
from sql.typing.scalars.all_scalars import scalar_of
from sql.typing.typed_expressions import UINT32, UINT64, Typed, literal

_TEXTS = (StringType, FixedStringType, IPv6Type, UUIDType)
CombineHashes = Callable[[np.ndarray, np.ndarray], np.ndarray]


@dataclass(frozen=True)
class HashAlgorithm:
    """One hash function. ``combine`` combines two hashes.

    ``is_mixing``: plain numbers are mixed with intHash64 instead of being hashed as bytes.
    """

    function: str
    bits: int
    hash_some_rows: Callable[[HashedRows], np.ndarray]
    combine: CombineHashes
    is_mixing: bool = False

    @property
    def kernel(self) -> str:
        return f"pando_{self.function.lower()}"

    @property
    def type(self) -> DataType:
        """The ClickHouse type of the hashes."""
        return FixedStringType(16) if self.bits == 128 else UINT32 if self.bits == 32 else UINT64

    @property
    def engine(self) -> str:
        """The DuckDB type of the hashes."""
        return {32: "UINTEGER", 64: "UBIGINT", 128: "BLOB"}[self.bits]

    def hash_rows(self, rows: Sequence[HashedRows]) -> np.ndarray:
        if not rows:
            return np.empty((0, 16), np.uint8) if self.bits == 128 else np.empty(0, f"u{self.bits // 8}")
        return np.concatenate([self.hash_some_rows(some) for some in rows])

    def hash_sizes(self, sizes: np.ndarray) -> np.ndarray:
        return int_hash_32(sizes) if self.bits == 32 else int_hash_64(sizes)

    def combine_lists(self, start: np.ndarray, hashes: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """Combines ``start`` of each list with the hashes of its elements, one after the other."""
        order, active = order_by_length(np.diff(offsets))
        begins, result = offsets[:-1][order], start[order]
        for step, count in enumerate(active[:-1]):
            result[:count] = self.combine(result[:count], hashes[begins[:count] + step])
        result[order] = result.copy()
        return result


def _hash_both(hashed: Callable[[HashedRows], np.ndarray], a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Combines two hashes by hashing the bytes of both."""
    both = np.stack((a, b), axis=1).view(np.uint8) if a.ndim == 1 else np.concatenate((a, b), axis=1)
    return np.concatenate([hashed(rows) for rows in rows_of_matrix(both)]) if len(both) else a


def _mix_and_xor(mix: Callable[[np.ndarray], np.ndarray], a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return mix(a) ^ b


def _hashing_algorithm(function: str, bits: int, hashed: Callable[[HashedRows], np.ndarray]) -> HashAlgorithm:
    return HashAlgorithm(function, bits, hashed, partial(_hash_both, hashed))


def _mixing_algorithm(function: str, bits: int, hashed: Callable[[HashedRows], np.ndarray]) -> HashAlgorithm:
    return HashAlgorithm(function, bits, hashed, partial(_mix_and_xor, int_hash_32 if bits == 32 else int_hash_64))


ALGORITHMS = (
    _hashing_algorithm("sipHash64", 64, sip_hash_64),
    _hashing_algorithm("sipHash128", 128, sip_hash_128),
    HashAlgorithm("cityHash64", 64, city_hash_64, combine_city_hashes, is_mixing=True),
    _mixing_algorithm("xxHash32", 32, xx_hash_32),
    HashAlgorithm("xxHash64", 64, xx_hash_64, combine_city_hashes),
    _mixing_algorithm("murmurHash2_32", 32, murmur_2_32),
    _mixing_algorithm("murmurHash2_64", 64, murmur_2_64),
    _mixing_algorithm("murmurHash3_32", 32, murmur_3_32),
    _mixing_algorithm("murmurHash3_64", 64, murmur_3_64),
    _hashing_algorithm("murmurHash3_128", 128, murmur_3_128),
)
_HASH_OF_NO_ARGUMENTS = 0xE28DBDE7FE22E41C


# Calls ----------------------------------------------------------------------------------------------------------------


def _compile_hash(algorithm: HashAlgorithm, call: Call) -> Typed:
    if not call.args and algorithm.bits == 64:
        return literal(_HASH_OF_NO_ARGUMENTS)
    leaves = [leaf for arg in call.args for leaf in _flatten_tuple(call, arg)]
    if not leaves:
        raise UserError("NOT_IMPLEMENTED", f"{call.name} of nothing is not supported")
    sql: Fragment | None = None
    for leaf in leaves:
        sql = _combined_hash(algorithm, leaf, sql)
    assert sql is not None
    result = pa.binary() if algorithm.bits == 128 else algorithm.type.arrow
    compute = partial(_hash_columns, algorithm, [leaf.type for leaf in leaves])
    scanned = Scannable(sql, [leaf.sql for leaf in leaves], compute, result, worth_at=4)
    return Typed(scanned, algorithm.type)


def _flatten_tuple(call: Call, value: Typed) -> list[Typed]:
    """Returns the elements of a tuple, recursively; other values as they are.

    Raises ``UserError`` 43, 48 for types without a hash.
    """
    type_ = strip_low_cardinality(value.type)
    if isinstance(type_, TupleType):
        rule = find_rule("tupleElement")
        assert rule is not None
        parts = [
            rule.build(Call("tupleElement", (value, literal(number)), call.environment))
            for number in range(1, len(type_.elements) + 1)
        ]
        return [leaf for part in parts for leaf in _flatten_tuple(call, part)]
    inner = type_
    while isinstance(inner, ArrayType):
        inner = inner.inner
    is_list = inner is not type_
    wide = isinstance(inner, DecimalType) and inner.precision > 18
    if inner.is_nullable or isinstance(inner, (MapType, TupleType)) or wide or (is_list and "128" in call.name):
        raise UserError("NOT_IMPLEMENTED", f"{call.name} of {value.type} is not supported")
    if scalar_of(inner) is None:
        raise UserError("ILLEGAL_TYPE_OF_ARGUMENT", f"Illegal type {value.type} of an argument of function {call.name}")
    return [Typed(value.sql, type_)]


def _combined_hash(algorithm: HashAlgorithm, value: Typed, before: Fragment | None) -> Fragment:
    """Returns the SQL of a value's hash, combined with the hash of the values before it."""
    if isinstance(value.type, ArrayType):
        start = function_call(f"pando_hash{algorithm.bits}_uint64", fragment("CAST(len({}) AS UBIGINT)", value.sql))
        if before is not None:
            start = function_call(f"{algorithm.kernel}_both", before, start)
        element = _combined_hash(algorithm, Typed(fragment("x"), value.type.inner), None)
        return function_call(
            f"{algorithm.kernel}_list", start, fragment("list_transform({}, lambda x: {})", value.sql, element)
        )
    own = _single_hash(algorithm, value)
    if before is None:
        return own
    if algorithm.bits == 128:
        return function_call(algorithm.kernel, fragment("({} || {})", before, own))
    return function_call(f"{algorithm.kernel}_both", before, own)


def _single_hash(algorithm: HashAlgorithm, value: Typed) -> Fragment:
    if isinstance(value.type, _TEXTS):
        sql = value.sql
        if isinstance(value.type, StringType):
            sql = function_call("encode", sql)
        elif isinstance(value.type, UUIDType):
            sql = function_call("pando_uuid_words", sql)
        return function_call(algorithm.kernel, sql)
    scalar = scalar_of(value.type)
    assert scalar is not None
    bits = scalar.memory_bits(value, value.type)
    if algorithm.is_mixing and not _is_decimal(value.type):
        return function_call("pando_hash64_uint64", bits)
    return function_call(f"{algorithm.kernel}_number", bits, f"CAST({value.type.memory_width_bytes} AS UTINYINT)")


def _is_decimal(type_: DataType) -> bool:
    return isinstance(type_, (DecimalType, DateTime64Type))


# Of columns -----------------------------------------------------------------------------------------------------------


def _hash_columns(algorithm: HashAlgorithm, types: Sequence[DataType], *given: pa.Array) -> pa.Array:
    """Computes a whole call from columns in their storage types."""
    result: np.ndarray | None = None
    for type_, array in zip(types, given, strict=True):
        result = _hash_column(algorithm, type_, array, result)
    assert result is not None
    known = np.ones(len(result), bool)
    for array in given:
        if array.null_count:
            known &= np.asarray(pc.is_valid(array))
    if algorithm.bits == 128:
        return blob_column(np.ascontiguousarray(result), known)
    return nullable_column(result, known, algorithm.type.arrow)


def _hash_column(algorithm: HashAlgorithm, type_: DataType, array: pa.Array, before: np.ndarray | None) -> np.ndarray:
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if isinstance(type_, ArrayType):
        offsets = np.asarray(array.offsets).astype(np.int64)
        start = algorithm.hash_sizes(np.diff(offsets))
        if before is not None:
            start = algorithm.combine(before, start)
        values = array.values.slice(int(offsets[0]), int(offsets[-1] - offsets[0]))
        return algorithm.combine_lists(start, _hash_column(algorithm, type_.inner, values, None), offsets - offsets[0])
    if isinstance(type_, StringType):
        own = algorithm.hash_rows(list(rows_of_texts(array)))
    else:
        matrix = _stored_bytes(type_, array)
        if algorithm.is_mixing and not isinstance(type_, _TEXTS) and not _is_decimal(type_):
            own = int_hash_64(_widen(matrix))
        else:
            own = algorithm.hash_rows(list(rows_of_matrix(matrix)))
    return own if before is None else algorithm.combine(before, own)


def _stored_bytes(type_: DataType, array: pa.Array) -> np.ndarray:
    """Returns each value's bytes as ClickHouse stores them; under a NULL they are arbitrary."""
    if isinstance(type_, BoolType):
        array = array.cast(pa.uint8())
    stored = array.type.bit_width // 8
    matrix = np.frombuffer(array.buffers()[1], np.uint8)[array.offset * stored :][: len(array) * stored].reshape(
        -1, stored
    )
    if isinstance(type_, UUIDType):
        return _uuid_words(matrix)
    if isinstance(type_, _TEXTS):
        return matrix
    if isinstance(type_, DateTime64Type):
        step = 10 ** ((3 - type_.precision % 3) % 3)
        return (matrix.view(np.int64) // step).view(np.uint8).reshape(len(array), 8)
    return matrix[:, : type_.memory_width_bytes]


def _uuid_words(matrix: np.ndarray) -> np.ndarray:
    """Reverses the bytes of each half: ClickHouse stores a UUID as two integers."""
    return np.ascontiguousarray(matrix.reshape(-1, 2, 8)[:, :, ::-1]).reshape(-1, 16)


def _widen(matrix: np.ndarray) -> np.ndarray:
    wide = np.zeros((len(matrix), 8), np.uint8)
    wide[:, : matrix.shape[1]] = matrix
    return wide.view(np.uint64)[:, 0]


# Kernels --------------------------------------------------------------------------------------------------------------


def _result_column(algorithm: HashAlgorithm, values: np.ndarray, like: pa.Array) -> pa.Array:
    if algorithm.bits == 128:
        return blob_column(np.ascontiguousarray(values), np.asarray(pc.is_valid(like)))
    return fixed_width_column(values, algorithm.type.arrow, like)


def _text_kernel(algorithm: HashAlgorithm, texts: pa.Array) -> pa.Array:
    return _result_column(algorithm, algorithm.hash_rows(list(rows_of_texts(texts))), texts)


def _number_kernel(algorithm: HashAlgorithm, bits: pa.Array, widths: pa.Array) -> pa.Array:
    width = widths[0].as_py() if len(widths) else 8
    matrix = fixed_width_values(bits, np.uint64).view(np.uint8).reshape(-1, 8)[:, :width]
    return _result_column(algorithm, algorithm.hash_rows(list(rows_of_matrix(matrix))), bits)


def _combine_kernel(algorithm: HashAlgorithm, a: pa.Array, b: pa.Array) -> pa.Array:
    kind = np.uint32 if algorithm.bits == 32 else np.uint64
    known = np.asarray(pc.is_valid(a)) & np.asarray(pc.is_valid(b))
    return nullable_column(
        algorithm.combine(fixed_width_values(a, kind), fixed_width_values(b, kind)), known, algorithm.type.arrow
    )


def _list_kernel(algorithm: HashAlgorithm, start: pa.Array, lists: pa.Array) -> pa.Array:
    kind = np.uint32 if algorithm.bits == 32 else np.uint64
    offsets = np.asarray(lists.offsets).astype(np.int64)
    known = np.asarray(pc.is_valid(start)) & np.asarray(pc.is_valid(lists))
    folded = algorithm.combine_lists(fixed_width_values(start, kind), fixed_width_values(lists.values, kind), offsets)
    return nullable_column(folded, known, algorithm.type.arrow)


def _float_bits(array: pa.Array) -> pa.Array:
    kind = np.uint32 if pa.types.is_float32(array.type) else np.uint64
    return fixed_width_column(fixed_width_values(array, kind).astype(np.uint64), pa.uint64(), array)


def _uuid_kernel(values: pa.Array) -> pa.Array:
    rows, found = texts_of_size(values, 16)
    matrix = np.zeros((len(values), 16), np.uint8)
    matrix[rows] = _uuid_words(found)
    known = np.zeros(len(values), bool)
    known[rows] = True
    return blob_column(matrix, known)


def _kernels(algorithm: HashAlgorithm) -> list[Kernel]:
    name, engine = algorithm.kernel, algorithm.engine
    made = [
        Kernel(name, ("BLOB",), engine, partial(_text_kernel, algorithm)),
        Kernel(f"{name}_number", ("UBIGINT", "UTINYINT"), engine, partial(_number_kernel, algorithm)),
    ]
    if algorithm.bits != 128:
        made.append(Kernel(f"{name}_both", (engine, engine), engine, partial(_combine_kernel, algorithm)))
        made.append(Kernel(f"{name}_list", (engine, f"{engine}[]"), engine, partial(_list_kernel, algorithm)))
    return made


KERNELS = (
    *(kernel for algorithm in ALGORITHMS for kernel in _kernels(algorithm)),
    Kernel("pando_bits_of_float32", ("FLOAT",), "UBIGINT", _float_bits),
    Kernel("pando_bits_of_float64", ("DOUBLE",), "UBIGINT", _float_bits),
    Kernel("pando_uuid_words", ("BLOB",), "BLOB", _uuid_kernel),
)

for _algorithm in ALGORITHMS:
    define(_algorithm.function, partial(_compile_hash, _algorithm), (0, None))
