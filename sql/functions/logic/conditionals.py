"""Logic, branches and NULL: and, or, not, xor, if, multiIf, CASE, coalesce, isNull, …"""

from __future__ import annotations

from dataclasses import replace

from parts.common.errors import UserError
from parts.types import (
    DataType,
    DecimalType,
    FixedStringType,
    FloatType,
    LowCardinalityType,
    NullableType,
    StringType,
    make_nullable,
    strip_low_cardinality,
    strip_nullable,
)
from sql.functions.logic.comparison import compare, to_common_type
from sql.functions.registry import Call, function
from sql.typing.casts.casts import convert_to_supertype
from sql.typing.column_kernels.float_bits import floats_to_bits
from sql.typing.default_values import default_value
from sql.typing.duckdb.sql_fragments import RAISES, RANDOM, Fragment, fragment, join_fragments
from sql.typing.result_types import is_number, supertype
from sql.typing.typed_expressions import BOOL, FLOAT64, NOTHING, NULL_TYPE, UINT8, Typed, literal, string_literal


def _compile_logical(call: Call, operator: str) -> Typed:
    nullable = False
    terms = []
    for position, arg in enumerate(call.args):
        bare = strip_nullable(arg.type)
        if bare != NOTHING and (not is_number(bare) or isinstance(bare, DecimalType)):
            raise call.wrong_type(position, "an integer or a float")
        nullable = nullable or arg.type.is_nullable
        terms.append(arg.condition)
    text = _join_in_order(operator, terms, call.args)
    type_ = BOOL if any(strip_nullable(arg.type) == BOOL for arg in call.args) else UINT8
    return Typed(text, make_nullable(type_) if nullable else type_, is_condition=type_ == UINT8)


def _join_in_order(operator: str, terms: list[Fragment], args: tuple[Typed, ...]) -> Fragment:
    """Joins the terms so that a later one raises an error only where the earlier ones leave it open.

    DuckDB computes all terms for all rows, and constants beforehand. So earlier terms become arms of a CASE. A term
    that may be NULL is written twice, for it counts also where it does not decide.
    """
    raising = [term.traits & RAISES and not arg.is_constant for term, arg in zip(terms, args, strict=True)]
    last = max((position for position, raises in enumerate(raising) if raises), default=0)
    nullable = [term for term, arg in zip(terms[:last], args, strict=False) if arg.type.is_nullable]
    is_long = sum(term.size for term in nullable) > _LONGEST_WRITTEN_TWICE
    if not last or is_long or any(term.traits & RANDOM for term in nullable):
        return fragment("({})", join_fragments(f" {operator} ", terms))
    arm = "WHEN ({}) IS FALSE THEN false" if operator == "AND" else "WHEN {} THEN true"
    decided = join_fragments(" ", [fragment(arm, term) for term in terms[:last]])
    return fragment("(CASE {} ELSE ({}) END)", decided, join_fragments(f" {operator} ", [*nullable, *terms[last:]]))


_LONGEST_WRITTEN_TWICE = 50_000


@function("and", (2, None), nulls=False, takes_conditions=True)
def logical_and(call: Call) -> Typed:
    """Compiles ``a AND b``. Raises ``UserError`` 43."""
    return _compile_logical(call, "AND")


@function("or", (2, None), nulls=False, takes_conditions=True)
def logical_or(call: Call) -> Typed:
    """Compiles ``a OR b``. Raises ``UserError`` 43."""
    return _compile_logical(call, "OR")


@function("not", 1, takes_conditions=True)
def logical_not(call: Call) -> Typed:
    """Compiles ``NOT x``. Raises ``UserError`` 43."""
    if not is_number(call.args[0].type) or isinstance(call.args[0].type, DecimalType):
        raise call.wrong_type(0, "an integer or a float")
    type_ = BOOL if call.args[0].type == BOOL else UINT8
    return Typed(fragment("(NOT {})", call.args[0].condition), type_, is_condition=type_ == UINT8)


@function("xor", (2, None), takes_conditions=True)
def logical_xor(call: Call) -> Typed:
    """Compiles ``xor(…)``. Raises ``UserError`` 43."""
    for position, arg in enumerate(call.args):
        if not is_number(arg.type) or isinstance(arg.type, DecimalType):
            raise call.wrong_type(position, "an integer or a float")
    text = call.args[0].condition
    for arg in call.args[1:]:
        text = fragment("({} <> {})", text, arg.condition)
    type_ = BOOL if any(arg.type == BOOL for arg in call.args) else UINT8
    return Typed(text, type_, is_condition=type_ == UINT8)


