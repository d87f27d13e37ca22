"""Vector forms of simple functions in lambdas: computed over all elements at once by NumPy and Arrow.

DuckDB can compute these functions too, element by element. But where a scan computes a function of arrays, it also
needs the lambda's body. So inside a lambda a call of one of these functions is also a ``Scannable``, though not one
that is worth a column by itself. Functions that are missing here, and values with NULLs, are left to DuckDB together
with the expression around them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parts.types import ArrayType, DataType, FloatType, IntegerType, StringType
from sql.typing.column_kernels.kernels import fixed_width_column, text_offsets
from sql.typing.column_kernels.scannable import Compute, Scannable
from sql.typing.duckdb.sql_fragments import ELEMENT, Fragment
from sql.typing.result_types import supertype
from sql.typing.texts.float_texts import format_floats
from sql.typing.typed_expressions import Typed

VectorFormFactory = Callable[[tuple[Typed, ...], DataType], Compute | None]
"""Builds the computation over the non-literal arguments, from all arguments and the result's type."""
_VECTOR_FORMS: dict[str, VectorFormFactory] = {}


def lambda_element(text: str) -> Fragment:
    """Returns the SQL of a lambda's variable, or of a part of it."""
    return Fragment((text,), (), len(text), ELEMENT)


def with_vector_form(name: str, args: tuple[Typed, ...], result: Typed) -> Typed:
    """Returns the result of a call in a lambda with a form that a scan can compute, if there is one."""
    make = _VECTOR_FORMS.get(name)
    if make is None or result.type.is_nullable:
        return result
    compute = make(args, result.type)
    if compute is None:
        return result
    values = [arg.sql for arg in args if not arg.is_literal]
    type_ = pa.bool_() if result.is_condition else result.type.arrow
    return replace(result, sql=Scannable(result.sql, values, compute, type_, is_worth_it=False))


def as_numbers(array: pa.Array) -> np.ndarray:
    """Returns integers or floats without NULLs as a NumPy array."""
    return np.asarray(array)


def is_number(type_: DataType) -> bool:
    """Tells whether a type is an integer or float, without Nullable."""
    return isinstance(type_, (IntegerType, FloatType))


def _operands(args: Sequence[Typed], kind: np.dtype) -> Callable[[Sequence[pa.Array]], list[np.ndarray]]:
    """Returns a function from the non-literal arguments to all arguments, as numbers of one kind.

    Numbers that do not fit the kind wrap around.
    """
    constants = [np.asarray(arg.value).astype(kind) if arg.is_literal else None for arg in args]

    def operands(given: Sequence[pa.Array]) -> list[np.ndarray]:
        left = iter(given)
        return [as_numbers(next(left)).astype(kind, copy=False) if known is None else known for known in constants]

    return operands


def _arithmetic(operator: Callable[..., np.ndarray]) -> VectorFormFactory:
    def make(args: tuple[Typed, ...], result: DataType) -> Compute | None:
        if not is_number(result) or not all(is_number(arg.type) for arg in args):
            return None
        kind = np.dtype(result.arrow.to_pandas_dtype())
        operands = _operands(args, kind)

        def compute(*given: pa.Array) -> pa.Array:
            with np.errstate(all="ignore"):
                return fixed_width_column(operator(*operands(given)), result.arrow, given[0])

        return compute

    return make


_VECTOR_FORMS["plus"] = _arithmetic(np.add)
_VECTOR_FORMS["minus"] = _arithmetic(np.subtract)
_VECTOR_FORMS["multiply"] = _arithmetic(np.multiply)
_VECTOR_FORMS["divide"] = _arithmetic(np.divide)
_VECTOR_FORMS["negate"] = _arithmetic(np.negative)


def _modulo(args: tuple[Typed, ...], result: DataType) -> Compute | None:
    """Builds the modulo of integers by a literal positive integer."""
    value, divisor = args
    if not isinstance(value.type, IntegerType) or not isinstance(result, IntegerType):
        return None
    if not isinstance(divisor.type, IntegerType) or not divisor.is_literal or not 0 < divisor.value < 1 << 31:
        return None
    kind = np.uint64 if not value.type.signed else np.int64

    def compute(given: pa.Array) -> pa.Array:
        rest = np.fmod(as_numbers(given).astype(kind, copy=False), kind(divisor.value))
        return fixed_width_column(rest.astype(result.arrow.to_pandas_dtype()), result.arrow, given)

    return compute


_VECTOR_FORMS["modulo"] = _modulo


def _comparison(operator: Callable[..., np.ndarray], function: str) -> VectorFormFactory:
    def make(args: tuple[Typed, ...], result: DataType) -> Compute | None:
        types = [arg.type for arg in args]
        if all(isinstance(type_, StringType) for type_ in types):
            return _compare_texts(args, function)
        if not all(is_number(type_) for type_ in types):
            return None
        signs = {type_.signed for type_ in types if isinstance(type_, IntegerType)}
        if len(signs) > 1 and any(type_ == IntegerType(64, False) for type_ in types):
            return None
        if any(isinstance(type_, FloatType) for type_ in types) and any(
            isinstance(type_, IntegerType) and type_.bits == 64 for type_ in types
        ):
            return None
        operands = _operands(args, np.dtype(supertype(types).arrow.to_pandas_dtype()))
        return lambda *given: pa.array(operator(*operands(given)))

    return make


def _compare_texts(args: tuple[Typed, ...], function: str) -> Compute:
    constants = [pa.scalar(arg.value, pa.string()) if arg.is_literal else None for arg in args]

    def compute(*given: pa.Array) -> pa.Array:
        left = iter(given)
        return pc.call_function(function, [next(left) if known is None else known for known in constants])

    return compute


_VECTOR_FORMS["equals"] = _comparison(np.equal, "equal")
_VECTOR_FORMS["notEquals"] = _comparison(np.not_equal, "not_equal")
_VECTOR_FORMS["less"] = _comparison(np.less, "less")
_VECTOR_FORMS["lessOrEquals"] = _comparison(np.less_equal, "less_equal")
_VECTOR_FORMS["greater"] = _comparison(np.greater, "greater")
_VECTOR_FORMS["greaterOrEquals"] = _comparison(np.greater_equal, "greater_equal")


def _length(args: tuple[Typed, ...], result: DataType) -> Compute | None:
    if not isinstance(args[0].type, (StringType, ArrayType)):
        return None
    return lambda given: fixed_width_column(np.diff(text_offsets(given)).astype(np.uint64), pa.uint64(), given)


_VECTOR_FORMS["length"] = _length


def find_text_conversion(type_: DataType) -> Compute | None:
    """Returns the function that formats values of a type as texts, or ``None``."""
    if type_ == FloatType(64):
        return format_floats
    return (lambda given: given.cast(pa.string())) if isinstance(type_, (IntegerType, StringType)) else None


def _to_string(args: tuple[Typed, ...], result: DataType) -> Compute | None:
    return find_text_conversion(args[0].type) if len(args) == 1 else None


_VECTOR_FORMS["toString"] = _to_string


def _concat(args: tuple[Typed, ...], result: DataType) -> Compute | None:
    if not all(isinstance(arg.type, StringType) for arg in args):
        return None
    constants = [pa.scalar(arg.value, pa.string()) if arg.is_literal else None for arg in args]

    def compute(*given: pa.Array) -> pa.Array:
        left = iter(given)
        words = [next(left) if known is None else known for known in constants]
        return pc.binary_join_element_wise(*words, pa.scalar(""))

    return compute


_VECTOR_FORMS["concat"] = _concat
