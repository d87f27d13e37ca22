"""Mutates one part into a temporary one, here or in a merge process.

Mutations evaluate expressions of users, so they run in merge processes where merges do. The order says all that the
other process must know. This process holds the parts that subqueries read meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Protocol

from engine.tables.held_parts import HeldPartsRelation
from engine.tables.merges.part_in_progress import track_new_part
from engine.tables.part_log import PartEventType
from engine.tables.services import MutationOrder, MutationReadTable
from engine.tables.table_data import TableData
from engine.tables.table_definition import TableDefinition
from parts.common.errors import CancelledError, UserError
from parts.common.part_name import PartName
from parts.merge import MergeProgress
from parts.read.part_reader import Part, open_part
from parts.read.reached_rows import fill_position_in
from sql.mutations.mutation import Mutation
from sql.mutations.part_mutation import PartMutator
from sql.relations import UNKNOWN_POSITIONS, PartsRelation, PartsSnapshot, StreamedRelation, TablePositions
from sql.run.query_engine import QueryEngine


class ReadableTable(Protocol):
    """A table that a subquery may read."""

    @property
    def definition(self) -> TableDefinition:
        """The table's definition."""

    def snapshot(self) -> PartsSnapshot:
        """Returns the table's active parts, held."""


_ENGINE = QueryEngine()
"""One engine per process, so that one plan serves all parts of a table."""
FindTable = Callable[[str, str], ReadableTable | None]
"""Finds a table by database and name. Raises 81 (UNKNOWN_DATABASE)."""


def mutate_to_temporary(
    table: TableData,
    source: Part,
    mutations: Sequence[Mutation],
    result: PartName,
    find_table: FindTable,
    *,
    is_cancelled: Callable[[], bool] | None = None,
) -> Path:
    """Applies the mutations in order to a part; returns the directory of the result, not yet in the store.

    The caller holds ``source``. Raises ``CorruptionError``, ``CancelledError``, and ``UserError`` for the errors of
    expressions; then nothing is left on disk.
    """
    definition = table.definition
    with track_new_part(table, PartEventType.MUTATE, [source], result) as making:
        shown, directory = making.shown, making.directory

        def on_progress(progress: MergeProgress) -> None:
            shown.rows_written = progress.rows_written
            shown.progress = progress.fraction

        with ExitStack() as held:
            names = {name for mutation in mutations for name in mutation.tables}
            read = [
                (other.definition, held.enter_context(_hold_snapshot(other)))
                for other in _find_tables(names, find_table)
            ]
            order = MutationOrder(
                definition.database,
                definition.create,
                definition.data_path,
                source.name,
                tuple(step for mutation in mutations for step in mutation.steps(source.name.partition_id)),
                tuple(_describe_read(other, parts) for other, parts in read),
                directory,
                source.row_version.position,
            )
            stop = is_cancelled or table.is_cancelled
            if table.services.run_in_merge_process is not None:
                table.services.run_in_merge_process(order, stop, on_progress)
            else:
                others = {(d.database, d.name): HeldPartsRelation(d.description, parts) for d, parts in read}
                _run_order(order, source, definition, HeldPartsCatalog(others), stop, on_progress)
    return directory


def run_mutation(
    order: MutationOrder,
    definition_of: Callable[[MutationOrder | MutationReadTable], TableDefinition],
    is_cancelled: Callable[[], bool],
    on_progress: Callable[[MergeProgress], None],
) -> None:
    """Runs an order in a process that has no tables."""
    definition = definition_of(order)
    (source,) = open_active_parts(definition, [order.source], [order.position])
    read = {}
    for item in order.reads:
        other = definition_of(item)
        read[other.database, other.name] = HeldPartsRelation(other.description, open_active_parts(other, item.parts))
    _run_order(order, source, definition, HeldPartsCatalog(read), is_cancelled, on_progress)


def open_active_parts(
    definition: TableDefinition, names: Sequence[PartName], positions: Sequence[int | None] = ()
) -> list[Part]:
    """Opens parts of a table from its data directory. ``positions``: those that their files may lack."""
    schema = definition.description.schema
    parts = [open_part(definition.data_path / str(name), name=name, table_schema=schema) for name in names]
    return [
        fill_position_in(part, position) if position and part.row_version.lacks_position else part
        for part, position in zip_longest(parts, positions)
    ]


def _run_order(
    order: MutationOrder,
    source: Part,
    definition: TableDefinition,
    others: HeldPartsCatalog,
    is_cancelled: Callable[[], bool],
    on_progress: Callable[[MergeProgress], None],
) -> None:
    total = len(order.steps) * source.rows

    def check(rows: int) -> None:
        if is_cancelled():
            raise CancelledError("Mutation was cancelled")
        rows = min(rows, total)  # a step may add another one
        on_progress(MergeProgress(rows, rows, total))

    run = PartMutator(_ENGINE, definition.description, definition.name, others, check)
    run.apply(source, order.steps, order.directory)


def _find_tables(names: Iterable[tuple[str, str]], find_table: FindTable) -> Iterator[ReadableTable]:
    for database, name in sorted(names):
        table = find_table(database, name)
        if table is not None:  # otherwise it is a name of WITH, or unknown, which the query reports
            yield table


@contextmanager
def _hold_snapshot(table: ReadableTable) -> Iterator[Sequence[Part]]:
    snapshot = table.snapshot()
    try:
        yield snapshot.parts
    finally:
        snapshot.release()


def _describe_read(definition: TableDefinition, parts: Sequence[Part]) -> MutationReadTable:
    names = tuple(part.name for part in parts)
    return MutationReadTable(definition.database, definition.create, definition.data_path, names)


@dataclass(frozen=True)
class HeldPartsCatalog:
    """The tables that subqueries of a mutation may read. Implements ``sql.relations.RelationCatalog``."""

    tables: Mapping[tuple[str, str], HeldPartsRelation]

    def relation(self, database: str | None, table: str) -> PartsRelation:
        """Returns the table. Raises 60 (UNKNOWN_TABLE)."""
        assert database is not None
        found = self.tables.get((database, table))
        if found is None:
            raise UserError("UNKNOWN_TABLE", f"Table {database}.{table} does not exist, or a mutation cannot read it")
        return found

    def find_file(self, path: str, format: str = "", structure: str = "") -> StreamedRelation:
        """Raises 48: a mutation reads no files."""
        raise UserError("NOT_IMPLEMENTED", f"A mutation does not read the file {path!r}")

    def find_function_tables(self, function: object) -> object:
        """Raises 48: a mutation reads no other servers."""
        raise UserError("NOT_IMPLEMENTED", "Other servers are not read here")

    @property
    def positions(self) -> TablePositions:
        """None: every question is refused (48)."""
        return UNKNOWN_POSITIONS
