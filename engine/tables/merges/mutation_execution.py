"""Mutates one part into a temporary one.

Expressions of users are evaluated here, so where merges have processes of their own this is done there too: the order
says all that the other process must know, and the parts that subqueries read are held by this one meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from engine.tables.merges.part_in_progress import track_new_part
from engine.tables.part_log import PartEventType
from engine.tables.services import MutationOrder, MutationReadTable
from engine.tables.table_data import TableData
from engine.tables.table_definition import TableDefinition
from parts.common.errors import CancelledError, UserError
from parts.common.part_name import PartName
from parts.merge import MergeProgress
from parts.read.part_reader import Part, open_part
from parts.store.part_states import Snapshot
from parts.table.table_description import TableDescription
from sql.mutations.mutation import Mutation
from sql.mutations.part_mutation import PartMutator
from sql.relations import PartsRelation, PartsSnapshot, StreamedRelation
from sql.run.query_engine import QueryEngine


class ReadableTable(Protocol):
    """A table that a subquery may read."""

    @property
    def definition(self) -> TableDefinition: ...

    def snapshot(self) -> PartsSnapshot: ...


_ENGINE = QueryEngine()
"""Of the process: the parts of a table are mutated by one plan."""
FindTable = Callable[[str, str], ReadableTable | None]
"""By database and name. Raises 81 (UNKNOWN_DATABASE)."""


def mutate_to_temporary(
    table: TableData,
    source: Part,
    mutations: Sequence[Mutation],
    result: PartName,
    find_table: FindTable,
    *,
    is_cancelled: Callable[[], bool] | None = None,
) -> Path:
    """The directory of a part with the rows of ``source`` as all of the mutations, in order, leave them: not yet in the
    store. ``source`` is held by the caller. Raises ``CorruptionError``, ``CancelledError``, and ``UserError`` for what
    an expression makes of a row; then nothing is left.
    """
    definition = table.definition
    with track_new_part(table, PartEventType.MUTATE, [source], result) as making:
        shown, directory = making.shown, making.directory

        def on_progress(progress: MergeProgress) -> None:
            shown.rows_written = progress.rows_written
            shown.progress = progress.fraction

        with ExitStack() as held:
            names = {name for mutation in mutations for name in mutation.tables}
            read = [(other.definition, held.enter_context(_held(other))) for other in _tables(names, find_table)]
            order = MutationOrder(
                definition.database,
                definition.create,
                definition.data_path,
                source.name,
                tuple(step for mutation in mutations for step in mutation.steps(source.name.partition_id)),
                tuple(_table_read(other, parts) for other, parts in read),
                directory,
            )
            stop = is_cancelled or table.is_cancelled
            if table.services.merge_elsewhere is not None:
                table.services.merge_elsewhere(order, stop, on_progress)
            else:
                others = {(d.database, d.name): HeldPartsRelation(d.description, parts) for d, parts in read}
                _carry_out(order, source, definition, HeldPartsCatalog(others), stop, on_progress)
    return directory


def run_mutation(
    order: MutationOrder,
    definition_of: Callable[[MutationOrder | MutationReadTable], TableDefinition],
    is_cancelled: Callable[[], bool],
    on_progress: Callable[[MergeProgress], None],
) -> None:
    """As the order says, in a process that has no tables."""
    definition = definition_of(order)
    (source,) = open_active_parts(definition, [order.source])
    read = {}
    for item in order.reads:
        other = definition_of(item)
        read[other.database, other.name] = HeldPartsRelation(other.description, open_active_parts(other, item.parts))
    _carry_out(order, source, definition, HeldPartsCatalog(read), is_cancelled, on_progress)


def open_active_parts(definition: TableDefinition, names: Iterable[PartName]) -> list[Part]:
    schema = definition.description.schema
    return [open_part(definition.data_path / str(name), name=name, table_schema=schema) for name in names]


def _carry_out(
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
        rows = min(rows, total)  # a step may bring another with it
        on_progress(MergeProgress(rows, rows, total))

    run = PartMutator(_ENGINE, definition.description, definition.name, others, check)
    run.apply(source, order.steps, order.directory)


def _tables(names: Iterable[tuple[str, str]], find_table: FindTable) -> Iterator[ReadableTable]:
    for database, name in sorted(names):
        table = find_table(database, name)
        if table is not None:  # else it is a name of WITH, or unknown, which the query says
            yield table


@contextmanager
def _held(table: ReadableTable) -> Iterator[Sequence[Part]]:
    snapshot = table.snapshot()
    try:
        yield snapshot.parts
    finally:
        snapshot.release()


def _table_read(definition: TableDefinition, parts: Sequence[Part]) -> MutationReadTable:
    names = tuple(part.name for part in parts)
    return MutationReadTable(definition.database, definition.create, definition.data_path, names)


@dataclass(frozen=True)
class HeldPartsRelation:
    """Implements ``sql.relations.PartsRelation`` with parts that somebody holds."""

    description: TableDescription
    parts: Sequence[Part]

    def snapshot(self, *, sequential_consistency: bool = False) -> PartsSnapshot:
        return Snapshot([part.under(self.description.schema) for part in self.parts], lambda _: None)


@dataclass(frozen=True)
class HeldPartsCatalog:
    """Implements ``sql.relations.RelationCatalog``."""

    tables: Mapping[tuple[str, str], HeldPartsRelation]

    def relation(self, database: str | None, table: str) -> PartsRelation:
        assert database is not None
        found = self.tables.get((database, table))
        if found is None:
            raise UserError("UNKNOWN_TABLE", f"Table {database}.{table} does not exist, or a mutation cannot read it")
        return found

    def files(self, path: str, format: str = "", structure: str = "") -> StreamedRelation:
        raise UserError("NOT_IMPLEMENTED", f"A mutation does not read the file {path!r}")

    def other_tables(self, function: object) -> object:
        raise UserError("NOT_IMPLEMENTED", "Other servers are not read here")
