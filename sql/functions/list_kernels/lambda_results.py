"""Scan kernels for array functions with a lambda.

The body is computed once over all elements (``sql.functions.lambda_bodies``). Then a ``Finish`` function turns its
values into the result, list by list (``sql.typing.column_kernels.list_arrays``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from parts.types import ArrayType
from sql.functions.lambda_bodies import as_numbers, is_number
from sql.functions.list_kernels.array_search import is_discrete, is_plain
from sql.typing.column_kernels.list_arrays import ListValues, build_lists, repeated, sort_keys, value_codes
from sql.typing.column_kernels.scannable import ScanComputation, Scannable
from sql.typing.duckdb.bound_values import BoundFragment
from sql.typing.duckdb.sql_fragments import ELEMENT, Fragment, fragment
from sql.typing.typed_expressions import Typed

_MAX_DEPTH = 60
Finish = Callable[[ListValues, pa.Array], pa.Array]
"""Computes the result from the first array and the body's values (BOOLEAN for conditions)."""


Elements: TypeAlias = Fragment | Any
"""The SQL of an array for each row, or an Arrow array: the elements of one array for all rows."""


def constant_elements(array: Typed) -> Elements:
    """Returns an array's elements if they are literals, else its SQL."""
    inner = array.type.inner if isinstance(array.type, ArrayType) else array.type
    known = array.elements or ()
    if not known or not all(element.is_literal for element in known) or not (is_discrete(inner) or is_number(inner)):
        return array.sql
    if pa.types.is_date(inner.arrow) or any(isinstance(element.value, bool) for element in known):
        return array.sql
    return pa.array([element.value for element in known], inner.arrow)


@dataclass(frozen=True)
class LambdaBody:
    """A lambda's body over elements: a computation, the name of an input, or a constant ``value``.

    Inputs are named "0", "1", …: first the elements of ``arrays``, then the ``captured`` columns, with a value a row.
    """

    arrays: tuple[Elements, ...]
    captured: tuple[Fragment, ...]
    computed: ScanComputation | str | None
    value: pa.Scalar

    def values(self, lists: Sequence[ListValues], captured: Sequence[pa.Array]) -> pa.Array:
        """Computes the body for all elements."""
        if self.computed is None:
            return pa.repeat(self.value, len(lists[0].values))
        known = {str(place): one.values for place, one in enumerate(lists)}
        wanted = (self.computed,) if isinstance(self.computed, str) else self.computed.columns
        for place, array in enumerate(captured, len(lists)):
            if str(place) in wanted:
                known[str(place)] = array.take(pa.array(lists[0].owners))
        if isinstance(self.computed, str):
            return known[self.computed]
        return self.computed.of_plain([known[name] for name in wanted])


def compile_lambda_body(arrays: Sequence[Elements], parameters: Sequence[Fragment], body: Typed) -> LambdaBody | None:
    """Compiles a lambda's body for scans. Returns ``None`` if only DuckDB can compute it."""
    own = tuple(arrays)
    type_ = pa.bool_() if body.is_condition else body.type.arrow
    if body.is_literal:
        return LambdaBody(own, (), None, pa.scalar(body.value, pa.null() if body.value is None else type_))
    if body.sql.depth > _MAX_DEPTH:
        return None
    names = {parameter: str(place) for place, parameter in enumerate(parameters)}
    captured: dict[Fragment, str] = {}

    def resolved(sql: Fragment) -> ScanComputation | str | None:
        if sql in names:
            return names[sql]
        if not sql.traits & ELEMENT or not any(node in names for node in sql.nodes()):
            return captured.setdefault(sql, str(len(names) + len(captured)))
        if not isinstance(sql, Scannable):
            return None
        inputs = [resolved(value) for value in sql.values]
        known = tuple([value for value in inputs if value is not None])
        return ScanComputation(known, sql.compute, sql.result) if len(known) == len(inputs) else None

    computed = resolved(body.sql)
    return None if computed is None else LambdaBody(own, tuple(captured), computed, pa.scalar(None, type_))


def scan_lambda(
    sql: Fragment, body: LambdaBody | None, name: str, finish: Finish | None, result: pa.DataType
) -> Fragment:
    """Adds a scan kernel to ``sql``: the body over all elements, then ``finish``."""
    if body is None or finish is None:
        return sql

    def compute(lists: Sequence[ListValues], captured: Sequence[pa.Array]) -> pa.Array:
        return finish(lists[0], body.values(lists, captured))

    return scan_arrays(sql, body.arrays, body.captured, name, compute, result)


