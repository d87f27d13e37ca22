"""Compute columns that a part lacks, because they were added after it was written, from their DEFAULT.

A default may read other columns, stored or missing too. :class:`MissingColumns` finds the columns to read and the order
in which the others can be computed. Without a DEFAULT a column has its type's default in every row. A column of a
Nested structure has arrays of defaults, as long as the stored ones.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

import pyarrow as pa

from parts.blocks.default_values import column_default
from parts.common.errors import UserError
from parts.table.nested_columns import find_sibling, make_default_arrays
from parts.table.table_description import Column
from parts.types import ArrayType


class MissingColumns:
    """How to compute those of the ``wanted`` columns that are not ``stored``.

    ``find`` returns a column of the table, or raises 16 (NO_SUCH_COLUMN_IN_TABLE). Raises ``UserError`` 174
    (CYCLIC_ALIASES) for defaults that need each other.
    """

    def __init__(self, wanted: Sequence[str], stored: Collection[str], find: Callable[[str], Column]) -> None:
        self._stored = stored
        self._find = find
        self._order: list[Column] = []
        self._open: list[str] = []
        self.to_read: dict[str, None] = {}
        """The stored columns to read, wanted or read by a default, in the order they were found."""
        for name in wanted:
            self._visit(name)

    def _visit(self, name: str) -> None:
        if name in self._stored:
            self.to_read[name] = None
            return
        if any(column.name == name for column in self._order):
            return
        column = self._find(name)
        if name in self._open:
            circle = " -> ".join([*self._open, name])
            raise UserError("CYCLIC_ALIASES", f"Default expressions need each other: {circle}")
        self._open.append(name)
        for source in self._sources(column):
            self._visit(source)
        self._open.pop()
        self._order.append(column)

    def _sources(self, column: Column) -> Sequence[str]:
        if column.default is not None:
            return column.default.columns
        like = find_sibling(column.name, column.type, self._stored)
        return () if like is None else (like,)

    def compute(self, found: Mapping[str, pa.Array], rows: int) -> dict[str, pa.Array]:
        """Returns all columns. ``found`` has those of :attr:`to_read`."""
        values = dict(found)
        for column in self._order:
            values[column.name] = _default_values(column, values, rows, self._sources(column))
        return values


def _default_values(column: Column, found: Mapping[str, pa.Array], rows: int, sources: Sequence[str]) -> pa.Array:
    if column.default is None and sources:
        assert isinstance(column.type, ArrayType)
        return make_default_arrays(column.type, found[sources[0]])
    if column.default is None:
        return column_default(column.type, rows).chunk(0)
    values = column.default.evaluate(pa.table({name: found[name] for name in column.default.columns}), rows)
    assert (values.type, len(values)) == (column.type.arrow, rows), f"{column.name}: {values.type}, {len(values)}"
    values = values.unify_dictionaries() if pa.types.is_dictionary(values.type) else values
    return values.chunk(0) if values.num_chunks == 1 else pa.concat_arrays(values.chunks)
