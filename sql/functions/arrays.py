"""Arrays and higher-order functions. Indices count from 1, from the end if negative; out of range gives the default."""

from __future__ import annotations

from collections.abc import Callable

from parts.errors import UserError
from parts.types import ArrayType, DataType, FloatType, MapType, NullableType, strip_nullable
from sql.functions import guards
from sql.functions.maps_and_tuples import make_tuple, map_contains, map_element
from sql.functions.registry import Call, define, function
from sql.typing.casts import convert
from sql.typing.defaults import default_sql
from sql.typing.inference import is_integer, supertype
from sql.typing.typed import NOTHING, UINT8, UINT32, UINT64, Typed, cast


def array_type(call: Call, position: int = 0) -> ArrayType:
    type_ = strip_nullable(call.args[position].type)
    if not isinstance(type_, ArrayType):
        raise call.wrong_type(position, "Array")
    return type_


@function("array", (0, None), nulls=False)
def make_array(call: Call) -> Typed:
    if not call.args:
        return Typed("CAST([] AS INTEGER[])", ArrayType(NOTHING), elements=())
    inner = supertype(arg.type for arg in call.args)
    zone = call.environment.zone
    texts = ", ".join(convert(arg, inner, zone) for arg in call.args)
    return Typed(f"[{texts}]", ArrayType(inner), elements=call.args)


@function("emptyArrayUInt8", 0)
def empty_array(call: Call) -> Typed:
    return Typed("CAST([] AS UTINYINT[])", ArrayType(UINT8))


@function("arrayElement", 2)
def array_element(call: Call) -> Typed:
    value, index = call.args
    if isinstance(value.type, MapType):
        return map_element(call, value, index)
    inner = array_type(call).inner
    if not is_integer(index.type):
        raise call.wrong_type(1, "an integer")
    if index.value == 0:
        raise UserError("ARGUMENT_OUT_OF_BOUND", "Array indices are 1-based: 0 is no index")
    found = f"list_extract({value.sql}, CAST({index.sql} AS BIGINT))"
    return Typed(found if inner.is_nullable else f"coalesce({found}, {default_sql(inner)})", inner)


@function("arrayElementOrNull", 2)
def array_element_or_null(call: Call) -> Typed:
    from parts.types import make_nullable

    inner = array_type(call).inner
    return Typed(f"list_extract({call.args[0].sql}, CAST({call.args[1].sql} AS BIGINT))", make_nullable(inner))


def _element(call: Call, array: int, value: int) -> tuple[str, str]:
    """An array and a value as comparable DuckDB values."""
    inner = array_type(call, array).inner
    common = supertype([strip_nullable(inner), strip_nullable(call.args[value].type)])
    zone = call.environment.zone
    return convert(call.args[array], ArrayType(common), zone), convert(call.args[value], common, zone)


@function("has arrayContains", 2, nulls=False)
def has(call: Call) -> Typed:
    if strip_nullable(call.args[1].type) == NOTHING:
        array_type(call)
        found = f"len(list_filter({call.args[0].sql}, lambda x: x IS NULL)) > 0"
        return Typed(f"({found})", UINT8, is_condition=True)
    if isinstance(call.args[0].type, MapType):
        return map_contains(call)
    return Typed(f"({_place(call)} > 0)", UINT8, is_condition=True)


@function("hasAll", 2)
def has_all(call: Call) -> Typed:
    """NULL is found by NULL, NaN by nothing."""
    first, second, inner = _two_arrays(call)
    found = f"list_has_all({first}, {second})"
    if isinstance(strip_nullable(inner), FloatType):
        found += f" AND len(list_filter({second}, lambda q: isnan(q))) = 0"
    if array_type(call, 1).inner.is_nullable and array_type(call, 0).inner.is_nullable:
        found += f" AND ({_has_null(first)} OR NOT {_has_null(second)})"
    return Typed(f"({found})", UINT8, is_condition=True)


def _has_null(array: str) -> str:
    return f"(list_count({array}) < len({array}))"


@function("hasAny", 2)
def has_any(call: Call) -> Typed:
    """NULL is found by NULL, NaN by nothing."""
    first, second, inner = _two_arrays(call)
    known = f"list_filter({second}, lambda q: NOT isnan(q))" if isinstance(strip_nullable(inner), FloatType) else second
    found = f"list_has_any({first}, {known})"
    if array_type(call, 1).inner.is_nullable and array_type(call, 0).inner.is_nullable:
        found = f"({found} OR ({_has_null(first)} AND {_has_null(second)}))"
    return Typed(found, UINT8, is_condition=True)


