"""Sort keys: values that DuckDB orders as ClickHouse orders the originals.

They serve UUIDs, which ClickHouse orders by their halves, and NULL and NaN within arrays and tuples.

DuckDB takes NULL and NaN within a value for the greatest. ClickHouse places them last. So it takes them for the
greatest in ascending order (``min``, ORDER BY … ASC, ``<``), and for the least in descending order (``max``, ORDER BY …
DESC). The callers deal with a NULL or NaN that is the whole value.
"""

from __future__ import annotations

from parts.types import ArrayType, DataType, FloatType, MapType, TupleType, strip_nullable
from sql.typing.duckdb.sql_fragments import Fragment, fragment, join_fragments, leaf
from sql.typing.scalars.all_scalars import scalar_of
from sql.typing.typed_expressions import string_literal


def has_own_order(type_: DataType, *, nulls_least: bool) -> bool:
    """Tells whether DuckDB orders values of the type differently from ClickHouse."""
    scalar = scalar_of(type_)
    if scalar is not None:
        return scalar.has_own_order
    match strip_nullable(type_):
        case ArrayType(inner):
            return element_differs(inner, nulls_least)
        case MapType(key, value):
            return element_differs(key, nulls_least) or element_differs(value, nulls_least)
        case TupleType(elements):
            return any(element_differs(inner, nulls_least) for _, inner in elements)
    return False


def element_differs(type_: DataType, nulls_least: bool) -> bool:
    """Tells the same about values within an array."""
    may_be_last = nulls_least and (type_.is_nullable or isinstance(strip_nullable(type_), FloatType))
    return may_be_last or has_own_order(type_, nulls_least=nulls_least)


def order_key(sql: Fragment, type_: DataType, *, nulls_least: bool) -> Fragment:
    """Returns a sort key for the value; ``sql`` itself where DuckDB's order is ClickHouse's."""
    if not has_own_order(type_, nulls_least=nulls_least):
        return sql
    scalar = scalar_of(type_)
    if scalar is not None:
        return scalar.order_key(sql)
    match strip_nullable(type_):
        case ArrayType(inner):
            return fragment("list_transform({}, lambda o: {})", sql, element_key(leaf("o"), inner, nulls_least))
        case MapType(key, value):
            pair = TupleType((("key", key), ("value", value)))
            return fragment(
                "list_transform({}, lambda o: {})", sql, order_key(leaf("o"), pair, nulls_least=nulls_least)
            )
        case TupleType(elements):
            fields = (
                element_key(
                    fragment("struct_extract({}, {})", sql, string_literal(name or str(position))), inner, nulls_least
                )
                for position, (name, inner) in enumerate(elements, 1)
            )
            return fragment("row({})", join_fragments(", ", fields))
    raise AssertionError(type_)


def element_key(sql: Fragment, type_: DataType, nulls_least: bool) -> Fragment:
    """Returns :func:`order_key` of a value within an array, which may be NULL or NaN."""
    key = order_key(sql, type_, nulls_least=nulls_least)
    if not nulls_least:
        return key
    if isinstance(strip_nullable(type_), FloatType):
        return fragment("row({0} IS NOT NULL, NOT isnan({0}), {0})", key)
    return fragment("row({0} IS NOT NULL, {0})", key) if type_.is_nullable else key
