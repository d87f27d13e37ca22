"""Converts constants of a condition to values of a key's type, exactly.

A constant that would be rounded or cut is not understood.
"""

from __future__ import annotations

import datetime
import decimal
import math
import re

import pyarrow as pa

from parts.types import (
    ArrayType,
    BoolType,
    DataType,
    Date32Type,
    DateTime64Type,
    DateTimeType,
    DateType,
    DecimalType,
    EnumType,
    FloatType,
    IntegerType,
    StringType,
    strip_nullable,
)
from sql.compile.expressions.expressions import ExpressionCompiler
from sql.compile.names.scope import Scope
from sql.functions.registry import Environment
from sql.grammar.syntax_tree import Function, Literal, Node
from sql.pruning.evaluator import Evaluator
from sql.typing.casts.casts import cast_to
from sql.typing.duckdb.sql_fragments import RANDOM, fragment
from sql.typing.scalars.all_scalars import scalar_of, to_integer
from sql.typing.typed_expressions import UINT32, Typed

_ISO_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_EXACT = decimal.Context(prec=160)
"""Holds every sum of digits that two decimals can have; the default context has 28."""


_MAX_MEMBERS = 10_000
"""Elements of a computed array: testing more costs more than it saves."""


class UnsupportedTermError(Exception):
    """The term is not understood: it becomes ``Unknown``."""


class KeyConstants:
    """Computes and converts constants.

    Its methods raise ``UnsupportedTermError``, and ``UserError`` for what is no expression.
    """

    def __init__(self, environment: Environment, evaluation: Evaluator) -> None:
        self._zone = environment.zone
        self._evaluation = evaluation
        self._compiler = ExpressionCompiler(Scope(), environment)

    def value(self, node: Node, type_: DataType) -> pa.Scalar:
        """Returns a constant as a value of ``type_``. Raises ``UnsupportedTermError`` if it is not exact."""
        bare = strip_nullable(type_)
        scalar = scalar_of(bare)
        if scalar is None or not scalar.has_key_constants:
            raise UnsupportedTermError
        typed = self._compiler.compile(node).plain
        given = strip_nullable(typed.type)
        if isinstance(given, DateTimeType) and isinstance(bare, IntegerType):
            seconds = to_integer(typed, given, UINT32)
            assert seconds is not None
            typed, given = Typed(seconds, UINT32), UINT32
        if isinstance(bare, (IntegerType, BoolType)):
            return _to_integer_scalar(self._compute(typed), given, bare)
        if isinstance(given, IntegerType) and isinstance(bare, DateTimeType):
            return _to_integer_scalar(self._compute(typed), given, UINT32).cast(pa.int64()).cast(bare.arrow)
        if isinstance(given, IntegerType) and isinstance(bare, EnumType):
            return _to_integer_scalar(self._compute(typed), given, IntegerType(bare.bits, True))
        if isinstance(bare, FloatType):
            if not isinstance(given, (IntegerType, FloatType)) or bare.bits == 32:
                raise UnsupportedTermError
            number = float(self._compute(typed))  # type: ignore[arg-type]
            if math.isnan(number):  # no range holds it, IN finds it
                raise UnsupportedTermError
            return pa.scalar(number, bare.arrow)
        if isinstance(bare, DecimalType):
            return _to_decimal_scalar(self._compute(typed), given, bare)
        exact = (
            given == bare
            or isinstance(given, StringType)
            or (isinstance(given, DateType) and isinstance(bare, (DateTimeType, DateTime64Type, Date32Type)))
        )
        if isinstance(bare, DateTimeType) and isinstance(given, DateTimeType):
            exact = True
        if not exact:
            raise UnsupportedTermError
        if (
            isinstance(bare, (DateType, Date32Type))
            and isinstance(typed.value, str)
            and _ISO_DATE.fullmatch(typed.value)
        ):
            try:
                return pa.scalar(datetime.date.fromisoformat(typed.value), bare.arrow)
            except ValueError:
                raise UnsupportedTermError from None
        converted = Typed(cast_to(typed, bare, self._zone), bare)
        if isinstance(bare, DateTime64Type) and bare.unit == "ns":
            return self._nanoseconds(converted, bare)
        value = typed.value if isinstance(bare, StringType) and typed.is_literal else self._compute(converted)
        if value is None:
            raise UnsupportedTermError
        return pa.scalar(value, bare.arrow)

    def members(self, node: Node) -> tuple[Node, ...]:
        """Returns the members of the right side of IN.

        They are the elements of an array that a function makes, or the constant itself.
        """
        if not isinstance(node, Function):
            return (node,)
        typed = self._compiler.compile(node).plain
        if not isinstance(typed.type, ArrayType):
            return (node,)
        values = self._compute(typed)
        is_known = isinstance(strip_nullable(typed.type.inner), (IntegerType, StringType))
        if not is_known or not isinstance(values, list) or len(values) > _MAX_MEMBERS:
            raise UnsupportedTermError
        return tuple(Literal(value) for value in values if value is not None)

    def _nanoseconds(self, converted: Typed, type_: DateTime64Type) -> pa.Scalar:
        """Returns a time of nanoseconds exactly; Python's datetime would cut it to microseconds."""
        value = self._compute(Typed(fragment("epoch_ns({})", converted.sql), IntegerType(64, True)))
        if value is None:
            raise UnsupportedTermError
        return pa.scalar(value, pa.int64()).cast(type_.arrow)

    def _compute(self, typed: Typed) -> object:
        if typed.is_literal:
            return typed.value
        if not typed.is_constant and typed.sql.traits & RANDOM:
            raise UnsupportedTermError
        return self._evaluation.constant(typed)


def _to_integer_scalar(value: object, given: DataType, bare: DataType) -> pa.Scalar:
    if not isinstance(given, (IntegerType, BoolType)) or not isinstance(value, (int, bool)):
        raise UnsupportedTermError
    number = int(value)
    if isinstance(bare, BoolType):
        if number not in (0, 1):
            raise UnsupportedTermError
        return pa.scalar(bool(number))
    assert isinstance(bare, IntegerType)
    if not bare.minimum <= number <= bare.maximum:
        raise UnsupportedTermError
    return pa.scalar(number, bare.arrow)


def _to_decimal_scalar(value: object, given: DataType, bare: DecimalType) -> pa.Scalar:
    if not isinstance(given, (IntegerType, DecimalType)):
        raise UnsupportedTermError
    number = decimal.Decimal(str(value))
    rounded = _EXACT.quantize(number, decimal.Decimal(1).scaleb(-bare.scale))
    if rounded != number or _EXACT.abs(rounded) >= decimal.Decimal(10) ** (bare.precision - bare.scale):
        raise UnsupportedTermError
    return pa.scalar(rounded, bare.arrow)