def _two_arrays(call: Call) -> tuple[str, str, DataType]:
    common = supertype([array_type(call, 0), array_type(call, 1)])
    zone = call.environment.zone
    assert isinstance(common, ArrayType)
    return convert(call.args[0], common, zone), convert(call.args[1], common, zone), common.inner


@function("indexOf", 2, nulls=False)
def index_of(call: Call) -> Typed:
    return Typed(cast(_place(call), UINT64), UINT64)


def _place(call: Call) -> str:
    """The position of the value, 0 if it is not there. NULL is found by NULL, NaN by nothing."""
    if strip_nullable(call.args[1].type) == NOTHING:
        array_type(call)
        return f"coalesce(list_position(list_transform({call.args[0].sql}, lambda q: q IS NULL), true), 0)"
    array, value = _element(call, 0, 1)
    found = f"coalesce(list_position({array}, {value}), 0)"
    if isinstance(strip_nullable(array_type(call).inner), FloatType):
        found = f"(CASE WHEN isnan({value}) THEN 0 ELSE {found} END)"
    if call.args[1].type.is_nullable:
        missing = f"coalesce(list_position(list_transform({call.args[0].sql}, lambda q: q IS NULL), true), 0)"
        found = f"(CASE WHEN {call.args[1].sql} IS NULL THEN {missing} ELSE {found} END)"
    return found


@function("countEqual", 2, nulls=False)
def count_equal(call: Call) -> Typed:
    if strip_nullable(call.args[1].type) == NOTHING:
        array_type(call)
        return Typed(cast(f"len(list_filter({call.args[0].sql}, lambda q: q IS NULL))", UINT64), UINT64)
    array, value = _element(call, 0, 1)
    same = f"q IS NOT DISTINCT FROM {value}" if call.args[1].type.is_nullable else f"q = {value}"
    if isinstance(strip_nullable(array_type(call).inner), FloatType):
        same += " AND NOT isnan(q)"
    return Typed(cast(f"len(list_filter({array}, lambda q: {same}))", UINT64), UINT64)


@function("range", (1, 3))
def number_range(call: Call) -> Typed:
    for position, arg in enumerate(call.args):
        if not is_integer(arg.type):
            raise call.wrong_type(position, "an integer")
    inner = supertype(arg.type for arg in call.args)
    numbers = [f"CAST({arg.sql} AS BIGINT)" for arg in call.args]
    if not all(arg.is_literal and isinstance(arg.value, int) and abs(arg.value) <= _FEW for arg in call.args):
        numbers = _guarded_range(numbers)
    return Typed(cast(f"range({', '.join(numbers)})", ArrayType(inner)), ArrayType(inner))


_FEW = 10_000
"""Elements that are never too many."""
_RANGE = guards.Most(
    "ARGUMENT_OUT_OF_BOUND", 500_000_000, True,
    "A call to function range would produce {size} array elements, which is greater than the allowed maximum of {most}",
)  # fmt: skip
_RESIZE = guards.Most(
    "TOO_LARGE_ARRAY_SIZE", 1 << 30, False, "Too large array size: {size}, maximum: {most}"
)  # fmt: skip


def _guarded_range(numbers: list[str]) -> list[str]:
    if len(numbers) == 1:
        return [guards.room(numbers[0], "8", _RANGE)]
    start, end, *step = numbers
    if not step:
        return [start, f"{start} + {guards.room(f'greatest({end} - {start}, 0)', '8', _RANGE)}"]
    count = f"greatest(({end} - {start}) // nullif({step[0]}, 0) + 1, 0)"
    return [f"CASE WHEN {guards.room(count, '8', _RANGE)} IS NULL THEN NULL ELSE {start} END", end, step[0]]


@function("arrayConcat", (1, None))
def array_concat(call: Call) -> Typed:
    type_ = supertype(array_type(call, position) for position in range(len(call.args)))
    zone = call.environment.zone
    text = convert(call.args[0], type_, zone)
    for arg in call.args[1:]:
        text = f"list_concat({text}, {convert(arg, type_, zone)})"
    return Typed(text, type_)


