"""Combines neighbouring UPDATEs and DELETEs over a part that fits in memory into one rewrite.

Each step sees the rows as the steps before it leave them, as if each had rewritten the part. Steps that need more than
the stored columns of the rows stay alone: those with subqueries, ``_part_offset``, ``_row_exists`` or computed columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache

import numpy as np
import pyarrow as pa

from parts.read.part_reader import Part
from parts.table.row_exists_column import PART_OFFSET, PART_OFFSET_COLUMN
from parts.table.table_description import Column, TableSchema
from sql.grammar.queries.query_parser import parse_expression
from sql.grammar.statements.alter_commands import DeleteRows, UpdateRows
from sql.grammar.syntax_tree import Function, Identifier, Literal, LiteralList, Node, walk
from sql.mutations.changed_rows import WINDOW_BYTES, WINDOW_ROWS, ChangedRows, patch_rows
from sql.mutations.mutation_queries import MutationStep
from sql.relations import BlockRelation

_NODES = (Function, Identifier, Literal, LiteralList)
_BATCH_ROWS = 65_536


def group_steps(steps: Iterable[MutationStep], schema: TableSchema) -> Iterator[list[MutationStep]]:
    """Groups the steps, in order; neighbours that can be combined are in one list."""
    group: list[MutationStep] = []
    for step in steps:
        if find_columns(step, schema) is None:
            if group:
                yield group
            group = []
            yield [step]
        else:
            group.append(step)
    if group:
        yield group


@lru_cache(4096)
def find_columns(step: MutationStep, schema: TableSchema) -> frozenset[str] | None:
    """Returns the columns that an UPDATE or DELETE reads and changes; ``None``: it must stay alone."""
    if not isinstance(step.command, UpdateRows | DeleteRows):
        return None
    assignments = step.command.assignments if isinstance(step.command, UpdateRows) else ()
    nodes = [node for text in (step.command.condition, *(value for _, value in assignments)) for node in _nodes(text)]
    changed = {name for name, _ in assignments}
    names = {".".join(node.parts) for node in nodes if isinstance(node, Identifier)} | changed
    is_simple = (
        all(isinstance(node, _NODES) for node in nodes)
        and all(name in schema and schema.column(name).default_kind in ("", "DEFAULT") for name in names)
        and not any(changed.intersection(structure) for structure in schema.nested)
    )
    return frozenset(names) if is_simple else None


def find_all_columns(steps: Iterable[MutationStep], schema: TableSchema) -> frozenset[str]:
    """Returns the columns that all of the steps read and change."""
    return frozenset().union(*(find_columns(step, schema) or () for step in steps))


def _nodes(expression: str) -> Iterator[Node]:
    return walk(parse_expression(expression))


def fits_in_memory(part: Part, names: Iterable[str], schema: TableSchema) -> bool:
    """Returns whether the columns of all rows fit in memory, and the part lacks no stored column.

    A rewrite would have to compute a column that is missing.
    """
    sizes = part.column_sizes()
    size = sum(sizes[name][1] for name in names if name in sizes)
    return part.rows <= WINDOW_ROWS and size <= WINDOW_BYTES and not part.lacks_columns(schema.stored.names)


class HeldRows:
    """The live rows of a part with some of its columns, as the steps so far leave them."""

    def __init__(self, part: Part, names: Iterable[str], schema: TableSchema) -> None:
        self._part = part
        self._names = tuple(sorted(names))
        self._schema = _schema_of(schema, self._names)
        self._table = pa.Table.from_batches(part.read([PART_OFFSET, *self._names]), self._schema.arrow)
        self._rows = self._table.num_rows
        self.changed: set[str] = set()
        """The columns that have new values."""

    @property
    def has_lost_rows(self) -> bool:
        """Returns whether a step deleted rows."""
        return self._table.num_rows < self._rows

    def apply_step(self, step: MutationStep, find: Callable[[BlockRelation, MutationStep], ChangedRows]) -> None:
        """Applies one step to the rows that ``find`` finds for it."""
        found = find(BlockRelation(self._schema, self._table), step)
        numbers, values = found.take_until(self._part.rows)
        if not len(numbers):
            return
        places = np.searchsorted(_offsets(self._table), numbers)
        if isinstance(step.command, UpdateRows):
            for (name, _), new in zip(step.command.assignments, values, strict=True):
                at = self._table.schema.get_field_index(name)
                column = patch_rows(self._table.column(at), new, places)
                self._table = self._table.set_column(at, self._table.field(at), column)
                self.changed.add(name)
        else:
            keep = np.ones(self._table.num_rows, bool)
            keep[places] = False
            self._table = self._table.filter(pa.array(keep))

    def list_remaining(self, names: Sequence[str]) -> ChangedRows:
        """Returns all remaining rows, with their values in ``names``."""
        chosen = self._table.select([PART_OFFSET, *names]).combine_chunks()
        return ChangedRows(iter(chosen.to_batches(_BATCH_ROWS)))


@lru_cache(256)
def _schema_of(schema: TableSchema, names: tuple[str, ...]) -> TableSchema:
    """Returns a schema that all parts of a table share, so that plans over it are cached."""
    columns = (schema.column(name) for name in names)
    return TableSchema((PART_OFFSET_COLUMN, *(Column(column.name, column.type) for column in columns)))


def _offsets(table: pa.Table) -> np.ndarray:
    return table.column(PART_OFFSET).to_numpy()
