"""Functions that build tuples and maps and take them apart."""

from __future__ import annotations

from collections.abc import Sequence

from parts.common.errors import UserError
from parts.types import (
    ArrayType,
    BoolType,
    DataType,
    Date32Type,
    DateTimeType,
    DateType,
    EnumType,
    IntegerType,
    IPv4Type,
    IPv6Type,
    MapType,
    TupleType,
    UUIDType,
    strip_nullable,
)
from sql.functions.list_kernels import map_kernels
from sql.functions.list_kernels.array_search import search_array
from sql.functions.maps_and_tuples.subcolumns import find_subcolumn
from sql.functions.registry import Call, function
from sql.typing.casts.casts import cast_to, convert_to_supertype
from sql.typing.default_values import default_value
from sql.typing.duckdb.engine_types import duckdb_type
from sql.typing.duckdb.sql_fragments import Fragment, fragment, join_fragments
from sql.typing.result_types import is_integer, is_string, supertype
from sql.typing.typed_expressions import INT64, NOTHING, UINT8, Typed, cast, element_sql, literal


def zip_arrays_of_equal_size(arrays: Sequence[Typed], function_name: str) -> Fragment:
    """Zips arrays into a list of structs.

    Arrays of different sizes give error 190 (SIZES_OF_ARRAYS_DONT_MATCH).
    """
    structs = fragment("list_zip({})", join_fragments(", ", [array.sql for array in arrays]))
    if len(arrays) == 1:
        return structs
    first = arrays[0].sql
    checks = join_fragments(" AND ", [fragment("len({}) = len({})", other.sql, first) for other in arrays[1:]])
    failure = fragment("error('pando:190:Arrays passed to {} must have equal size')", function_name)
    return fragment("(CASE WHEN {} THEN {} ELSE {} END)", checks, structs, failure)


def make_tuple(values: list[Typed]) -> Typed:
    """Compiles ``tuple(…)`` or ``(a, b)``. The parts are kept, so that IN and comparisons can see them."""
    plain = [value.plain for value in values]
    type_ = TupleType(tuple((None, value.type) for value in plain))
    fields = [fragment('"{}" := {}', position, _typed_null(value)) for position, value in enumerate(plain, 1)]
    sql = fragment("struct_pack({})", join_fragments(", ", fields) or '"1" := 0')
    return Typed(sql, type_, is_constant=all(value.is_constant for value in plain), elements=tuple(plain))


def _typed_null(value: Typed) -> Fragment:
    return fragment("CAST(NULL AS INTEGER)") if value.value is None else value.sql


@function("tupleElement", (2, 3), nulls=False)
def tuple_element(call: Call) -> Typed:
    """Compiles ``tuple.1``, ``tuple.name`` and subcolumns. Raises ``UserError`` 10, 43."""
    return _extract_element(call, call.args[0], call.args[1].value)


def _extract_element(call: Call, value: Typed, key: object) -> Typed:
    """Returns an element of a tuple, a subcolumn, or a map's value (``map.key_<key>``)."""
    type_ = strip_nullable(value.type)
    found = find_subcolumn(value, key) if isinstance(key, str) else None
    if found is not None:
        return found
    if isinstance(type_, MapType) and isinstance(key, str) and key.startswith("key_"):
        return map_element(call, value, literal(key.removeprefix("key_")))
    if isinstance(type_, ArrayType) and isinstance(strip_nullable(type_.inner), TupleType):
        inner = _extract_element(call, Typed(fragment("x"), type_.inner), key)
        return Typed(fragment("list_transform({}, lambda x: {})", value.sql, inner.sql), ArrayType(inner.type))
    if not isinstance(type_, TupleType):
        raise UserError(
            "ILLEGAL_TYPE_OF_ARGUMENT", f"First argument for function tupleElement must be Tuple, not {value.type}"
        )
    position = _find_element(type_, key)
    if value.elements is not None:
        return value.elements[position - 1]
    return Typed(element_sql(value.sql, position), type_.elements[position - 1][1])