def _pushed(call: Call) -> tuple[str, str, ArrayType]:
    inner = supertype([array_type(call).inner, call.args[1].type])
    zone = call.environment.zone
    return convert(call.args[0], ArrayType(inner), zone), convert(call.args[1], inner, zone), ArrayType(inner)


@function("arrayPushBack", 2, nulls=False)
def push_back(call: Call) -> Typed:
    array, value, type_ = _pushed(call)
    return Typed(f"list_append({array}, {value})", type_)


@function("arrayPushFront", 2, nulls=False)
def push_front(call: Call) -> Typed:
    array, value, type_ = _pushed(call)
    return Typed(f"list_prepend({value}, {array})", type_)


def _same(template: str) -> Callable[[Call], Typed]:
    return lambda call: Typed(template.format(call.args[0].sql), array_type(call))


define("arrayReverse", _same("list_reverse({0})"), 1)
define("arrayPopBack", _same("{0}[1:-2]"), 1)
define("arrayPopFront", _same("{0}[2:]"), 1)
define("arrayFlatten flatten_once", lambda c: Typed(f"flatten({c.args[0].sql})", array_type(c).inner), 1)


@function("arrayDistinct", 1)
def array_distinct(call: Call) -> Typed:
    """Each value once, in the order of first appearance; NULL is left out."""
    value = call.args[0].sql
    kept = f"list_filter({value}, lambda x, i: x IS NOT NULL AND list_position({value}, x) = i)"
    inner = array_type(call).inner
    return Typed(kept, ArrayType(inner.inner if isinstance(inner, NullableType) else inner))


@function("arrayUniq", 1)
def array_uniq(call: Call) -> Typed:
    value = call.args[0].sql
    count = f"list_unique({value})"
    if array_type(call).inner.is_nullable:
        count += f" + CASE WHEN len(list_filter({value}, lambda q: q IS NULL)) > 0 THEN 1 ELSE 0 END"
    return Typed(cast(f"({count})", UINT32), UINT32)


@function("arrayEnumerate", 1)
def array_enumerate(call: Call) -> Typed:
    array_type(call)
    return Typed(cast(f"range(1, len({call.args[0].sql}) + 1)", ArrayType(UINT32)), ArrayType(UINT32))


@function("arraySlice", (2, 3))
def array_slice(call: Call) -> Typed:
    value, type_ = call.args[0].sql, array_type(call)
    start = f"pando_slice_bound({call.args[1].sql})"
    start = f"pando_slice_start({start}, len({value}))"
    if len(call.args) == 2:
        return Typed(f"list_slice({value}, greatest({start}, 1), len({value}))", type_)
    size = f"pando_slice_bound({call.args[2].sql})"
    last = f"(CASE WHEN {size} < 0 THEN len({value}) + {size} ELSE {start} + {size} - 1 END)"
    return Typed(f"list_slice({value}, greatest({start}, 1), greatest({last}, 0))", type_)


@function("arrayResize", (2, 3))
def array_resize(call: Call) -> Typed:
    type_ = array_type(call)
    fill = convert(call.args[2], type_.inner) if len(call.args) > 2 else default_sql(type_.inner)
    size = guards.room(f"CAST({call.args[1].sql} AS BIGINT)", "16", _RESIZE)
    return Typed(f"list_resize({call.args[0].sql}, {size}, {fill})", type_)


@function("arrayZip", (1, None))
def array_zip(call: Call) -> Typed:
    arrays = ", ".join(arg.sql for arg in call.args)
    parts = [Typed(f"z[{position + 1}]", array_type(call, position).inner) for position in range(len(call.args))]
    body = make_tuple(parts)
    return Typed(f"list_transform(list_zip({arrays}), lambda z: {body.sql})", ArrayType(body.type))


@function("arrayIntersect", (1, None))
def array_intersect(call: Call) -> Typed:
    type_ = supertype(array_type(call, position) for position in range(len(call.args)))
    text = f"list_distinct({convert(call.args[0], type_)})"
    for arg in call.args[1:]:
        text = f"list_intersect({text}, {convert(arg, type_)})"
    return Typed(text, type_)


# Higher-order functions -----------------------------------------------------------------------------------------------