def scan_arrays(
    sql: Fragment,
    arrays: Sequence[Elements],
    captured: Sequence[Fragment],
    name: str,
    compute: Callable[[Sequence[ListValues], Sequence[pa.Array]], pa.Array],
    result: pa.DataType,
) -> Fragment:
    """Adds a scan kernel over arrays and captured columns to ``sql``.

    If the arrays of a row have different sizes, the statement ends with 190 (SIZES_OF_ARRAYS_DONT_MATCH).
    """
    stored = [array for array in arrays if isinstance(array, Fragment)]
    constants = [None if isinstance(array, Fragment) else array for array in arrays]

    def of_columns(*given: pa.Array) -> pa.Array:
        columns, rows = iter(given), len(given[0])
        lists = [build_lists(next(columns) if array is None else repeated(array, rows)) for array in constants]
        others = list(columns)
        equal = np.ones(rows, bool)
        for other in lists[1:]:
            equal &= other.lengths == lists[0].lengths
        if equal.all():
            return compute(lists, others)
        some = pa.array(np.flatnonzero(equal))
        taken = [build_lists(one.given.take(some)) for one in lists]
        found = compute(taken, [array.take(some) for array in others])
        return found.take(pa.array(np.cumsum(equal) - 1, mask=~equal))

    value = Scannable(sql, (*stored, *captured), of_columns, result)
    if len(stored) == len(arrays) and all(array == stored[0] for array in stored):
        return value
    failure = (
        f"CASE WHEN {{0}} IS NULL THEN error('pando:190:Arrays passed to {name} must have equal size') ELSE {{0}} END"
    )
    return BoundFragment(sql, value, lambda column: fragment(f"({failure})", column))


# Whether the body holds -----------------------------------------------------------------------------------------------


def as_conditions(values: pa.Array) -> np.ndarray:
    """Returns as NumPy booleans for which elements the body holds."""
    if pa.types.is_null(values.type):
        return np.zeros(len(values), bool)
    if not pa.types.is_boolean(values.type):
        return as_numbers(values) != 0
    return np.asarray(values)


def is_test(body: Typed) -> bool:
    """Tells whether the body can be used as a condition over elements."""
    if body.is_literal and body.value is None:
        return True
    return not body.type.is_nullable and (body.is_condition or is_number(body.type))


def filter_arrays(lists: ListValues, values: pa.Array) -> pa.Array:
    """Returns the elements for which the body holds."""
    return lists.where(as_conditions(values))


def exists(lists: ListValues, values: pa.Array) -> pa.Array:
    """Tells for each list whether the body holds for some element."""
    return lists.column(lists.counts(as_conditions(values)) > 0, pa.bool_())


def all_hold(lists: ListValues, values: pa.Array) -> pa.Array:
    """Tells for each list whether the body holds for all elements."""
    return lists.column(lists.counts(as_conditions(values)) == lists.lengths, pa.bool_())


def count_matches(lists: ListValues, values: pa.Array) -> pa.Array:
    """Counts the elements for which the body holds."""
    return lists.column(lists.counts(as_conditions(values)), pa.uint32())


def _find_matches(lists: ListValues, holds: np.ndarray, *, is_last: bool) -> tuple[np.ndarray, np.ndarray]:
    """Finds the first (or last) element of each list for which the body holds.

    Returns whether there is one, and its position among all elements.
    """
    numbers = np.append(np.flatnonzero(holds), 0)
    counts = lists.counts(holds)
    ends = np.cumsum(counts)
    return counts > 0, numbers[np.where(counts > 0, ends - 1 if is_last else ends - counts, -1)]


def nth_match(default: object, *, is_last: bool) -> Finish:
    """Returns a ``Finish`` for ``arrayFirst`` and ``arrayLast``."""

    def finish(lists: ListValues, values: pa.Array) -> pa.Array:
        found, numbers = _find_matches(lists, as_conditions(values), is_last=is_last)
        type_ = lists.values.type
        items = pa.concat_arrays([lists.values, pa.array([default], type_)])
        return items.take(pa.array(np.where(found, numbers, len(items) - 1)))

    return finish


