"""What a query becomes: DuckDB SQL with typed columns, and the scans that feed it."""

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
    """``sql`` yields columns c0, c1, … of the engine types of ``columns``."""

    sql: Fragment
    columns: tuple[tuple[str, DataType], ...]
    plain_columns: tuple[str, ...] = ()
    """The columns of its first source that ``columns`` are, where none of them is anything else."""
    plain_order: tuple[tuple[str, OrderItem], ...] = ()
    """Those that it is ordered by, where it is ordered by nothing else."""
    origins: tuple[PushdownTarget, ...] = ()
    """Where its rows come from, as far as conditions on them can be looked at there."""

    def origins_showing(self, types: Sequence[DataType]) -> tuple[PushdownTarget, ...]:
        return tuple(origin.showing(types) for origin in self.origins)


def cast_columns(branch: CompiledQuery, types: Sequence[DataType], zone: str) -> Fragment:
    """Its statement with columns of other types."""
    if all(have == want for (_, have), want in zip(branch.columns, types, strict=True)):
        return branch.sql
    columns = [
        fragment("{} AS c{}", convert_to_supertype(Typed(fragment("c{}", position), have), want, zone), position)
        for position, ((_, have), want) in enumerate(zip(branch.columns, types, strict=True))
    ]
    return fragment("SELECT {} FROM ({})", join_fragments(", ", columns), branch.sql)


@dataclass(frozen=True, slots=True)
class PartialAggregate:
    """What an aggregate needs of a group of rows: their ``count``, or ``sum``, ``min`` or ``max`` of a column (without
    one: the number of all rows), without NULL."""

    function: str
    column: str
    type: pa.DataType


@dataclass(slots=True)
class Scan:
    """A table read by the query. ``conditions`` are conjuncts that may prune it, each with what is known around it."""

    source: Source
    conditions: list[tuple[Node, ExpressionContext]] = field(default_factory=list)
    definitions: dict[str, Column] = field(init=False)
    """The table's columns: ``source.columns`` may be shadowed by an ARRAY JOIN later."""
    final: FinalReading | None = None
    """Set: only the rows are read that a merge would leave."""
    coded: dict[str, None] = field(default_factory=dict)
    """The columns whose codes the query reads (``sql.compile.short_string_codes``)."""
    computed: dict[str, ScanComputation] = field(default_factory=dict)
    """By name the columns that the scan computes (``sql.compile.scan_columns``)."""
    parts: dict[str, PartialAggregate] = field(default_factory=dict)
    """By name the parts of aggregates; with any, the scan gives groups of rows
    (``sql.compile.grouping.scan_grouping``)."""

    def __post_init__(self) -> None:
        columns = self.source.columns.values()
        self.definitions = {column.name: column.definition for column in columns if column.definition is not None}

    @property
    def table(self) -> Fragment:
        """Itself in FROM."""
        return ScanReference(self.source.number)
