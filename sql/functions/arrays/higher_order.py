"""Higher-order functions: a lambda over the elements of arrays."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pyarrow as pa

from parts.types import ArrayType, DataType
from sql.functions import memory_guards
from sql.functions.arrays.arrays import array_type
from sql.functions.lambda_bodies import lambda_element
from sql.functions.list_kernels import lambda_results as scans
from sql.functions.maps_and_tuples.maps_and_tuples import zip_arrays_of_equal_size
from sql.functions.registry import Call, define, function
from sql.typing.default_values import default_value
from sql.typing.duckdb.sql_fragments import Fragment, fragment
from sql.typing.typed_expressions import UINT8, UINT32, Typed, cast


class LambdaOverArrays:
    """A lambda over one or more arrays: the list to walk, the lambda's head, its typed body."""

    def __init__(self, call: Call) -> None:
        function_, arrays = call.args[0], call.args[1:]
        if function_.apply is None or not arrays:
            raise call.wrong_type(0, "a lambda, with arrays after it")
        self.inner = [array_type(call, position).inner for position in range(1, len(call.args))]
        self.array = arrays[0]
        self.variable = f"v{next(_numbers)}"
        if len(arrays) == 1:
            self.list = arrays[0].sql
            parameters = [Typed(lambda_element(self.variable), self.inner[0])]
        else:
            self.list = zip_arrays_of_equal_size(arrays, call.name)
            parameters = [
                Typed(lambda_element(f"{self.variable}[{position}]"), inner)
                for position, inner in enumerate(self.inner, 1)
            ]
        self.body = function_.apply(parameters)
        self.name = call.name
        self.flat = scans.compile_lambda_body(
            [scans.constant_elements(array) for array in arrays], [each.sql for each in parameters], self.body
        )

    def scanned(self, sql: Fragment, finish: scans.Finish, result: pa.DataType, *, applies: bool) -> Fragment:
        """Adds a scan kernel to ``sql``, with ``finish`` as its last step, if ``applies``."""
        return scans.scan_lambda(sql, self.flat if applies else None, self.name, finish, result)

    def transformed(self, sql: Fragment | None = None) -> Fragment:
        """Returns the SQL of the list of the body's values, or of another expression's."""
        body = self._make_interruptible(sql or self.body.number)
        return fragment("list_transform({}, lambda {}: {})", self.list, self.variable, body)

    def _make_interruptible(self, body: Fragment) -> Fragment:
        """Makes a body interruptible if it may run for very many elements of few rows."""
        is_watched = memory_guards.is_guarded(self.list)
        return memory_guards.interruptible_body(body, is_watched)

    def filter_elements(self) -> Fragment:
        """Returns the SQL of the first array's elements for which the body holds."""
        condition = self._make_interruptible(fragment("coalesce({}, false)", self.body.condition))
        kept = fragment("list_filter({}, lambda {}: {})", self.list, self.variable, condition)
        if self.list == self.array.sql:
            return kept
        return fragment("list_transform({}, lambda {value}: {value}[1])", kept, value=self.variable)


_numbers = itertools.cycle(range(1, 1_000_000))
"""Numbers of lambda variables: nested lambdas never share a variable's name."""


@function("arrayMap", (2, None), nulls=False)
def array_map(call: Call) -> Typed:
    """Compiles ``arrayMap(lambda, …)``."""
    mapped = LambdaOverArrays(call)
    body, type_ = mapped.body, ArrayType(mapped.body.type)
    sql = mapped.scanned(mapped.transformed(), scans.map_arrays, type_.arrow, applies=scans.is_mapped(body))
    return Typed(sql, type_)


@function("arrayFilter", (2, None), nulls=False)
def array_filter(call: Call) -> Typed:
    """Compiles ``arrayFilter(lambda, array, …)``."""
    mapped = LambdaOverArrays(call)
    type_ = ArrayType(mapped.inner[0])
    return Typed(_scan_test(mapped, mapped.filter_elements(), scans.filter_arrays, type_.arrow), type_)


def _scan_test(mapped: LambdaOverArrays, sql: Fragment, finish: scans.Finish, result: pa.DataType) -> Fragment:
    applies = scans.is_test(mapped.body) and scans.is_plain(mapped.inner[0])
    return mapped.scanned(sql, finish, result, applies=applies)


def _build_from_test(template: str, finish: scans.Finish, result: pa.DataType) -> Callable[[Call], Fragment]:
    """Builds SQL from a template over ``array`` and ``kept``, the elements for which the lambda holds."""

    def build(call: Call) -> Fragment:
        if call.args[0].apply is not None:
            mapped = LambdaOverArrays(call)
            return _scan_test(
                mapped, fragment(template, kept=mapped.filter_elements(), array=mapped.array.sql), finish, result
            )
        type_ = array_type(call)
        array = call.args[0]
        kept = fragment("list_filter({}, lambda x: x <> 0)", array.sql)
        sql = fragment(template, kept=kept, array=array.sql)
        only = lambda_element("x")
        body = Typed(only, type_.inner)
        flat = scans.compile_lambda_body([array.sql], [only], body) if scans.is_test(body) else None
        return scans.scan_lambda(sql, flat, call.name, finish, result)

    return build


_exists = _build_from_test("(len({kept}) > 0)", scans.exists, pa.bool_())
_all = _build_from_test("(len({kept}) = len({array}))", scans.all_hold, pa.bool_())
_count = _build_from_test("CAST(len({kept}) AS UINTEGER)", scans.count_matches, pa.uint32())
define("arrayExists", lambda call: Typed(_exists(call), UINT8, is_condition=True), (1, None), nulls=False)
define("arrayAll", lambda call: Typed(_all(call), UINT8, is_condition=True), (1, None), nulls=False)
define("arrayCount", lambda call: Typed(_count(call), UINT32), (1, None), nulls=False)


def _build_nth_match(place: int) -> Callable[[Call], Typed]:
    def build(call: Call) -> Typed:
        mapped = LambdaOverArrays(call)
        inner = mapped.inner[0]
        value = default_if_empty(fragment("{}[{}]", mapped.filter_elements(), place), inner)
        if inner.is_nullable:
            return value
        finish = scans.nth_match(inner.default, is_last=place < 0)
        return replace(value, sql=_scan_test(mapped, value.sql, finish, inner.arrow))

    return build


define("arrayFirst", _build_nth_match(1), (2, None), nulls=False)
define("arrayLast", _build_nth_match(-1), (2, None), nulls=False)


def default_if_empty(sql: Fragment, type_: DataType) -> Typed:
    """Returns the value, with the type's default for NULL if the type is not Nullable."""
    return Typed(sql if type_.is_nullable else fragment("coalesce({}, {})", sql, default_value(type_)), type_)


def _build_match_index(*, is_last: bool) -> Callable[[Call], Typed]:
    def build(call: Call) -> Typed:
        mapped = LambdaOverArrays(call)
        hits = mapped.transformed(fragment("coalesce({}, false)", mapped.body.condition))
        if is_last:
            behind = fragment("nullif(list_position(list_reverse({}), true), 0)", hits)
            place = fragment("len({}) + 1 - {}", mapped.list, behind)
        else:
            place = fragment("list_position({}, true)", hits)
        finish = partial(scans.first_match_position, is_last=is_last)
        return Typed(_scan_test(mapped, cast(fragment("coalesce({}, 0)", place), UINT32), finish, pa.uint32()), UINT32)

    return build


define("arrayFirstIndex", _build_match_index(is_last=False), (2, None), nulls=False)
define("arrayLastIndex", _build_match_index(is_last=True), (2, None), nulls=False)
