"""Evaluates expressions over one block: table keys, column defaults, casts.

A plain column is taken as it is; the usual key functions of one column run in NumPy; anything else is a DuckDB query
over the block. All three give the same values: the NumPy functions here are only those that the tests compare with
DuckDB.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from parts.common.errors import UserError
from parts.table.table_description import Column, Key, TableSchema
from parts.types import DataType, Date32Type, DateTimeType, DateType, IntegerType
from sql.compile.compiled_query import Scan
from sql.compile.expressions.expressions import ExpressionCompiler
from sql.compile.names.column_names import canonical_text
from sql.compile.names.scope import Scope, Source, collect_aliases, table_source
from sql.functions.hashes.integer_hashes import int_hash_32, int_hash_64
from sql.functions.registry import Environment
from sql.grammar.queries.query_parser import parse_expression, parse_expression_list
from sql.grammar.syntax_tree import Alias, Function, Identifier, Node
from sql.pruning.evaluator import Evaluator
from sql.run.duckdb import database
from sql.run.duckdb.constant_folding import fold_constant
from sql.run.duckdb.duckdb_arrays import convert_table
from sql.run.scans.scan_streams import scan_sql
from sql.typing.duckdb.engine_types import duckdb_output_type
from sql.typing.duckdb.storage_arrays import storage_table
from sql.typing.typed_expressions import INT64, Typed, column_label, is_query_only_type

Evaluate = Callable[[pa.Table], pa.ChunkedArray]
_ROW = "row_number"
"""The number of a row of the block, among the columns that DuckDB reads: their labels begin with a digit."""


@dataclass(frozen=True)
class CompiledExpression:
    """An expression over blocks; ``text`` is canonical.

    ``evaluate(block)`` returns its value for every row, in the storage type of ``type``.
    """

    text: str
    type: DataType
    columns: tuple[str, ...]
    evaluate: Evaluate = field(compare=False, repr=False)


def compile_expressions(texts: Sequence[str], schema: TableSchema, zone: str = "UTC") -> list[CompiledExpression]:
    """Compiles texts of expressions over the columns of ``schema``.

    Raises ``UserError`` 62, 47, 46, 43, … for a text that is not such an expression.
    """
    return [compile_expression(parse_expression(text), schema, zone) for text in texts]


def compile_key(text: str, schema: TableSchema, zone: str = "UTC") -> Key:
    """Compiles a key: ``a``, ``(a, f(b))`` or nothing (``""``, ``tuple()``)."""
    nodes = parse_expression_list(text)
    if len(nodes) == 1 and isinstance(nodes[0], Function) and nodes[0].name == "tuple":
        nodes = nodes[0].args
    compiled = [compile_expression(node, schema, zone) for node in nodes]
    columns = tuple(dict.fromkeys(name for item in compiled for name in item.columns))
    return Key(
        tuple(item.text for item in compiled),
        tuple(item.type for item in compiled),
        columns,
        lambda block: evaluate_together(compiled, block),
        tuple(item.columns for item in compiled),
    )


def evaluate_together(compiled: Sequence[CompiledExpression], block: pa.Table) -> list[pa.ChunkedArray]:
    """Returns the values of several expressions over one block."""
    return [item.evaluate(block) for item in compiled]


def compile_expression(node: Node, schema: TableSchema, zone: str = "UTC") -> CompiledExpression:
    """Compiles one expression over the columns of ``schema``, as :func:`compile_expressions` does."""
    if isinstance(node, Alias):
        node = node.expression
    if isinstance(node, Identifier) and len(node.parts) == 1 and node.parts[0] in schema:
        column = schema.column(node.parts[0])
        if column.is_stored:
            name = column.name
            return CompiledExpression(canonical_text(node), column.type, (name,), lambda block: block.column(name))
    source = table_source(schema)
    scope = Scope([source], aliases=collect_aliases([node]))
    value = ExpressionCompiler(scope, Environment(zone, now=time.time())).compile(node).plain
    if value.apply is not None:
        raise UserError("BAD_ARGUMENTS", f"{canonical_text(node)} is a lambda, not a value")
    if is_query_only_type(value.type):
        raise UserError(
            "ILLEGAL_TYPE_OF_ARGUMENT", f"{canonical_text(node)} is of type {value.type}, which no column holds"
        )
    columns = tuple(source.used)
    direct = _find_direct_evaluator(node, schema, zone)
    evaluate = direct or _Evaluator(value, source, columns)
    return CompiledExpression(canonical_text(node), value.type, columns, evaluate)


def _in_order(rows: pa.Table) -> pa.Table:
    """Returns the rows in the order of their numbers, which a join loses. DuckDB makes one of IN with five members."""
    numbers = np.asarray(rows.column(1))
    return rows if (numbers[1:] > numbers[:-1]).all() else rows.take(pa.array(np.argsort(numbers)))


class _Evaluator:
    """Runs one expression in DuckDB. Thread-safe: a cursor for every call."""

    def __init__(self, value: Typed, source: Source, columns: tuple[str, ...]) -> None:
        self._type = value.type
        self._columns = columns
        cast = duckdb_output_type(value.type)
        text = f"CAST({value.sql.render()} AS {cast})" if cast else value.sql.render()
        scan = scan_sql(Scan(source), (_ROW,))
        self._sql = f"SELECT {text} AS c0, {_ROW} AS c1 FROM {scan}" if columns else f"SELECT {text} AS c0"
        self._lock = threading.Lock()

    def __call__(self, block: pa.Table) -> pa.ChunkedArray:
        cursor = database.open_cursor()
        try:
            if not self._columns:
                # Evaluated once per row, not once per block: rand() and generateUUIDv4() differ from row to row.
                rows = cursor.sql(database.prepare_sql(f"{self._sql} FROM range({block.num_rows})")).to_arrow_table()
                return storage_table(rows, (("c0", self._type),)).column(0)
            used = block.select(list(self._columns)).rename_columns([column_label(0, name) for name in self._columns])
            numbered = convert_table(used).append_column(_ROW, pa.array(np.arange(block.num_rows)))
            cursor.register("s0", numbered.to_reader())
            rows = cursor.sql(database.prepare_sql(self._sql)).to_arrow_table()
            return storage_table(_in_order(rows), (("c0", self._type), ("c1", INT64))).column(0)
        except Exception as error:
            raise database.translate_error(error) from None
        finally:
            cursor.close()


class _Evaluation:
    """Implements the evaluator of ``sql.pruning`` with DuckDB."""

    def constant(self, value: Typed) -> object:
        return fold_constant(value)

    def expression(self, node: Node, schema: TableSchema, zone: str) -> CompiledExpression:
        return compile_expression(node, schema, zone)


DUCKDB_EVALUATOR: Evaluator = _Evaluation()


# Direct functions of one column ---------------------------------------------------------------------------------------


def _find_direct_evaluator(node: Node, schema: TableSchema, zone: str) -> Evaluate | None:
    """Returns the NumPy form of ``f(column)``, if there is one for the column's type."""
    if not isinstance(node, Function) or len(node.args) != 1 or not isinstance(node.args[0], Identifier):
        return None
    parts = node.args[0].parts
    if len(parts) != 1 or parts[0] not in schema:
        return None
    column = schema.column(parts[0])
    compute = _find_direct_function(node.name, column, zone)
    if compute is None:
        return None
    name = column.name

    def evaluate(block: pa.Table) -> pa.ChunkedArray:
        chunks = block.column(name).chunks
        return pa.chunked_array(
            [compute(chunk) for chunk in chunks]
            or [compute(block.schema.field(name).type and pa.nulls(0, block.schema.field(name).type))]
        )

    return evaluate


