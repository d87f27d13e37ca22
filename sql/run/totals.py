"""``SELECT count(), sum(a), max(b) FROM t WHERE …``: one row of totals over rows that the key finds.

What is read is what ``sql.run.stored_rows`` reads; a few thousand values are added sooner than DuckDB is asked. Only
totals that are exact in any order are here: of integers that cannot overflow, and of dates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from parts.primary_index import plain_numbers
from parts.types import DataType, DateType, IntegerType
from sql.compile.compiled_query import CompiledQuery, Scan
from sql.compile.scope import VIRTUAL_COLUMNS
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
    has_only,
)
from sql.relation import is_parts_relation

MOST_ROWS = 65_536
"""Of more, DuckDB's threads are sooner done."""
_MOST_SUMMED_BITS = 32
"""Of 2^31 rows the sum fits 64 bits."""


@dataclass(frozen=True, slots=True)
class Total:
    """``name``: count, sum, min or max, of a column (``None``: of rows); ``type`` is the result's."""

    name: str
    column: str | None
    type: DataType


def totals_of(query: Query, scans: Sequence[Scan], compiled: CompiledQuery) -> tuple[Total, ...]:
    """The totals over the one MergeTree table that the query reads, if they are its whole result; else nothing."""
    if not isinstance(query, Select) or not isinstance(query.source, NamedTable) or query.source.sample is not None:
        return ()
    if len(scans) != 1 or query.source.final or not has_only(query, "source", "prewhere", "where"):
        return ()
    (scan,) = scans
    if not is_parts_relation(scan.source.relation) or not scan.source.prunable:
        return ()
    aliases = {node.name for node in query.expressions if isinstance(node, Alias)}
    found = [
        _total(node, scan, aliases, type_)
        for node, (_, type_) in zip(query.expressions, compiled.columns, strict=False)
    ]
    if len(found) != len(compiled.columns) or len(found) != len(query.expressions):
        return ()
    totals = tuple(total for total in found if total is not None)
    return totals if len(totals) == len(found) and any(total.column for total in totals) else ()


def _total(node: Node, scan: Scan, aliases: set[str], type_: DataType) -> Total | None:
    if isinstance(node, Alias):
        node = node.expression
    if not isinstance(node, Function) or node != Function(node.name, node.args):
        return None
    name = node.name.lower()
    match node.args:
        case () | (Star((), None, ()),) | (Literal(int()),) if name == "count":
            return Total("count", None, type_)
        case (Identifier((column,)),) if column not in aliases and column not in VIRTUAL_COLUMNS:
            definition = scan.definitions.get(column)
            if definition is None or definition.default_kind == "ALIAS":
                return None
            return _of_column(name, column, definition.type, type_)
    return None


def _of_column(name: str, column: str, given: DataType, type_: DataType) -> Total | None:
    if name == "sum" and isinstance(given, IntegerType) and given.bits <= _MOST_SUMMED_BITS:
        return Total(name, column, type_) if type_ == IntegerType(64, given.signed) else None
    if name in ("min", "max") and (
        isinstance(given, DateType) or (isinstance(given, IntegerType) and given.bits <= 64)
    ):
        return Total(name, column, type_) if type_ == given else None
    return None


def read_columns(totals: Sequence[Total]) -> tuple[str, ...]:
    """The columns that are read for them."""
    return tuple(dict.fromkeys(total.column for total in totals if total.column is not None))


def total_row(totals: Sequence[Total], batches: Iterable[Sequence[pa.Array]], schema: pa.Schema) -> pa.RecordBatch:
    """The row of totals over batches of :func:`read_columns`."""
    places = {name: place for place, name in enumerate(read_columns(totals))}
    rows = 0
    partial: list[list[int]] = [[] for _ in totals]
    for arrays in batches:
        rows += len(arrays[0])
        for total, values in zip(totals, partial, strict=True):
            if total.column is not None:
                numbers = plain_numbers(arrays[places[total.column]])
                assert numbers is not None, total
                values.append(int(_REDUCE[total.name](numbers)))
    arrays = []
    for total, values, field in zip(totals, partial, schema, strict=True):
        number = rows if total.column is None else _FINAL[total.name](values) if values else 0
        arrays.append(_array_of(number, field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _sum(numbers: np.ndarray) -> np.generic:
    return numbers.sum(dtype=np.uint64 if numbers.dtype.kind == "u" else np.int64)


_REDUCE: dict[str, Callable[[np.ndarray], Any]] = {"sum": _sum, "min": np.min, "max": np.max}
_FINAL: dict[str, Callable[[list[int]], int]] = {"sum": sum, "min": min, "max": max}


def _array_of(number: int, type_: pa.DataType) -> pa.Array:
    if pa.types.is_date32(type_):
        return pa.array([number], pa.int32()).cast(type_)
    return pa.array([number], type_)
