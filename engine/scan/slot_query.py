"""Runs a SELECT over the rows of one slot, which the query names ``slot``.

So the server computes what a task wants of its rows. The rows are streamed like those of a file, block by block, from
the parts that the scan holds. If the slot is all of them, they are a table with its index. The query is a statement of
the server, with its process entry, limits and user, and is read-only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import pyarrow as pa

from engine.queries.session import QueryResult, Session
from engine.scan.arrow_stream import BATCH_ROWS
from engine.scan.sent_columns import convert_array, get_arrow_type
from parts.common.errors import UserError
from parts.format.primary_index import MarkRange
from parts.read.part_reader import Part
from parts.read.row_filters import RowFilter
from parts.table.table_description import Column, TableSchema
from parts.types import DataType
from sql.grammar.statements.statement import ParsedStatement, SelectQuery
from sql.relations import ArrowRelation, PartsRelation

SLOT = "slot"


class StatementExecutor(Protocol):
    """Parses and executes statements."""

    def parse(self, text: str, session: Session) -> ParsedStatement:
        """Parses one statement."""

    def execute_parsed(self, parsed: ParsedStatement, text: str, session: Session) -> QueryResult:
        """Executes a parsed statement."""


@dataclass(frozen=True)
class SlotRows:
    """The rows of a slot that ``keep`` accepts. Implements ``sql.relations.StreamedRelation``."""

    columns: Sequence[Column]
    pieces: Sequence[tuple[Part, Sequence[MarkRange]]] = ()
    keep: RowFilter | None = None

    @property
    def schema(self) -> TableSchema:
        """The columns with their types, without defaults."""
        return TableSchema(tuple(Column(column.name, column.type) for column in self.columns))

    @property
    def hidden(self) -> Sequence[Column]:
        """No columns: a slot has no hidden ones."""
        return ()

    def read(self, columns: Sequence[str]) -> pa.Table:
        """Returns all rows."""
        return pa.concat_tables(self.blocks(columns))

    def blocks(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Yields the rows batch by batch."""
        wanted = list(columns) if columns or self.keep is None else [self.columns[0].name]
        for part, ranges in self.pieces:
            for batch in part.read(wanted, ranges, max_batch_rows=BATCH_ROWS, test=self.keep):
                yield pa.Table.from_batches([batch]).select(list(columns))


def run_query(
    rows: ArrowRelation | PartsRelation, query: str, runner: StatementExecutor, session: Session
) -> QueryResult:
    """Starts the query over the rows and returns its result.

    Raises 62 for a statement other than SELECT, and 15 for a result with two columns of one name.
    """
    own = replace(session, settings={**session.settings, "readonly": 1}, external_tables={SLOT: rows})
    parsed = runner.parse(query, own)
    if not isinstance(parsed.statement, SelectQuery):
        raise UserError("SYNTAX_ERROR", "'query' must be a SELECT")
    result = runner.execute_parsed(parsed, query, own)
    names = [name for name, _ in result.columns]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        result.close()
        raise UserError("DUPLICATE_COLUMN", f"The result of 'query' has several columns {twice!r}: give them aliases")
    return result


def convert_result(result: QueryResult) -> Iterator[pa.RecordBatch]:
    """Yields the result in the types of scans; at least one batch."""
    types: list[DataType] = [type_ for _, type_ in result.columns]
    schema = pa.schema([pa.field(name, get_arrow_type(type_), type_.is_nullable) for name, type_ in result.columns])
    is_empty = True
    try:
        for batch in result.batches:
            arrays = [convert_array(array, type_) for array, type_ in zip(batch.columns, types, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)
            is_empty = False
    finally:
        result.close()
    if is_empty:
        yield pa.RecordBatch.from_pylist([], schema=schema)
