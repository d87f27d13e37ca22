"""Array functions that search: ``has``, ``hasAll``, ``hasAny``, ``indexOf``, ``countEqual``."""

from __future__ import annotations

from parts.types import (
    ArrayType,
    DataType,
    FloatType,
    MapType,
    strip_nullable,
)
from sql.functions.arrays.arrays import array_type
from sql.functions.list_kernels.array_search import (
    has_any_or_all,
    search_array,
)
from sql.functions.logic.comparison import enums_as_numbers
from sql.functions.maps_and_tuples.maps_and_tuples import map_contains
from sql.functions.registry import Call, function
from sql.typing.casts.casts import convert_to_supertype
from sql.typing.duckdb.sql_fragments import Fragment, fragment
from sql.typing.result_types import supertype
from sql.typing.typed_expressions import NOTHING, UINT8, UINT64, Typed, cast


def _comparable_sides(call: Call, array: int, value: int) -> tuple[Fragment, Fragment]:
    """Returns an array and a value as DuckDB values of comparable types."""
    inner = array_type(call, array).inner
    common = supertype([strip_nullable(inner), strip_nullable(call.args[value].type)])
    zone = call.environment.zone
    return convert_to_supertype(call.args[array], ArrayType(common), zone), convert_to_supertype(
        call.args[value], common, zone
    )


@function("has", 2, nulls=False)
def has_element(call: Call) -> Typed:
    """Compiles ``has(array, value)``; for a map it looks for a key. Raises ``UserError`` 43."""
    call = enums_as_numbers(call)
    if strip_nullable(call.args[1].type) == NOTHING:
        array_type(call)
        found = fragment("(len(list_filter({}, lambda x: x IS NULL)) > 0)", call.args[0].sql)
        return Typed(search_array(found, "any", *call.args), UINT8, is_condition=True)
    if isinstance(call.args[0].type, MapType):
        return map_contains(call)
    found = search_array(fragment("({} > 0)", _find_position(call)), "any", *call.args)
    return Typed(found, UINT8, is_condition=True)


@function("hasAll", 2)
def has_all(call: Call) -> Typed:
    """Compiles ``hasAll(array, values)``. NULL equals NULL, NaN equals nothing."""
    call = enums_as_numbers(call)
    first, second, inner = _comparable_arrays(call)
    found = fragment("list_has_all({}, {})", first, second)
    if isinstance(strip_nullable(inner), FloatType):
        found = fragment("{} AND len(list_filter({}, lambda q: isnan(q))) = 0", found, second)
    if array_type(call, 1).inner.is_nullable:
        may_hold_null = array_type(call, 0).inner.is_nullable
        knows_null = _has_null(first) if may_hold_null else fragment("false")
        found = fragment("{} AND ({} OR NOT {})", found, knows_null, _has_null(second))
    return Typed(has_any_or_all(fragment("({})", found), *call.args, needs_all=True), UINT8, is_condition=True)


def _has_null(array: Fragment) -> Fragment:
    return fragment("(list_count({0}) < len({0}))", array)


@function("hasAny", 2)
def has_any(call: Call) -> Typed:
    """Compiles ``hasAny(array, values)``. NULL equals NULL, NaN equals nothing."""
    call = enums_as_numbers(call)
    first, second, inner = _comparable_arrays(call)
    known = second
    if isinstance(strip_nullable(inner), FloatType):
        known = fragment("list_filter({}, lambda q: NOT isnan(q))", second)
    found = fragment("list_has_any({}, {})", first, known)
    if array_type(call, 1).inner.is_nullable and array_type(call, 0).inner.is_nullable:
        found = fragment("({} OR ({} AND {}))", found, _has_null(first), _has_null(second))
    return Typed(has_any_or_all(found, *call.args, needs_all=False), UINT8, is_condition=True)


def _comparable_arrays(call: Call) -> tuple[Fragment, Fragment, DataType]:
    common = supertype([array_type(call, 0), array_type(call, 1)])
    zone = call.environment.zone
    assert isinstance(common, ArrayType)
    return (
        convert_to_supertype(call.args[0], common, zone),
        convert_to_supertype(call.args[1], common, zone),
        common.inner,
    )


@function("indexOf", 2, nulls=False)
def index_of(call: Call) -> Typed:
    """Compiles ``indexOf(array, value)``: the position from 1, or 0."""
    call = enums_as_numbers(call)
    return Typed(search_array(cast(_find_position(call), UINT64), "place", *call.args), UINT64)


def _find_position(call: Call) -> Fragment:
    """Returns the SQL of the value's position, 0 if it is missing. NULL equals NULL, NaN equals nothing."""
    if strip_nullable(call.args[1].type) == NOTHING:
        array_type(call)
        return _find_null_position(call.args[0])
    array, value = _comparable_sides(call, 0, 1)
    found = fragment("coalesce(list_position({}, {}), 0)", array, value)
    if isinstance(strip_nullable(array_type(call).inner), FloatType):
        found = fragment("(CASE WHEN isnan({}) THEN 0 ELSE {} END)", value, found)
    if call.args[1].type.is_nullable:
        missing = _find_null_position(call.args[0])
        found = fragment("(CASE WHEN {} IS NULL THEN {} ELSE {} END)", call.args[1].sql, missing, found)
    return found


def _find_null_position(array: Typed) -> Fragment:
    return fragment("coalesce(list_position(list_transform({}, lambda q: q IS NULL), true), 0)", array.sql)


@function("countEqual", 2, nulls=False)
def count_equal(call: Call) -> Typed:
    """Compiles ``countEqual(array, value)``."""
    call = enums_as_numbers(call)
    if strip_nullable(call.args[1].type) == NOTHING:
        array_type(call)
        nulls = cast(fragment("len(list_filter({}, lambda q: q IS NULL))", call.args[0].sql), UINT64)
        return Typed(search_array(nulls, "count", *call.args), UINT64)
    array, value = _comparable_sides(call, 0, 1)
    same = fragment("q IS NOT DISTINCT FROM {}" if call.args[1].type.is_nullable else "q = {}", value)
    if isinstance(strip_nullable(array_type(call).inner), FloatType):
        same = fragment("{} AND NOT isnan(q)", same)
    found = cast(fragment("len(list_filter({}, lambda q: {}))", array, same), UINT64)
    return Typed(search_array(found, "count", *call.args), UINT64)
