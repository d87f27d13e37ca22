"""Computes ``SELECT count(), sum(a), max(b) FROM t WHERE …`` over rows that the key finds.

The result is one row. Rows are read as in ``sql.run.stored_row_results``; a few thousand values are added sooner than
DuckDB can be asked. Floats are added in the order of the rows, as DuckDB does with so few.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parts.format.primary_index import get_plain_integers
from parts.types import (
    DataType,
    Date32Type,
    DateTime64Type,
    DateTimeType,
    DateType,
    FloatType,
    IntegerType,
    StringType,
)
from sql.compile.compiled_query import CompiledQuery, Scan
from sql.compile.names.scope import EXPRESSIONS, VIRTUAL_COLUMNS
from sql.grammar.syntax_tree import (
    Alias,
    Function,
    Identifier,
    Literal,
    NamedTable,
    Node,
    Query,
    Select,
    Star,
    has_only_clauses,
)
from sql.relations import is_parts_relation

MAX_AGGREGATED_ROWS = 65_536
"""With more rows DuckDB's threads are faster."""
_MOST_AVERAGED_BITS = 32
"""With so few rows, the sum of integers of these bits is exact as a float."""
_COMPARED_TYPES = (IntegerType, FloatType, StringType, DateType, Date32Type, DateTimeType, DateTime64Type)


@dataclass(frozen=True, slots=True)
class SimpleAggregate:
    """An aggregate of a column, or of rows where ``column`` is ``None``.

    ``name`` is count, sum, avg, min, max or any; ``type`` is the result's.
    """

    name: str
    column: str | None
    type: DataType


def find_simple_aggregates(query: Query, scans: Sequence[Scan], compiled: CompiledQuery) -> tuple[SimpleAggregate, ...]:
    """Returns the aggregates over the query's one MergeTree table, if they are its whole result.

    Else returns nothing.
    """
    if not isinstance(query, Select) or not isinstance(query.source, NamedTable) or query.source.sample is not None:
        return ()
    if len(scans) != 1 or not has_only_clauses(query, "source", "prewhere", "where"):
        return ()
    (scan,) = scans
    if not is_parts_relation(scan.source.relation) or not scan.source.prunable:
        return ()
    aliases = {node.name for node in query.expressions if isinstance(node, Alias)}
    found = [
        _find_aggregate(node, scan, aliases, type_)
        for node, (_, type_) in zip(query.expressions, compiled.columns, strict=False)
    ]
    if len(found) != len(compiled.columns) or len(found) != len(query.expressions):
        return ()
    totals = tuple(total for total in found if total is not None)
    return totals if len(totals) == len(found) else ()


def _find_aggregate(node: Node, scan: Scan, aliases: set[str], type_: DataType) -> SimpleAggregate | None:
    if isinstance(node, Alias):
        node = node.expression
    if not isinstance(node, Function) or node != Function(node.name, node.args):
        return None
    name = node.name.lower()
    match node.args:
        case () | (Star((), None, ()),) | (Literal(int()),) if name == "count":
            return SimpleAggregate("count", None, type_)
        case (Identifier((column,)),) if column not in aliases and column not in VIRTUAL_COLUMNS:
            definition = scan.definitions.get(column)
            if definition is None or definition.default_kind in EXPRESSIONS:
                return None
            return _find_column_aggregate(name, column, definition.type, type_)
    return None


def _find_column_aggregate(name: str, column: str, given: DataType, type_: DataType) -> SimpleAggregate | None:
    match name:
        case "sum":
            wanted: DataType | None = IntegerType(64, given.signed) if isinstance(given, IntegerType) else None
            wanted = FloatType(64) if isinstance(given, FloatType) else wanted
        case "avg":
            is_exact = isinstance(given, IntegerType) and given.bits <= _MOST_AVERAGED_BITS
            wanted = FloatType(64) if is_exact or isinstance(given, FloatType) else None
        case "min" | "max" | "any":
            wanted = given if isinstance(given, _COMPARED_TYPES) else None
        case _:
            wanted = None
    return SimpleAggregate(name, column, type_) if wanted == type_ else None


def list_read_columns(totals: Sequence[SimpleAggregate]) -> tuple[str, ...]:
    """Returns the columns to read for the aggregates."""
    return tuple(dict.fromkeys(total.column for total in totals if total.column is not None))


def compute_aggregate_row(
    totals: Sequence[SimpleAggregate], rows: int, batches: Iterable[Sequence[pa.Array]], schema: pa.Schema
) -> pa.RecordBatch:
    """Computes the row of aggregates over ``rows`` rows.

    ``batches`` have the columns of :func:`list_read_columns`.
    """
    names = list_read_columns(totals)
    columns = {name: pa.concat_arrays(pieces) for name, *pieces in zip(names, *batches, strict=True) if pieces}
    arrays = []
    for total, field in zip(totals, schema, strict=True):
        if total.column is None:
            arrays.append(pa.array([rows], field.type))
        elif rows:
            arrays.append(_AGGREGATE_FUNCTIONS[total.name](columns[total.column]))
        else:
            arrays.append(pa.array([math.nan if total.name == "avg" else total.type.default], field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _sum(values: pa.Array) -> pa.Array:
    """Sums floats, or integers modulo 2^64 as in ClickHouse."""
    numbers = get_plain_integers(values)
    if numbers is None:
        return pa.array([_float_sum(values)])
    return pa.array([numbers.sum(dtype=np.uint64 if numbers.dtype.kind == "u" else np.int64)])


def _float_sum(values: pa.Array) -> np.float64:
    return np.add.accumulate(values.to_numpy(), dtype=np.float64)[-1] + 0.0  # the sum of -0.0 alone is 0.0


def _avg(values: pa.Array) -> pa.Array:
    total = _sum(values)[0].as_py() if pa.types.is_integer(values.type) else _float_sum(values)
    return pa.array([total / len(values)], pa.float64())


def _extreme(values: pa.Array, name: str) -> pa.Array:
    """Returns the minimum or maximum. NaN counts only if there is nothing else."""
    numbers = get_plain_integers(values)
    if pa.types.is_floating(values.type):
        known = values.filter(pc.invert(pc.is_nan(values)))
        values = known if len(known) else values
        numbers = values.to_numpy()
    if numbers is None:
        return pa.array([pc.min_max(values)[name].as_py()], values.type)
    place = int(numbers.argmin() if name == "min" else numbers.argmax())
    return values.slice(place, 1)


_AGGREGATE_FUNCTIONS: dict[str, Callable[[pa.Array], pa.Array]] = {
    "sum": _sum,
    "avg": _avg,
    "min": lambda values: _extreme(values, "min"),
    "max": lambda values: _extreme(values, "max"),
    "any": lambda values: values.slice(0, 1),
}
