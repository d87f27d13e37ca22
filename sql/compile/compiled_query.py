"""The result of compiling a query: DuckDB SQL with typed columns, and the scans that feed it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from parts.table.table_description import Column
from parts.types import DataType
from sql.compile.final_reading import FinalReading
from sql.compile.names.scope import ExpressionContext, PushdownTarget, Source
from sql.grammar.syntax_tree import Node, OrderItem
from sql.typing.casts.casts import convert_to_supertype
from sql.typing.column_kernels.scannable import ScanComputation
from sql.typing.duckdb.sql_fragments import Fragment, ScanReference, fragment, join_fragments
from sql.typing.typed_expressions import Typed


@dataclass(frozen=True, slots=True)
class CompiledQuery:
    """A compiled query; ``sql`` has columns c0, c1, … of the DuckDB types of ``columns``."""

    sql: Fragment
    columns: tuple[tuple[str, DataType], ...]
    plain_columns: tuple[str, ...] = ()
    """The source's columns that ``columns`` are; empty if one of them is computed."""
    plain_order: tuple[tuple[str, OrderItem], ...] = ()
    """The source's columns of ORDER BY; empty if it orders by anything computed."""
    origins: tuple[PushdownTarget, ...] = ()
    """The SELECTs that its rows come from, which may take conditions on them."""

    def origins_with_types(self, types: Sequence[DataType]) -> tuple[PushdownTarget, ...]:
        """Returns the origins with their columns converted to these types."""
        return tuple(origin.with_types(types) for origin in self.origins)


def cast_columns(branch: CompiledQuery, types: Sequence[DataType], zone: str) -> Fragment:
    """Returns the query's SQL with its columns cast to other types."""
    if all(have == want for (_, have), want in zip(branch.columns, types, strict=True)):
        return branch.sql
    columns = [
        fragment("{} AS c{}", convert_to_supertype(Typed(fragment("c{}", position), have), want, zone), position)
        for position, ((_, have), want) in enumerate(zip(branch.columns, types, strict=True))
    ]
    return fragment("SELECT {} FROM ({})", join_fragments(", ", columns), branch.sql)


@dataclass(frozen=True, slots=True)
class PartialAggregate:
    """A partial aggregate over a group of rows: ``count``, ``sum``, ``min`` or ``max`` of a column.

    NULLs are ignored. Without a column it is the number of all rows.
    """

    function: str
    column: str
    type: pa.DataType


@dataclass(slots=True)
class Scan:
    """A table read by the query.

    ``conditions`` are conjuncts that may prune the scan, each with the context of its names.
    """

    source: Source
    conditions: list[tuple[Node, ExpressionContext]] = field(default_factory=list)
    definitions: dict[str, Column] = field(init=False)
    """The table's columns: ``source.columns`` may be shadowed by an ARRAY JOIN later."""
    final: FinalReading | None = None
    """If set, only the rows are read that a merge would leave."""
    coded: dict[str, None] = field(default_factory=dict)
    """The columns whose codes the query reads (``sql.compile.short_string_codes``)."""
    computed: dict[str, ScanComputation] = field(default_factory=dict)
    """The columns that the scan computes, by name (``sql.compile.scan_columns``)."""
    parts: dict[str, PartialAggregate] = field(default_factory=dict)
    """The partial aggregates, by name. If there are any, the scan returns groups of rows
    (``sql.compile.grouping.scan_grouping``)."""

    def __post_init__(self) -> None:
        columns = self.source.columns.values()
        self.definitions = {column.name: column.definition for column in columns if column.definition is not None}

    @property
    def table(self) -> Fragment:
        """The scan as a table in FROM."""
        return ScanReference(self.source.number)