def first_match_position(lists: ListValues, values: pa.Array, *, is_last: bool) -> pa.Array:
    """Returns the position of the first (or last) match, from 1, or 0."""
    found, numbers = _find_matches(lists, as_conditions(values), is_last=is_last)
    return lists.column(np.where(found, numbers - lists.offsets[:-1] + 1, 0), pa.uint32())


# The body's values ----------------------------------------------------------------------------------------------------


def map_arrays(lists: ListValues, values: pa.Array) -> pa.Array:
    """Returns lists of the body's values."""
    return lists.like(values.cast(pa.uint8()) if pa.types.is_boolean(values.type) else values)


def is_mapped(body: Typed) -> bool:
    """Tells whether the body's values can become the elements of an array."""
    return body.is_condition or is_plain(body.type)


def sort_arrays(descending: bool) -> Finish:
    """Returns a ``Finish`` that sorts each list by the body's values; the sort is stable."""

    def finish(lists: ListValues, values: pa.Array) -> pa.Array:
        (own,), most = value_codes([values], ranked=True)
        keys = lists.owners * most + (most - 1 - own if descending else own)
        return lists.like(lists.values.take(pa.array(sort_keys(keys, most * len(lists.given)))))

    return finish


def is_ordered(body: Typed, descending: bool) -> bool:
    """Tells whether a scan can sort by the body. NULL comes last in both directions."""
    return is_discrete(body.type) and not body.is_condition and not (descending and body.type.is_nullable)


def _reduce_lists(operator: np.ufunc, numbers: np.ndarray, lists: ListValues) -> np.ndarray:
    """Reduces each list with a ufunc; an empty list gives 0."""
    some = lists.lengths > 0
    result = np.zeros(len(lists.given), numbers.dtype)
    if some.any():
        with np.errstate(all="ignore"):
            result[some] = operator.reduceat(numbers, lists.offsets[:-1][some])
    return result


def sum_arrays(lists: ListValues, values: pa.Array) -> pa.Array:
    """Sums integers; the sums wrap around at 64 bits."""
    kind = pa.int64() if pa.types.is_signed_integer(values.type) else pa.uint64()
    totals = np.zeros(len(values) + 1, kind.to_pandas_dtype())
    np.cumsum(as_numbers(values), out=totals[1:])
    return lists.column(totals[lists.offsets[1:]] - totals[lists.offsets[:-1]], kind)


def reduce_arrays(operator: np.ufunc, kind: type[np.generic] | None, result: pa.DataType) -> Finish:
    """Returns a ``Finish`` that reduces each list, after a conversion to ``kind`` unless that is ``None``."""

    def finish(lists: ListValues, values: pa.Array) -> pa.Array:
        numbers = as_numbers(values)
        return lists.column(_reduce_lists(operator, numbers if kind is None else numbers.astype(kind), lists), result)

    return finish


def _sum_float_lists(lists: ListValues, values: pa.Array) -> np.ndarray:
    """Sums each list from left to right, as ClickHouse does."""
    with np.errstate(all="ignore"):
        return np.bincount(lists.owners, as_numbers(values), len(lists.given))


def sum_floats(lists: ListValues, values: pa.Array) -> pa.Array:
    """Sums floats."""
    return lists.column(_sum_float_lists(lists, values), pa.float64())


def average(lists: ListValues, values: pa.Array) -> pa.Array:
    """Returns each list's mean; 0 for an empty list."""
    return lists.column(_sum_float_lists(lists, values) / np.maximum(lists.lengths, 1), pa.float64())


def cumulative_sum(kind: pa.DataType) -> Finish:
    """Returns a ``Finish`` for ``arrayCumSum`` of integers."""

    def finish(lists: ListValues, values: pa.Array) -> pa.Array:
        totals = np.zeros(len(values) + 1, kind.to_pandas_dtype())
        np.cumsum(as_numbers(values), out=totals[1:])
        return lists.like(pa.array(totals[1:] - np.repeat(totals[lists.offsets[:-1]], lists.lengths)))

    return finish


def differences(kind: pa.DataType) -> Finish:
    """Returns a ``Finish`` for ``arrayDifference`` of integers; the first is 0."""

    def finish(lists: ListValues, values: pa.Array) -> pa.Array:
        numbers = as_numbers(values).astype(kind.to_pandas_dtype())
        found = np.diff(numbers, prepend=numbers[:1])
        found[lists.offsets[:-1][lists.lengths > 0]] = 0
        return lists.like(pa.array(found))

    return finish