def _find_element(type_: TupleType, key: object) -> int:
    if not isinstance(key, (int, str)):
        raise UserError(
            "ILLEGAL_TYPE_OF_ARGUMENT", "Second argument to tupleElement must be a constant integer or string"
        )
    if isinstance(key, int) and not isinstance(key, bool):
        position = key if key > 0 else len(type_.elements) + 1 + key
        if 1 <= position <= len(type_.elements):
            return position
    for position, (own_name, _) in enumerate(type_.elements, 1):
        if key == (own_name or str(position)):
            return position
    raise UserError("NOT_FOUND_COLUMN_IN_BLOCK", f"Tuple doesn't contain element {key!r}: {type_}")


@function("untuple", 1, nulls=False)
def untuple(call: Call) -> Typed:
    """Raises ``UserError`` 48: the function is not supported."""
    raise UserError("NOT_IMPLEMENTED", "The function untuple is not supported")


# Maps -----------------------------------------------------------------------------------------------------------------


@function("map", (0, None), nulls=False)
def make_map(call: Call) -> Typed:
    """Compiles ``map(key, value, …)``. Raises ``UserError`` 42."""
    if len(call.args) % 2:
        raise UserError("NUMBER_OF_ARGUMENTS_DOESNT_MATCH", "map needs an even number of arguments: key, value, …")
    if not call.args:
        nothing = MapType(NOTHING, NOTHING)
        return Typed(cast("[]", nothing), nothing)
    keys, values = call.args[0::2], call.args[1::2]
    type_ = MapType(supertype(key.type for key in keys), supertype(value.type for value in values))
    zone = call.environment.zone
    entries = [
        fragment(
            "struct_pack(key := {}, value := {})",
            convert_to_supertype(key, type_.key, zone),
            convert_to_supertype(value, type_.value, zone),
        )
        for key, value in zip(keys, values, strict=True)
    ]
    sql = fragment("[{}]", join_fragments(", ", entries))
    return Typed(map_kernels.build_maps(sql, keys, values, type_), type_)


def map_type(call: Call, position: int = 0) -> MapType:
    """Returns the argument's Map type without Nullable. Raises ``UserError`` 43."""
    type_ = strip_nullable(call.args[position].type)
    if not isinstance(type_, MapType):
        raise call.wrong_type(position, "Map")
    return type_


def map_entries(value: Typed, type_: MapType) -> Typed:
    """Returns a map as an array of tuples (keys, values)."""
    sql = fragment("list_transform({}, lambda e: struct_pack(keys := e.key, values := e.value))", value.sql)
    return Typed(sql, ArrayType(TupleType((("keys", type_.key), ("values", type_.value)))))


@function("mapKeys", 1)
def map_keys(call: Call) -> Typed:
    return map_kernels.map_keys(call.args[0], map_type(call))


@function("mapValues", 1)
def map_values(call: Call) -> Typed:
    return map_kernels.map_values(call.args[0], map_type(call))


@function("mapContains mapContainsKey", 2)
def map_contains(call: Call) -> Typed:
    """Compiles ``mapContains(map, key)``."""
    type_, key = map_type(call).key, call.args[1]
    own = map_kernels.map_keys(call.args[0], map_type(call))
    keys, zone = own.sql, call.environment.zone
    if is_integer(type_) and is_integer(key.type):
        wanted = _convert_key(key, type_, zone)
    else:
        common = supertype([strip_nullable(type_), strip_nullable(key.type)])
        keys = convert_to_supertype(own, ArrayType(common), zone)
        wanted = convert_to_supertype(key, common, zone)
    found = fragment("coalesce(list_contains({}, {}), false)", keys, wanted)
    return Typed(search_array(found, "any", own, key), UINT8, is_condition=True)


@function("mapFromArrays", 2)
def map_from_arrays(call: Call) -> Typed:
    """Compiles ``mapFromArrays(keys, values)``. Raises ``UserError`` 43."""
    keys, values = call.args
    if not isinstance(keys.type, ArrayType) or not isinstance(values.type, ArrayType):
        raise call.wrong_type(0 if not isinstance(keys.type, ArrayType) else 1, "Array")
    type_ = MapType(keys.type.inner, values.type.inner)
    sql = fragment(
        "list_transform({}, lambda e: struct_pack(key := e[1], value := e[2]))",
        zip_arrays_of_equal_size(call.args, call.name),
    )
    return Typed(map_kernels.from_arrays(sql, keys, values, type_, call.name), type_)


