"""Long lists of literals: written in place while short, else a scan of their own.

DuckDB plans a constant in its text about as fast as it reads a thousand rows of a table. So a list of more than
``MAX_INLINED_LITERALS`` goes there as Arrow data, beside the tables.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from parts.common.errors import UserError
from parts.table.table_description import Column, TableSchema
from parts.types import ArrayType, DataType
from sql.compile.compiled_query import Scan
from sql.compile.compiler_interfaces import ExpressionCompiling
from sql.compile.names.scope import Source, SourceColumn, column_sql
from sql.functions.maps_and_tuples.maps_and_tuples import make_tuple
from sql.grammar.syntax_tree import Function, Literal, LiteralList, Node
from sql.typing.duckdb.sql_fragments import Fragment, fragment
from sql.typing.result_types import supertype
from sql.typing.typed_expressions import FLOAT64, STRING, Typed, literal

if TYPE_CHECKING:
    from collections.abc import Sequence


MAX_INLINED_LITERALS = 5000


@dataclass(frozen=True)
class _ListRelation:
    """A table with one column ``v``."""

    schema: TableSchema
    table: pa.Table

    def read(self, columns: Sequence[str]) -> pa.Table:
        return self.table


def is_inlined(compiler: ExpressionCompiling, node: LiteralList) -> bool:
    """Tells whether the list is written into the statement.

    Without a query, and inside a lambda, there are no scans.
    """
    return len(node.values) <= MAX_INLINED_LITERALS or compiler.query is None or bool(compiler.names.lambdas)


def list_members(node: LiteralList) -> tuple[Node, ...]:
    """Returns the members as syntax trees."""
    if node.is_of_tuples:
        rows = zip(*(column.to_pylist() for column in node.values.flatten()), strict=True)
        return tuple([Function("tuple", tuple([Literal(value) for value in row])) for row in rows])
    return tuple([Literal(value) for value in node.values.to_pylist()])


def list_bounds(node: LiteralList) -> tuple[Node, Node]:
    """Returns the least and the greatest member."""
    both = pc.min_max(node.values)
    return Literal(both["min"].as_py()), Literal(both["max"].as_py())


def compile_list(compiler: ExpressionCompiling, node: LiteralList) -> Typed:
    """Compiles the list as a value: an array, or a tuple if it was in round brackets.

    Raises ``UserError`` 168 for a tuple that is too large.
    """
    if not node.is_array:
        if len(node.values) > MAX_INLINED_LITERALS:
            raise UserError("TOO_BIG_AST", f"A tuple of {len(node.values)} elements is too large")
        return make_tuple([compiler.compile(member) for member in list_members(node)])
    type_ = ArrayType(element_type(node))
    if is_inlined(compiler, node):
        elements = tuple([literal(value) for value in node.values.to_pylist()])
        return replace(compiler.call("array", elements), elements=elements, is_constant=True)
    offsets = pa.array([0, len(node.values)], pa.int32())
    rows = pa.ListArray.from_arrays(offsets, node.values.cast(type_.inner.arrow))
    return Typed(fragment("(SELECT {} FROM {})", *scan_of_list(compiler, rows.cast(type_.arrow), type_)), type_)


def element_type(node: LiteralList) -> DataType:
    """Returns the element type that ClickHouse gives an array of these members."""
    if pa.types.is_integer(node.values.type):
        return supertype([literal(bound.value).type for bound in list_bounds(node)])  # type: ignore[attr-defined]
    return FLOAT64 if pa.types.is_floating(node.values.type) else STRING


def member_column(compiler: ExpressionCompiling, node: LiteralList) -> tuple[Typed, Fragment]:
    """Returns the members as a column, and the scan that has it."""
    type_ = element_type(node)
    name, table = scan_of_list(compiler, node.values.cast(type_.arrow), type_)
    return Typed(name, type_), table


def scan_of_list(compiler: ExpressionCompiling, values: pa.Array, type_: DataType) -> tuple[Fragment, Fragment]:
    """Adds a scan of these values; returns its column and the scan itself."""
    query = compiler.need_query()
    number = query.next_number()
    definition = Column("v", type_)
    table = pa.table({"v": values})
    relation = _ListRelation(TableSchema((definition,)), table)
    column = SourceColumn("v", type_, column_sql(number, "v"), definition)
    source = Source(number, "", {"v": column}, None, "literals", relation)
    source.used["v"] = None
    entry = Scan(source)
    query.scans.append(entry)
    return column.sql, entry.table
