"""Floats in keys and sets, compared by their bits: 0.0 and -0.0 are two values to ClickHouse.

DuckDB's GROUP BY, DISTINCT, IN, joins and set operations take them for one. There, types that contain floats go through
:func:`floats_to_bits`, which replaces floats by integers; :func:`bits_to_floats` restores the values. Comparisons
(``=``, ``<``), ORDER BY and PARTITION BY of windows compare numbers in ClickHouse as in DuckDB.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from parts.types import ArrayType, DataType, FloatType, MapType, TupleType, strip_nullable
from sql.typing.duckdb.sql_fragments import Fragment, fragment, join_fragments, leaf
from sql.typing.typed_expressions import quote_identifier, string_literal


def has_floats(type_: DataType) -> bool:
    """Tells whether a type is a float or contains floats."""
    match strip_nullable(type_):
        case FloatType():
            return True
        case ArrayType(inner):
            return has_floats(inner)
        case MapType(key, value):
            return has_floats(key) or has_floats(value)
        case TupleType(elements):
            return any(has_floats(inner) for _, inner in elements)
    return False


def floats_to_bits(sql: Fragment, type_: DataType) -> Fragment:
    """Returns the value with each float in it as the integer of its bits.

    Without floats that is ``sql`` itself.
    """
    return _map_floats(sql, type_, {32: "CAST(CAST({} AS BIT) AS UINTEGER)", 64: "CAST(CAST({} AS BIT) AS UBIGINT)"})


def bits_to_floats(sql: Fragment, type_: DataType) -> Fragment:
    """Restores the value from :func:`floats_to_bits`."""
    return _map_floats(sql, type_, {32: "CAST(CAST({} AS BIT) AS FLOAT)", 64: "CAST(CAST({} AS BIT) AS DOUBLE)"})


def has_floats_inside(type_: DataType) -> bool:
    """Tells whether an array, map or tuple contains floats.

    DuckDB's aggregates, DISTINCT ON and ASOF return 0.0 for -0.0 there.
    """
    return has_floats(type_) and not isinstance(strip_nullable(type_), FloatType)


def keep_zero_signs(sql: Fragment, type_: DataType, aggregate: Callable[[Fragment], Fragment]) -> Fragment:
    """Applies an aggregate that chooses a value, and keeps the signs of zeros inside the value."""
    if not has_floats_inside(type_):
        return aggregate(sql)
    return bits_to_floats(aggregate(floats_to_bits(sql, type_)), type_)


def _map_floats(sql: Fragment, type_: DataType, of_width: dict[int, str]) -> Fragment:
    """Applies the template for its width to each float in the value."""
    if not has_floats(type_):
        return sql
    match strip_nullable(type_):
        case FloatType(width):
            return fragment(of_width[width], sql)
        case ArrayType(inner):
            return fragment("list_transform({}, lambda b: {})", sql, _map_floats(leaf("b"), inner, of_width))
        case MapType(key, value):
            pair = TupleType((("key", key), ("value", value)))
            return fragment("list_transform({}, lambda b: {})", sql, _map_floats(leaf("b"), pair, of_width))
        case TupleType(elements):
            fields = []
            for position, (name, inner) in enumerate(elements, 1):
                label = name or str(position)
                field = fragment("struct_extract({}, {})", sql, string_literal(label))
                fields.append(fragment("{} := {}", quote_identifier(label), _map_floats(field, inner, of_width)))
            return fragment("struct_pack({})", join_fragments(", ", fields))
    raise AssertionError(type_)


def select_float_bits(query: Fragment, types: Sequence[DataType]) -> Fragment:
    """Returns a query of columns ``c0, c1, …`` with bits instead of floats."""
    return _map_columns(query, types, floats_to_bits)


def select_floats_from_bits(query: Fragment, types: Sequence[DataType]) -> Fragment:
    """Restores the floats of a query made by :func:`select_float_bits`."""
    return _map_columns(query, types, bits_to_floats)


def _map_columns(
    query: Fragment, types: Sequence[DataType], change: Callable[[Fragment, DataType], Fragment]
) -> Fragment:
    names = [f"c{position}" for position in range(len(types))]
    columns = (fragment("{} AS {}", change(leaf(name), type_), name) for name, type_ in zip(names, types, strict=True))
    return fragment("SELECT {} FROM ({})", join_fragments(", ", columns), query)


def distinct_by_bits(query: Fragment, types: Sequence[DataType]) -> Fragment:
    """Returns the distinct rows of a query of columns ``c0, c1, …``, comparing floats by bits."""
    return select_floats_from_bits(fragment("SELECT DISTINCT * FROM ({})", select_float_bits(query, types)), types)
