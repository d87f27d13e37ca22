"""What a mutation's commands do to one part: from the part to a temporary one with the rows as they are to be.

One command follows the other. The rows that it changes are found by a query over the part alone, in the order of the
part, which gives the number of each row and, for UPDATE, its new values:

    SELECT _part_offset, CAST(expression, 'type') FROM <the part> WHERE condition

so conditions are pruned, and subqueries run, as in any SELECT. What the query does not name stays as it is
(``parts.rewriting``), and a part in which it finds no row is linked whole. The memory is that of a window of rows.

The result depends on the rows of the part, the commands and the definition alone, as far as the expressions do:
``sql.definitions.mutations`` tells which do not.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from parts.errors import CorruptionError, UserError
from parts.merge.expiry import expired_out, values_expired
from parts.merge.written import expired_columns
from parts.nested_columns import check_sizes
from parts.part_states import Snapshot
from parts.query_status import QueryStatus
from parts.reader import Part, RowRange, open_part
from parts.rewriting import clone_part, columns_of_rows, rewrite_columns, write_rows
from parts.row_exists import PART_OFFSET, ROW_EXISTS, ROW_EXISTS_COLUMN
from parts.schema import Column, TableDescription
from parts.ttl import PartTtl, RuleFacts, RuleKind, TtlCollector
from sql.grammar.alterations import (
    ApplyDeletedMask,
    ClearColumnData,
    ClearIndex,
    DeleteRows,
    MaterializeColumn,
    MaterializeIndex,
    MaterializeTtl,
    MutationCommand,
    UpdateRows,
)
from sql.grammar.queries import parse_expression
from sql.grammar.syntax_tree import Literal, Subquery, walk
from sql.grammar.tokens import identifier_if_needed, quote_identifier, quote_string
from sql.relation import ArrowRelation, PartsRelation, RelationCatalog, StreamedRelation, ViewRelation
from sql.run.executor import QueryEngine
from sql.run.found_rows import FoundRows, updated, without
from sql.settings.session import settings_of

_OF_ROWS = (RuleKind.ROWS, RuleKind.ROWS_WHERE, RuleKind.GROUP_BY)
_PART = "\0part"
"""The name of the part in the queries; no user can give it."""


@dataclass(frozen=True)
class Step:
    """A command with the database of tables that it names without one, and the time zone of times without one."""

    command: MutationCommand
    database: str
    timezone: str


@dataclass(frozen=True)
class MutationRun:
    """What parts of a table are mutated with. ``table`` is what expressions may call the table; ``others`` finds the
    tables that subqueries read. ``check`` hears how many rows the steps have looked at, and raises to end it."""

    engine: QueryEngine
    description: TableDescription
    table: str
    others: RelationCatalog
    check: Callable[[int], None] = lambda rows: None

    def apply(self, source: Part, steps: Sequence[Step], directory: Path) -> None:
        """Makes the part in ``directory``, which is there and empty. What is left there after an error is the
        caller's."""
        part = source.under(self.description.schema)
        made: Path | None = None
        try:
            for number, step in enumerate(self._with_materialized(steps)):
                before = number * source.rows
                self.check(before)
                place = directory.with_name(f"{directory.name}.{number}")
                place.mkdir()
                run = replace(self, check=lambda rows, before=before: self.check(before + rows))  # type: ignore[misc]
                if not run._carry_out(part, step, place):
                    place.rmdir()
                    continue
                if made is not None:
                    shutil.rmtree(made)
                made = place
                part = open_part(place, name=source.name, table_schema=self.description.schema)
            if made is None:
                clone_part(source, directory, self.description)
            else:
                os.rename(made, directory)
        except BaseException:
            for left in directory.parent.glob(f"{directory.name}.*"):
                shutil.rmtree(left, ignore_errors=True)
            raise

    def _with_materialized(self, steps: Sequence[Step]) -> Iterator[Step]:
        """With the MATERIALIZED columns whose expressions read what an UPDATE changes."""
        for step in steps:
            yield step
            if isinstance(step.command, UpdateRows):
                names = {name for name, _ in step.command.assignments}
                for column in self.description.schema.columns:
                    if column.default_kind == "MATERIALIZED" and column.default and names & set(column.default.columns):
                        yield replace(step, command=MaterializeColumn(column.name))

    def _carry_out(self, part: Part, step: Step, place: Path) -> bool:
        """``False``: the command changes nothing in the part."""
        match step.command:
            case UpdateRows(assignments):
                return self._update(part, [name for name, _ in assignments], self._found(part, step), place)
            case DeleteRows():
                return self._delete(part, self._found(part, step), place)
            case ApplyDeletedMask():
                if not part.has_deleted_rows:
                    return False
                names = [column.name for column in columns_of_rows(part, self.description.schema)]
                write_rows(part, place, self.description, self._tables(part.read(names)))
                return True
            case MaterializeTtl(_, at):
                return self._expire(part, at, place)
            case MaterializeIndex(name):
                return self._make_index(part, name, place)
            case ClearIndex(name):
                return self._clear_index(part, name, place)
            case MaterializeColumn(name) | ClearColumnData(name):
                return self._renew(part, name, place, is_cleared=isinstance(step.command, ClearColumnData))

    def _update(self, part: Part, names: Sequence[str], found: FoundRows, place: Path) -> bool:
        if not found.has_more():
            return False
        rows = self._with_sizes_checked(part, names, updated(part, names, found, self.check))
        rewrite_columns(part, place, self.description, names, rows)
        return True

    def _with_sizes_checked(self, part: Part, names: Sequence[str], tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
        """Raises 190 for a row of a Nested structure of which another column is longer."""
        structures = [structure for structure in self.description.schema.nested if {*structure} & {*names}]
        others = [name for structure in structures for name in structure if name not in names]
        begin = 0
        for table in tables:
            whole, rows = table, RowRange(begin, begin + table.num_rows)
            if others:
                read = part.read_rows(others, [rows], max_batch_rows=table.num_rows, with_deleted=True)
                for column, field in zip((found := pa.Table.from_batches(read)).columns, found.schema, strict=True):
                    whole = whole.append_column(field, column)
            check_sizes(whole.combine_chunks(), structures)
            yield table
            begin = rows.end

    def _delete(self, part: Part, found: FoundRows, place: Path) -> bool:
        if not found.has_more():
            return False
        names = [column.name for column in columns_of_rows(part, self.description.schema)]
        write_rows(part, place, self.description, without(part, names, found, self.check))
        return True

    def _renew(self, part: Part, name: str, place: Path, *, is_cleared: bool) -> bool:
        """Writes the column's default for every row; where it is to be cleared the part is left without it."""
        column = self.description.schema.column(name)
        is_there = name in (*part.readable, *part.converted)
        if not column.is_stored or ((column.default_kind == "DEFAULT" or is_cleared) and is_there is not is_cleared):
            return False
        bare = part.without([name])
        if is_cleared and {*bare.readable, *bare.converted} & set(self.description.schema.names):
            rewrite_columns(
                part, place, self.description, (), self._tables(part.read([], with_deleted=True)), gone=[name]
            )
        else:
            blocks = self._tables(bare.read([name], with_deleted=True))
            rewrite_columns(part, place, self.description, [name], blocks)
        return True

    def _expire(self, part: Part, at: int, place: Path) -> bool:
        """Only the columns that tell the times are read where nothing has expired."""
        ttl, codec = self.description.ttl, part.ttl.codec
        known = part.known_ttl(ttl)
        if not ttl.knows(known):
            found = TtlCollector(ttl, codec=codec)
            names = list(dict.fromkeys(name for rule in ttl.rules for name in rule.columns))
            for block in self._tables(part.read(names)):
                found.update(block)
            known = found.found()
        elif not ttl.may_have_expired(known, at):
            return False
        if not ttl.may_have_expired(known, at):
            new = self._to_take_up(part)
            blocks = self._tables(part.read(new, with_deleted=True))
            rewrite_columns(part, place, self.description, new, blocks, ttl=TtlCollector(ttl, codec=codec, known=known))
            return True
        gone = expired_columns(part, known, self.description, at)
        if ttl.of_kind(*_OF_ROWS):
            names = [column.name for column in columns_of_rows(part, self.description.schema)]
            left = self._tables(part.read(names)) if not ttl.is_gone(known, at) else iter(())
            rows = expired_out(left, self.description, at)
            write_rows(part, place, self.description, rows, gone, TtlCollector(ttl, at, codec))
        else:
            self._expire_values(part, known, at, place, gone)
        return True

    def _to_take_up(self, part: Part) -> list[str]:
        """The columns that a part lacks and has once its TTL is known: all, if rows expire, else those that do."""
        ttl = self.description.ttl
        expiring = [rule.column for rule in ttl.of_kind(RuleKind.COLUMN)]
        names = self.description.schema.stored.names if ttl.of_kind(*_OF_ROWS) else expiring
        return [name for name in names if part.lacks([name])]

    def _expire_values(self, part: Part, known: PartTtl, at: int, place: Path, gone: set[str]) -> None:
        """Writes the columns of which something has expired; the part is left without those that are ``gone``."""
        ttl = self.description.ttl
        expired = [rule for rule in ttl.of_kind(RuleKind.COLUMN) if rule.may_have_expired(known, at)]
        written = [rule for rule in expired if rule.column not in gone and not part.lacks([rule.column])]
        new = [name for name in self._to_take_up(part) if name not in gone]
        names = [*new, *(rule.column for rule in written)]
        defaults = {name for rule in written if rule.default is not None for name in rule.default.columns}
        applied = [rule for rule in expired if rule in written or rule.column in defaults]
        facts = {text: fact for text, fact in known.rules.items() if text not in {rule.text for rule in written}}
        facts.update((rule.text, RuleFacts(is_whole=False)) for rule in expired if rule not in written)
        found = TtlCollector(ttl, at, part.ttl.codec, PartTtl(facts))

        def blocks() -> Iterator[pa.Table]:
            times = (name for rule in applied for name in rule.columns)
            read = list(dict.fromkeys([*names, *(rule.column for rule in applied), *times, *defaults]))
            tables = self._tables(part.read(read, with_deleted=True))
            for block in values_expired(tables, applied, self.description, at):
                found.update(block)
                yield block.select(names)

        rewrite_columns(part, place, self.description, names, blocks(), gone, ttl=found)

    def _make_index(self, part: Part, name: str, place: Path) -> bool:
        """A compact part takes up the columns that it lacks; a wide one that lacks some gets no index of them."""
        for index in self.description.indexes:
            if index.name == name and part.skip_index(index) is None:
                new = [column for column in index.key.columns if part.lacks([column])]
                if new and part.part_type == "Wide":
                    return False
                blocks = self._tables(part.read(new, with_deleted=True))
                rewrite_columns(part, place, self.description, new, blocks, indexes=[name])
                return True
        return False

    def _clear_index(self, part: Part, name: str, place: Path) -> bool:
        if part.index_file is None or all(index.name != name for index in part.index_file):
            return False
        others = tuple(index for index in self.description.indexes if index.name != name)
        blocks = self._tables(part.read([], with_deleted=True))
        rewrite_columns(part, place, replace(self.description, indexes=others), (), blocks)
        return True

    def _tables(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
        rows = 0
        for batch in batches:
            self.check(rows)
            yield pa.Table.from_batches([batch])
            rows += batch.num_rows

    def _found(self, part: Part, step: Step) -> FoundRows:
        result = self.engine.select(
            changes_query(self.description, self.table, step.command),
            catalog=_WithPart(self.others, _OnePart(part, self.description), step.database),
            settings=settings_of({}, step.timezone),
            database=step.database,
            constants={"currentDatabase": step.database, "timezone": step.timezone},
        )
        return FoundRows(result.batches)


def check_step(
    engine: QueryEngine, step: Step, table: PartsRelation, name: str, others: RelationCatalog, status: QueryStatus
) -> None:
    """Raises what is wrong with the expressions of a command, as far as no row must be looked at."""
    if isinstance(step.command, UpdateRows | DeleteRows):
        engine.describe(
            changes_query(table.description, name, step.command),
            catalog=_WithPart(others, table, step.database),
            settings=settings_of({}, step.timezone),
            database=step.database,
            constants={"currentDatabase": step.database, "timezone": step.timezone},
            status=status,
        )
    for name, expression in step.command.assignments if isinstance(step.command, UpdateRows) else ():
        node = parse_expression(expression)
        type_ = updated_column(table.description, name).type
        if isinstance(node, Literal) and node.value is None and not type_.is_nullable:
            raise UserError("CANNOT_CONVERT_TYPE", f"Cannot convert NULL to a non-nullable type: {name} is {type_}")
        if isinstance(node, Literal):
            query = f"SELECT CAST({_whole(expression)}, {quote_string(type_.name)})"
            engine.select(query, catalog=others, status=status).read_all()


def changes_query(description: TableDescription, table: str, command: MutationCommand) -> str:
    """The number and the new values of each row that an UPDATE or a DELETE changes."""
    assert isinstance(command, UpdateRows | DeleteRows), command
    values = [PART_OFFSET]
    texts = [command.condition]
    for name, expression in command.assignments if isinstance(command, UpdateRows) else ():
        type_ = updated_column(description, name).type
        values.append(f"CAST({_whole(expression)}, {quote_string(type_.name)})")
        texts.append(expression)
    query = (
        f"SELECT {', '.join(values)} FROM {quote_identifier(_PART)} AS {identifier_if_needed(table)} "
        f"WHERE {_whole(command.condition)}"
    )
    if any(isinstance(node, Subquery) for text in texts for node in walk(parse_expression(text))):
        query += f" ORDER BY {PART_OFFSET}"  # a join may mix what it reads
    return query


def updated_column(description: TableDescription, name: str) -> Column:
    return ROW_EXISTS_COLUMN if name == ROW_EXISTS else description.schema.column(name)


def _whole(expression: str) -> str:
    """In brackets, behind a comment that it may end with."""
    return f"({expression}\n)"


# What the queries read ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _OnePart:
    """Implements ``sql.relation.PartsRelation``."""

    part: Part
    description: TableDescription

    def snapshot(self, *, sequential_consistency: bool = False) -> Snapshot:
        return Snapshot([self.part], lambda _: None)

    def report_corruption(self, error: CorruptionError) -> None:
        """Who mutates the part gets the error."""


@dataclass(frozen=True)
class _WithPart:
    """Implements ``sql.relation.RelationCatalog``."""

    others: RelationCatalog
    part: PartsRelation
    database: str

    def relation(self, database: str | None, table: str) -> PartsRelation | ArrowRelation | ViewRelation:
        if table != _PART:
            return self.others.relation(database or self.database, table)
        # Rows have numbers here, those of a small table too.
        return replace(self.part, description=replace(self.part.description, has_parts=True))  # type: ignore[type-var]

    def files(self, path: str, format: str = "", structure: str = "") -> StreamedRelation:
        return self.others.files(path, format, structure)

    def other_tables(self, function: object) -> object:
        return self.others.other_tables(function)