def _branch_type(values: list[Typed]):  # type: ignore[no-untyped-def]
    if all(value.type == NULL_TYPE for value in values):
        return NULL_TYPE
    type_ = supertype([value.type for value in values])
    return strip_low_cardinality(type_)


def _compile_case(call: Call, pairs: list[tuple[Fragment, Typed]], otherwise: Typed) -> Typed:
    """Compiles a CASE from pairs of condition and value, and an ELSE."""
    values = [*(value.plain for _, value in pairs), otherwise.plain]
    type_ = _branch_type(values)
    zone = call.environment.zone
    read = _convert_branch if len(pairs) == 1 and call.name in ("if", "multiIf") else convert_to_supertype
    texts = [read(value, type_, zone) for value in values]
    arms = join_fragments(
        " ",
        [fragment("WHEN {} THEN {}", condition, text) for (condition, _), text in zip(pairs, texts[:-1], strict=True)],
    )
    return Typed(fragment("(CASE {} ELSE {} END)", arms, texts[-1]), type_)


def _convert_branch(value: Typed, type_: DataType, zone: str) -> Fragment:
    """Converts a branch's value; a FixedString that becomes a String keeps its zero bytes."""
    if isinstance(strip_nullable(type_), StringType) and isinstance(strip_nullable(value.type), FixedStringType):
        return fragment("decode({})", value.sql)
    return convert_to_supertype(value, type_, zone)


def _checked_condition(call: Call, position: int) -> Fragment:
    bare = strip_nullable(call.args[position].type)
    if bare != NOTHING and not is_number(bare):
        raise call.wrong_type(position, "UInt8 (a condition)")
    return call.args[position].condition


@function("if", 3, nulls=False, takes_conditions=True)
def if_function(call: Call) -> Typed:
    """Compiles ``if(condition, then, else)``. Raises ``UserError`` 43."""
    return _compile_case(call, [(_checked_condition(call, 0), call.args[1])], call.args[2])


@function("multiIf caseWithoutExpression", (3, None), nulls=False, takes_conditions=True)
def multi_if(call: Call) -> Typed:
    """Compiles ``multiIf(condition, value, …, else)``. Raises ``UserError`` 42."""
    if len(call.args) % 2 == 0:
        raise UserError("NUMBER_OF_ARGUMENTS_DOESNT_MATCH", "multiIf needs pairs of condition and value, and an else")
    pairs = [(_checked_condition(call, i), call.args[i + 1]) for i in range(0, len(call.args) - 1, 2)]
    return _compile_case(call, pairs, call.args[-1])


@function("caseWithExpression", (4, None), nulls=False)
def case_expression(call: Call) -> Typed:
    """Compiles ``CASE x WHEN … THEN …``; a ``WHEN NULL`` never matches."""
    subject = call.args[0]
    pairs = []
    for position in range(1, len(call.args) - 1, 2):
        tested = call.args[position]
        if tested.value is None:
            continue
        pairs.append((_equals_key(call, subject, tested), call.args[position + 1]))
    return _compile_case(call, pairs, call.args[-1])


@function("transform", (3, 4), nulls=False)
def transform(call: Call) -> Typed:
    """Compiles ``transform(x, from, to[, default])`` with constant arrays. Raises ``UserError`` 36."""
    subject, old, new = call.args[:3]
    if old.elements is None or new.elements is None or len(old.elements) != len(new.elements):
        raise UserError("BAD_ARGUMENTS", "transform needs two constant arrays of the same size")
    default = call.args[3] if len(call.args) > 3 else subject
    pairs = []
    for tested, value in zip(old.elements, new.elements, strict=True):
        pairs.append((_equals_key(call, subject, tested), value))
    return _compile_case(call, pairs, default)


def _equals_key(call: Call, subject: Typed, tested: Typed) -> Fragment:
    """Returns the condition that ClickHouse's hash table of constants finds the subject.

    It compares floats by their bits, and never finds NaN.
    """
    if not isinstance(strip_nullable(subject.type), FloatType) or not is_number(strip_nullable(tested.type)):
        return fragment("({} = {})", *to_common_type(subject, tested, call.environment.zone))
    if not tested.is_constant:
        return compare("equals", subject, tested, call.environment.zone).sql
    if tested.value != tested.value:
        return fragment("false")
    bits = [floats_to_bits(convert_to_supertype(side, FLOAT64), FLOAT64) for side in (subject, tested)]
    return fragment("({} = {})", *bits)


# NULL -----------------------------------------------------------------------------------------------------------------


@function("isNull", 1, nulls=False)
def is_null(call: Call) -> Typed:
    if not call.args[0].type.is_nullable:
        return Typed(fragment("false"), UINT8, is_condition=True)
    return Typed(fragment("({} IS NULL)", call.args[0].sql), UINT8, is_condition=True)