@function("mapFilter", 2)
def map_filter(call: Call) -> Typed:
    """Compiles ``mapFilter(lambda, map)``. Raises ``UserError`` 43."""
    type_ = map_type(call, 1)
    if call.args[0].apply is None:
        raise call.wrong_type(0, "a lambda")
    key, value = map_kernels.PARAMETERS
    body = call.args[0].apply([Typed(key, type_.key), Typed(value, type_.value)])
    sql = fragment("list_filter({}, lambda e: {})", call.args[1].sql, body.condition)
    return Typed(map_kernels.filter_maps(sql, call.args[1], type_, map_kernels.PARAMETERS, body), type_)


@function("mapApply", 2)
def map_apply(call: Call) -> Typed:
    """Compiles ``mapApply(lambda, map)``. Raises ``UserError`` 43."""
    type_ = map_type(call, 1)
    if call.args[0].apply is None:
        raise call.wrong_type(0, "a lambda")
    body = call.args[0].apply(
        [Typed(part, own) for part, own in zip(map_kernels.PARAMETERS, (type_.key, type_.value), strict=True)]
    )
    if not isinstance(body.type, TupleType) or len(body.type.elements) != 2 or body.elements is None:
        raise UserError("ILLEGAL_TYPE_OF_ARGUMENT", "The lambda of mapApply must give a tuple (key, value)")
    key, value = body.elements
    sql = fragment(
        "list_transform({}, lambda e: struct_pack(key := {}, value := {}))", call.args[1].sql, key.number, value.number
    )
    made = MapType(key.type, value.type)
    return Typed(
        map_kernels.transform_maps(sql, call.args[1], type_, map_kernels.PARAMETERS, body.elements, made), made
    )


def _key_kind(type_: DataType) -> str:
    """Returns the kind of a key's type; keys of one kind can be compared.

    ``""``: ClickHouse cannot look up keys of this type.
    """
    bare = strip_nullable(type_)
    if is_string(bare):
        return "text"
    if isinstance(bare, (IntegerType, BoolType, EnumType, DateType, Date32Type, DateTimeType)):
        return "number"
    return bare.name if isinstance(bare, (UUIDType, IPv4Type, IPv6Type)) else ""


def _convert_key(key: Typed, type_: DataType, zone: str) -> Fragment:
    """Returns the key as a value of the map's key type; NULL if that type cannot hold it."""
    goal, own = strip_nullable(type_), strip_nullable(key.type)
    if isinstance(goal, BoolType) and isinstance(own, IntegerType):
        return fragment("(CASE WHEN {sql} IN (0, 1) THEN {sql} = 1 END)", sql=key.sql)
    if isinstance(goal, IntegerType) and isinstance(own, IntegerType) and goal != own:
        return fragment("TRY_CAST({} AS {})", key.sql, duckdb_type(goal))
    if isinstance(goal, DateTimeType) and isinstance(own, (DateType, Date32Type)):  # ClickHouse compares the numbers
        key = Typed(cast_to(key, INT64, zone), INT64)
    return convert_to_supertype(key, type_, zone)


def map_element(call: Call, value: Typed, key: Typed) -> Typed:
    """Compiles ``map[key]``: the value's default where the key is missing. Raises ``UserError`` 43."""
    type_ = strip_nullable(value.type)
    assert isinstance(type_, MapType)
    kinds = _key_kind(type_.key), _key_kind(key.type)
    has_name = isinstance(strip_nullable(type_.key), EnumType) and kinds[1] == "text"
    if not has_name and (not kinds[0] or kinds[0] != kinds[1]):
        raise UserError(
            "ILLEGAL_TYPE_OF_ARGUMENT", f"Illegal types of arguments: {type_}, {key.type} for function arrayElement"
        )
    keys = map_kernels.map_keys(value, type_).sql
    found = fragment(
        "{}[list_position({}, {})].value", value.sql, keys, _convert_key(key, type_.key, call.environment.zone)
    )
    if type_.value.is_nullable:
        return Typed(found, type_.value)
    found = fragment("coalesce({}, {})", found, default_value(type_.value))
    return Typed(map_kernels.look_up_key(found, value, type_, key), type_.value)
