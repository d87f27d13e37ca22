"""Selects the granules and rows that a scan's condition keeps, as a query's WHERE does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from engine.scan.slot_planning import add_hidden_columns, select_stored_columns
from parts.format.primary_index import MarkRange
from parts.read.part_reader import Part
from parts.table.table_description import TableDescription, TableSchema
from parts.types import IntegerType, strip_nullable
from sql.grammar.queries.query_parser import parse_expression
from sql.grammar.syntax_tree import Function, Identifier, LiteralList, Node, conjuncts
from sql.run.block_expressions import compile_expression
from sql.run.condition_analysis import analyse_condition


def select_granules(
    parts: Sequence[Part], description: TableDescription, condition: str, timezone: str
) -> list[tuple[Part, list[MarkRange]]]:
    """Returns the parts and granules that may hold rows matching the condition.

    The index may select too much, never too little. Raises the condition's errors: 62, 47, 46, 43.
    """
    where = condition.strip()
    _compile_terms(where, add_hidden_columns(description.schema), timezone)
    chosen = []
    for pruned in analyse_condition(where, description, timezone).prune(parts):
        ranges = [MarkRange(0, pruned.part.marks)] if pruned.ranges is None else list(pruned.ranges)
        if ranges:
            chosen.append((pruned.part, ranges))
    return chosen


@dataclass(frozen=True)
class FilterTerm:
    """A condition on rows, and the columns that it reads, with their types."""

    columns: Mapping[str, pa.DataType]
    evaluate: Callable[[pa.Table], pa.ChunkedArray]

    def find_rows(self, batch: pa.RecordBatch) -> pa.Array:
        """Returns the mask of the rows for which it is true. Columns of the batch may be compact."""
        plain = {name: batch.column(name).cast(type_) for name, type_ in self.columns.items()}
        values = self.evaluate(pa.table(plain) if plain else pa.Table.from_batches([batch])).combine_chunks()
        mask = values if pa.types.is_boolean(values.type) else pc.not_equal(values, 0)
        return pc.fill_null(mask, False)


@dataclass(frozen=True)
class ScanFilter:
    """A filter for the rows where all terms are true."""

    terms: tuple[FilterTerm, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it reads."""
        return tuple(dict.fromkeys(name for term in self.terms for name in term.columns))

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Returns the rows for which the terms are true (NULL is not)."""
        for term in self.terms:
            if batch.num_rows:
                batch = batch.filter(term.find_rows(batch))
        return batch


def compile_filter(condition: str, description: TableDescription, timezone: str) -> ScanFilter | None:
    """Compiles a condition; returns ``None`` for an empty one.

    Raises 48 for an ALIAS column, which has no data.
    """
    terms = _compile_terms(condition.strip(), add_hidden_columns(description.schema), timezone)
    if not terms:
        return None
    found = ScanFilter(terms)
    select_stored_columns(description.schema, found.columns)
    return found


def _compile_terms(condition: str, schema: TableSchema, timezone: str) -> tuple[FilterTerm, ...]:
    """Compiles long lists of members by themselves, and the rest of the condition as one term.

    DuckDB would plan a list anew for every block.
    """
    if not condition:
        return ()
    lists, rest = [], []
    for node in conjuncts(parse_expression(condition)):
        found = _find_members(node, schema)
        if found is None:
            rest.append(node)
        else:
            lists.append(found)
    if rest:
        compiled = compile_expression(reduce(_join, rest), schema, timezone)
        types = {name: schema.column(name).type.arrow for name in compiled.columns}
        lists.append(FilterTerm(types, compiled.evaluate))
    return tuple(lists)


def _join(left: Node, right: Node) -> Node:
    return Function("and", (left, right))


def _find_members(node: Node, schema: TableSchema) -> FilterTerm | None:
    """Returns the term of ``column IN (1, 2, …)``, if it is one of many integers."""
    match node:
        case Function("in", (Identifier((str(name),)), LiteralList(values))) if name in schema and pa.types.is_integer(
            values.type
        ):
            column = schema.column(name)
            type_ = strip_nullable(column.type)
            if column.is_stored and isinstance(type_, IntegerType):
                members = _find_possible(values, type_)
                return FilterTerm(
                    {name: column.type.arrow},
                    lambda rows: pc.is_in(rows.column(name), value_set=members, skip_nulls=True),
                )
    return None


def _find_possible(values: pa.Array, type_: IntegerType) -> pa.Array:
    """Returns the members that values of the type can be, in its Arrow type."""
    low = -(1 << type_.bits - 1) if type_.signed else 0
    numbers = [value for value in values.to_pylist() if value is not None and low <= value < low + (1 << type_.bits)]
    return pa.array(numbers, type_.arrow)