def _find_direct_function(name: str, column: Column, zone: str) -> Callable[[pa.Array], pa.Array] | None:
    type_ = column.type
    if isinstance(type_, DateTimeType):
        if (type_.timezone or zone) != "UTC":
            return None
        unit = "s"
    elif isinstance(type_, (DateType, Date32Type)):
        unit = "D"
    elif isinstance(type_, IntegerType) and name in _HASHES:
        hash_, target = _HASHES[name]
        signed = type_.signed

        def hashed(array: pa.Array) -> pa.Array:
            values = array.to_numpy(zero_copy_only=False)
            wide = values.astype(np.int64).view(np.uint64) if signed else values.astype(np.uint64)
            return pa.array(hash_(wide), target)

        return hashed
    else:
        return None
    build = _DATES.get(name)
    if build is None:
        return None
    return lambda array: build(array.to_numpy(zero_copy_only=False).astype(f"datetime64[{unit}]"))


_HASHES: dict[str, tuple[Callable[[np.ndarray], np.ndarray], pa.DataType]] = {
    "intHash32": (int_hash_32, pa.uint32()),
    "intHash64": (int_hash_64, pa.uint64()),
}


def _months(values: np.ndarray) -> np.ndarray:
    """Returns months since year 0."""
    return values.astype("datetime64[M]").astype(np.int64) + 1970 * 12


def _year_month(values: np.ndarray) -> pa.Array:
    months = _months(values)
    return pa.array((months // 12 * 100 + months % 12 + 1).astype(np.uint32))


def _year_month_day(values: np.ndarray) -> pa.Array:
    months = _months(values)
    days = (values.astype("datetime64[D]") - values.astype("datetime64[M]").astype("datetime64[D]")).astype(
        np.int64
    ) + 1
    return pa.array((months // 12 * 10000 + (months % 12 + 1) * 100 + days).astype(np.uint32))


def _days(values: np.ndarray) -> pa.Array:
    return pa.array(values.astype("datetime64[D]").astype(np.int32), pa.date32())


_DATES: dict[str, Callable[[np.ndarray], pa.Array]] = {
    "toYYYYMM": _year_month,
    "toYYYYMMDD": _year_month_day,
    "toYear": lambda values: pa.array((_months(values) // 12).astype(np.uint16)),
    "toMonth": lambda values: pa.array((_months(values) % 12 + 1).astype(np.uint8)),
    "toDate": _days,
    "toStartOfMonth": lambda values: _days(values.astype("datetime64[M]")),
    "toStartOfYear": lambda values: _days(values.astype("datetime64[Y]")),
}
