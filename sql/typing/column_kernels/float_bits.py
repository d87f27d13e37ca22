"""Floats in keys and sets: ClickHouse hashes and compares their bits, so 0.0 and -0.0 are two values there.

DuckDB's GROUP BY, DISTINCT, IN, joins and set operations take them for one. Where a type has floats inside, those get
:func:`bits_of`, whole numbers instead of floats, and :func:`of_bits` gives the values back. Comparisons (``=``, ``<``),
ORDER BY and PARTITION BY of windows compare numbers in both engines.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from parts.types import ArrayType, DataType, FloatType, MapType, TupleType, strip_nullable
from sql.typing.duckdb.sql_fragments import Fragment, fragment, join_fragments, leaf
from sql.typing.typed_expressions import quote_identifier, string_literal


def has_floats(type_: DataType) -> bool:
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


def bits_of(sql: Fragment, type_: DataType) -> Fragment:
    """The value with the bits of each float in it as an integer; ``sql`` itself where there are no floats."""
    return _mapped(sql, type_, {32: "CAST(CAST({} AS BIT) AS UINTEGER)", 64: "CAST(CAST({} AS BIT) AS UBIGINT)"})


def of_bits(sql: Fragment, type_: DataType) -> Fragment:
    """The value of which ``sql`` is :func:`bits_of`."""
    return _mapped(sql, type_, {32: "CAST(CAST({} AS BIT) AS FLOAT)", 64: "CAST(CAST({} AS BIT) AS DOUBLE)"})


def has_floats_inside(type_: DataType) -> bool:
    """Whether an array, map or tuple has floats. DuckDB's aggregates, DISTINCT ON and ASOF give 0.0 for -0.0 there."""
    return has_floats(type_) and not isinstance(strip_nullable(type_), FloatType)


def kept(sql: Fragment, type_: DataType, aggregate: Callable[[Fragment], Fragment]) -> Fragment:
    """What ``aggregate`` chooses among values ``sql``, with the signs of zeros inside arrays, maps and tuples."""
    if not has_floats_inside(type_):
        return aggregate(sql)
    return of_bits(aggregate(bits_of(sql, type_)), type_)


def _mapped(sql: Fragment, type_: DataType, of_width: dict[int, str]) -> Fragment:
    """``sql`` with the template for its width around each float in it."""
    if not has_floats(type_):
        return sql
    match strip_nullable(type_):
        case FloatType(width):
            return fragment(of_width[width], sql)
        case ArrayType(inner):
            return fragment("list_transform({}, lambda b: {})", sql, _mapped(leaf("b"), inner, of_width))
        case MapType(key, value):
            pair = TupleType((("key", key), ("value", value)))
            return fragment("list_transform({}, lambda b: {})", sql, _mapped(leaf("b"), pair, of_width))
        case TupleType(elements):
            fields = []
            for position, (name, inner) in enumerate(elements, 1):
                label = name or str(position)
                field = fragment("struct_extract({}, {})", sql, string_literal(label))
                fields.append(fragment("{} := {}", quote_identifier(label), _mapped(field, inner, of_width)))
            return fragment("struct_pack({})", join_fragments(", ", fields))
    raise AssertionError(type_)


def with_bits(query: Fragment, types: Sequence[DataType]) -> Fragment:
    """The query of columns ``c0, c1, …`` with bits for floats."""
    return _columns(query, types, bits_of)


def without_bits(query: Fragment, types: Sequence[DataType]) -> Fragment:
    """The query of which ``query`` is :func:`with_bits`."""
    return _columns(query, types, of_bits)


def _columns(query: Fragment, types: Sequence[DataType], change: Callable[[Fragment, DataType], Fragment]) -> Fragment:
    names = [f"c{position}" for position in range(len(types))]
    columns = (fragment("{} AS {}", change(leaf(name), type_), name) for name, type_ in zip(names, types, strict=True))
    return fragment("SELECT {} FROM ({})", join_fragments(", ", columns), query)


def distinct_by_bits(query: Fragment, types: Sequence[DataType]) -> Fragment:
    """The different rows of a query of columns ``c0, c1, …``."""
    return without_bits(fragment("SELECT DISTINCT * FROM ({})", with_bits(query, types)), types)