@function("isNotNull", 1, nulls=False)
def is_not_null(call: Call) -> Typed:
    if not call.args[0].type.is_nullable:
        return Typed(fragment("true"), UINT8, is_condition=True)
    return Typed(fragment("({} IS NOT NULL)", call.args[0].sql), UINT8, is_condition=True)


@function("isNullable", 1, nulls=False)
def is_nullable(call: Call) -> Typed:
    return literal(int(call.args[0].type.is_nullable))


@function("coalesce", (1, None), nulls=False)
def coalesce(call: Call) -> Typed:
    """Compiles ``coalesce(…)``; arguments after the first one that cannot be NULL are dropped."""
    values: list[Typed] = []
    for arg in call.args:
        if arg.type == NULL_TYPE:
            continue
        values.append(arg)
        if not arg.type.is_nullable:
            break
    if not values:
        return literal(None)
    bare = supertype([strip_nullable(value.type) for value in values])
    type_ = bare if not values[-1].type.is_nullable else make_nullable(bare)
    if len(values) == 1:
        return values[0]
    zone = call.environment.zone
    read = _convert_branch if len(values) == 2 else convert_to_supertype
    return Typed(fragment("coalesce({})", join_fragments(", ", [read(value, bare, zone) for value in values])), type_)


@function("ifNull", 2, nulls=False)
def if_null(call: Call) -> Typed:
    """Compiles ``ifNull(value, other)`` as ``coalesce``."""
    return coalesce(call)


@function("nullIf", 2, nulls=False)
def null_if(call: Call) -> Typed:
    """Compiles ``nullIf(value, other)``."""
    left, right = call.args
    if left.type == NULL_TYPE or right.type == NULL_TYPE:
        return replace(left, type=make_nullable(left.type))
    a, b = to_common_type(left, right, call.environment.zone)
    return Typed(fragment("(CASE WHEN {} = {} THEN NULL ELSE {} END)", a, b, left.sql), make_nullable(left.type))


@function("assumeNotNull", 1, nulls=False)
def assume_not_null(call: Call) -> Typed:
    """Compiles ``assumeNotNull``: takes Nullable off; NULL becomes the type's default."""
    value = call.args[0]
    if not value.type.is_nullable:
        return value
    type_ = value.type.inner if isinstance(value.type, NullableType) else LowCardinalityType(strip_nullable(value.type))
    return Typed(fragment("coalesce({}, {})", value.sql, default_value(type_)), type_)


@function("toNullable", 1, nulls=False)
def to_nullable(call: Call) -> Typed:
    return Typed(call.args[0].sql, make_nullable(call.args[0].type))


@function("isZeroOrNull", 1, nulls=False, takes_conditions=True)
def is_zero_or_null(call: Call) -> Typed:
    return Typed(fragment("coalesce(NOT {}, true)", call.args[0].condition), UINT8, is_condition=True)


@function("throwIf", (1, 2))
def throw_if(call: Call) -> Typed:
    """Compiles ``throwIf(condition[, message])``, which raises 395 at run time."""
    message = call.constant_text(1) if len(call.args) > 1 else "Value passed to 'throwIf' function is non-zero"
    failure = string_literal(f"pando:395:{message}")
    return Typed(
        fragment("(CASE WHEN {} THEN error({}) ELSE false END)", call.args[0].condition, failure),
        UINT8,
        is_condition=True,
    )


@function("isNaN", 1)
def is_nan(call: Call) -> Typed:
    return Typed(fragment("isnan({})", _float_argument(call)), UINT8, is_condition=True)


@function("isFinite", 1)
def is_finite(call: Call) -> Typed:
    return Typed(fragment("isfinite({})", _float_argument(call)), UINT8, is_condition=True)


@function("isInfinite", 1)
def is_infinite(call: Call) -> Typed:
    return Typed(fragment("isinf({})", _float_argument(call)), UINT8, is_condition=True)


def _float_argument(call: Call) -> Fragment:
    value = call.args[0]
    if not is_number(value.type) or isinstance(value.type, DecimalType):
        raise call.wrong_type(0, "an integer or a float")
    return fragment("CAST({} AS DOUBLE)", value.sql)


@function("ifNotFinite", 2)
def if_not_finite(call: Call) -> Typed:
    """Compiles ``ifNotFinite(value, other)``."""
    value, other = call.args
    type_ = supertype([value.type, other.type])
    first, second = (convert_to_supertype(arg, type_, call.environment.zone) for arg in (value, other))
    return Typed(fragment("(CASE WHEN isfinite({}) THEN {} ELSE {} END)", _float_argument(call), first, second), type_)
