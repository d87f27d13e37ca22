"""Functions about how a query is computed: blocks of rows, constants, kinds of columns.

DuckDB computes vectors where ClickHouse computes blocks; vectors longer than ``max_block_size`` are cut into blocks.
"""

from __future__ import annotations

from collections.abc import Callable

import duckdb
import numpy as np
import pyarrow as pa

from parts.types import (
    ArrayType,
    DataType,
    DateTime64Type,
    DecimalType,
    EnumType,
    LowCardinalityType,
    MapType,
    NullableType,
    TupleType,
)
from sql.functions.registry import NEVER_CONSTANT, Call, define, function
from sql.grammar.syntax_tree import Function, Identifier, Node, Subquery, walk
from sql.typing.duckdb.sql_fragments import fragment
from sql.typing.typed_expressions import UINT64, Typed, literal

_SIZE, _NUMBER = "pando_block_size", "pando_row_in_block"


def register(connection: duckdb.DuckDBPyConnection) -> None:
    """Registers the functions of this module on a DuckDB connection."""
    for name, compute in ((_SIZE, _block_sizes), (_NUMBER, _row_numbers)):
        connection.create_function(name, compute, ["BIGINT"], "UBIGINT", type="arrow", side_effects=True)


def _block_sizes(given: pa.ChunkedArray) -> pa.Array:
    most = given[0].as_py()
    rows = np.arange(len(given))
    return pa.array(np.minimum(most, len(given) - rows // most * most), pa.uint64())


def _row_numbers(given: pa.ChunkedArray) -> pa.Array:
    return pa.array(np.arange(len(given)) % given[0].as_py(), pa.uint64())


def _build_block_function(name: str) -> Callable[[Call], Typed]:
    def build(call: Call) -> Typed:
        most = min(call.environment.settings.max_block_size, 1 << 62)
        return Typed(fragment("{}({})", name, most), UINT64)

    return build


define("blockSize", _build_block_function(_SIZE), 0)
define("rowNumberInBlock", _build_block_function(_NUMBER), 0)


@function("isConstant", 1, nulls=False)
def _is_constant(call: Call) -> Typed:
    return literal(int(call.args[0].is_constant or _consists_of_subqueries(call)))


def _consists_of_subqueries(call: Call) -> bool:
    """Tells whether the argument consists of scalar subqueries, one value for all rows, and constants."""
    if call.node is None:
        return False
    nodes = list(walk(call.node.args[0], into_queries=False))
    return any(isinstance(node, Subquery) for node in nodes) and not any(map(_varies_by_row, nodes))


def _varies_by_row(node: Node) -> bool:
    """Tells whether a node is a column or a function with a new value for each row.

    Random functions need no argument, so every function without arguments counts.
    """
    return isinstance(node, Identifier) or (
        isinstance(node, Function) and (node.name in NEVER_CONSTANT or not node.args)
    )


define("indexHint", lambda call: literal(1), (0, None), nulls=False)


# Columns --------------------------------------------------------------------------------------------------------------


def _column_name(type_: DataType) -> str:
    """Returns the name of ClickHouse's column class for a type."""
    match type_:
        case NullableType(inner) | LowCardinalityType(inner) | ArrayType(inner):
            return f"{type_.name.partition('(')[0]}({_column_name(inner)})"
        case MapType(key, value):
            return f"Map({_column_name(key)}, {_column_name(value)})"
        case TupleType(elements):
            return f"Tuple({', '.join(_column_name(inner) for _, inner in elements)})"
        case DecimalType(precision):
            return "Decimal32" if precision <= 9 else "Decimal64" if precision <= 18 else "Decimal128"
        case EnumType():
            return f"Int{type_.bits}"
        case DateTime64Type():
            return "DateTime64"
    family = type_.name.partition("(")[0]
    return {"Bool": "UInt8", "Date": "UInt16", "Date32": "Int32", "DateTime": "UInt32"}.get(family, type_.name)


@function("toColumnTypeName", 1, nulls=False)
def _column_type_name(call: Call) -> Typed:
    (value,) = call.args
    name = _column_name(value.type)
    return literal(f"Const({name})" if value.is_constant else name)
