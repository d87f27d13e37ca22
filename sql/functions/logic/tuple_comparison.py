"""Comparisons of tuples, element by element as in ClickHouse.

NULL in an element is unknown, NaN equals nothing, and a constant string is read as a value of the other element's type.
Tuples of equal types without NULL and NaN are compared whole.
"""

from __future__ import annotations

from collections.abc import Callable

from parts.common.errors import UserError
from parts.types import DataType, FloatType, NothingType, TupleType, make_nullable, strip_nullable
from sql.typing.duckdb.sql_fragments import WRITE_ONCE, Fragment, fragment, join_fragments
from sql.typing.result_types import supertype
from sql.typing.typed_expressions import UINT8, Typed, element_sql

Compare = Callable[[str, Typed, Typed], Typed]
"""Compiles the comparison of two values, given the name of its function."""

_STRICT = {"lessOrEquals": "less", "greaterOrEquals": "greater"}


def needs_element_comparison(left: Typed, right: Typed) -> bool:
    """Tells whether two tuples must be compared element by element.

    Raises ``UserError`` 43 for tuples of different sizes, 48 for empty ones.
    """
    a, b = left.type, right.type
    if not isinstance(a, TupleType) or not isinstance(b, TupleType):
        return False
    if len(a.elements) != len(b.elements):
        raise UserError("ILLEGAL_TYPE_OF_ARGUMENT", f"Illegal types {a.name} and {b.name} of a comparison")
    if not a.elements:
        raise UserError("NOT_IMPLEMENTED", "Comparison of empty tuples is not supported")
    return _may_be_unequal_to_itself(a) or _may_be_unequal_to_itself(b) or not _has_supertype(a, b)


def compare_tuples(name: str, left: Typed, right: Typed, compare: Compare) -> Typed:
    """Compiles a comparison of two tuples of one size."""
    nullable = make_nullable(UINT8)
    if _is_null_literal(left, right) or _is_null_literal(right, left):
        return Typed(fragment("CAST(NULL AS BOOLEAN)"), nullable, is_condition=True)
    bound = None
    if any(side.elements is None and side.sql.traits & WRITE_ONCE for side in (left, right)):
        bound = fragment("struct_pack(l := {}, r := {})", left.sql, right.sql)
        left, right = Typed(fragment("p.l"), left.type), Typed(fragment("p.r"), right.type)
    result = _compare_elements(name, list(zip(_elements(left), _elements(right), strict=True)), compare)
    if bound is None:
        return result
    sql = fragment("list_transform([{}], lambda p: {})[1]", bound, result.sql)
    return Typed(sql, result.type, is_condition=True)


def _compare_elements(name: str, pairs: list[tuple[Typed, Typed]], compare: Compare) -> Typed:
    used: list[Typed] = []

    def of(which: str, pair: tuple[Typed, Typed]) -> Fragment:
        used.append(compare(which, *pair))
        return used[-1].condition

    if name in ("equals", "notEquals"):
        operator = " AND " if name == "equals" else " OR "
        sql = fragment("({})", join_fragments(operator, [of(name, pair) for pair in pairs]))
    else:
        sql = of(name, pairs[-1])
        for pair in reversed(pairs[:-1]):
            sql = fragment("({} OR ({} AND {}))", of(_STRICT.get(name, name), pair), of("equals", pair), sql)
    is_nullable = any(value.type.is_nullable for value in used)
    return Typed(sql, make_nullable(UINT8) if is_nullable else UINT8, is_condition=True)


def _elements(value: Typed) -> list[Typed]:
    if value.elements is not None:
        return list(value.elements)
    assert isinstance(value.type, TupleType)
    return [
        Typed(element_sql(value.sql, position), type_) for position, (_, type_) in enumerate(value.type.elements, 1)
    ]


def _may_be_unequal_to_itself(type_: DataType) -> bool:
    if isinstance(type_, TupleType):
        return any(_may_be_unequal_to_itself(element) for _, element in type_.elements)
    return type_.is_nullable or isinstance(strip_nullable(type_), (FloatType, NothingType))


def _has_supertype(a: TupleType, b: TupleType) -> bool:
    try:
        supertype([a, b])
    except UserError:
        return False
    return True


def _is_null_literal(value: Typed, other: Typed) -> bool:
    """Tells whether both tuples consist of literals and the first contains NULL."""
    both = (value.elements, other.elements)
    if any(elements is None or not all(element.is_literal for element in elements) for elements in both):
        return False
    return any(element.value is None for element in value.elements or ())