class Mapped:
    """A lambda over one or more arrays: the list to walk, the lambda's head, and its typed body."""

    def __init__(self, call: Call) -> None:
        function_, arrays = call.args[0], call.args[1:]
        if function_.apply is None or not arrays:
            raise call.wrong_type(0, "a lambda, with arrays after it")
        self.inner = [array_type(call, position).inner for position in range(1, len(call.args))]
        self.array = arrays[0]
        self.variable = f"v{_depth(arrays[0].sql)}"
        if len(arrays) == 1:
            self.list = arrays[0].sql
            parameters = [Typed(self.variable, self.inner[0])]
        else:
            first = arrays[0].sql
            checks = " AND ".join(f"len({other.sql}) = len({first})" for other in arrays[1:])
            zipped = f"list_zip({', '.join(arg.sql for arg in arrays)})"
            self.list = (
                f"(CASE WHEN {checks} THEN {zipped} "
                f"ELSE error('pando:190:Arrays passed to {call.name} must have equal size') END)"
            )
            parameters = [Typed(f"{self.variable}[{position}]", inner) for position, inner in enumerate(self.inner, 1)]
        _, body = function_.apply(parameters)
        self.body = body

    def transformed(self, sql: str | None = None) -> str:
        body = self._watched(sql or self.body.number)
        return f"list_transform({self.list}, lambda {self.variable}: {body})"

    def _watched(self, body: str) -> str:
        """A body that looks whether the query may go on, if it may be run for very many elements of few rows."""
        is_watched = guards.is_guarded(self.list)
        return guards.watched(body, is_watched)

    def filtered(self) -> str:
        """The elements of the first array where the body holds."""
        condition = self._watched(f"coalesce({self.body.condition}, false)")
        kept = f"list_filter({self.list}, lambda {self.variable}: {condition})"
        if self.list == self.array.sql:
            return kept
        return f"list_transform({kept}, lambda {self.variable}: {self.variable}[1])"


_counter = [0]


def _depth(text: str) -> int:
    """A number that makes the variable's name unique, so that nested lambdas never hide each other's."""
    _counter[0] = (_counter[0] + 1) % 1_000_000
    return _counter[0]


@function("arrayMap", (2, None), nulls=False)
def array_map(call: Call) -> Typed:
    mapped = Mapped(call)
    return Typed(mapped.transformed(), ArrayType(mapped.body.type))


@function("arrayFilter", (2, None), nulls=False)
def array_filter(call: Call) -> Typed:
    mapped = Mapped(call)
    return Typed(mapped.filtered(), ArrayType(mapped.inner[0]))


@function("arrayExists", (1, None), nulls=False)
def array_exists(call: Call) -> Typed:
    return Typed(f"(len({_kept(call)}) > 0)", UINT8, is_condition=True)


@function("arrayAll", (1, None), nulls=False)
def array_all(call: Call) -> Typed:
    array = call.args[0] if call.args[0].apply is None else call.args[1]
    return Typed(f"(len({_kept(call)}) = len({array.sql}))", UINT8, is_condition=True)


@function("arrayCount", (1, None), nulls=False)
def array_count(call: Call) -> Typed:
    return Typed(cast(f"len({_kept(call)})", UINT32), UINT32)


def _kept(call: Call) -> str:
    if call.args[0].apply is not None:
        return Mapped(call).filtered()
    array_type(call)
    return f"list_filter({call.args[0].sql}, lambda x: x <> 0)"


@function("arrayFirst", (2, None), nulls=False)
def array_first(call: Call) -> Typed:
    mapped = Mapped(call)
    return or_default(f"{mapped.filtered()}[1]", mapped.inner[0])


@function("arrayLast", (2, None), nulls=False)
def array_last(call: Call) -> Typed:
    mapped = Mapped(call)
    return or_default(f"{mapped.filtered()}[-1]", mapped.inner[0])


def or_default(sql: str, type_: DataType) -> Typed:
    return Typed(sql if type_.is_nullable else f"coalesce({sql}, {default_sql(type_)})", type_)


@function("arrayFirstIndex", (2, None), nulls=False)
def array_first_index(call: Call) -> Typed:
    mapped = Mapped(call)
    hits = mapped.transformed(f"coalesce({mapped.body.condition}, false)")
    return Typed(cast(f"coalesce(list_position({hits}, true), 0)", UINT32), UINT32)
