"""What a mutation's commands do to one part: from the part to a temporary one with the rows as they are to be.

One command follows the other; ``sql.mutations.combined_steps`` tells which share a rewrite. The rows that a command
changes are found by a query over the part alone, in the order of the part, which gives the number of each row and, for
UPDATE, its new values:

    SELECT _part_offset, CAST(expression, 'type') FROM <the part> WHERE condition

so conditions are pruned, and subqueries run, as in any SELECT. What the query does not name stays as it is
(``parts.merge.part_rewriting``), and a part in which it finds no row is linked whole. The memory is that of a window of
rows.

The result depends on the rows of the part, the commands and the definition alone, as far as the expressions do:
``sql.mutations.mutation`` tells which do not.
"""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pyarrow as pa

from parts.merge.part_rewriting import clone_part, list_rewritten_columns, rewrite_columns, rewrite_rows
from parts.merge.ttl_expiry import apply_ttl, reset_expired_values
from parts.merge.written_columns import find_expired_columns
from parts.read.batch_plan import (
    RowRange,
)
from parts.read.part_reader import (
    Part,
    open_part,
)
from parts.table.nested_columns import check_array_sizes
from parts.table.table_description import TableDescription
from parts.table.ttl_rules import PartTtl, RuleKind, RuleTimes, TtlCollector
from sql.grammar.statements.alter_commands import (
    ApplyDeletedMask,
    ClearColumnData,
    ClearIndex,
    DeleteRows,
    MaterializeColumn,
    MaterializeIndex,
    MaterializeTtl,
    UpdateRows,
)
from sql.mutations.changed_rows import ChangedRows, read_remaining_rows, read_updated_rows, remaining
from sql.mutations.combined_steps import HeldRows, columns_of_all, fits, together
from sql.mutations.mutation_queries import MutationStep, OnePart, found_rows
from sql.relations import BlockRelation, PartsRelation, RelationCatalog
from sql.run.query_engine import QueryEngine

_OF_ROWS = (RuleKind.ROWS, RuleKind.ROWS_WHERE, RuleKind.GROUP_BY)


@dataclass(frozen=True)
class PartMutator:
    """What parts of a table are mutated with. ``table`` is what expressions may call the table; ``others`` finds the
    tables that subqueries read. ``check`` hears how many rows the steps have looked at, and raises to end it."""

    engine: QueryEngine
    description: TableDescription
    table: str
    others: RelationCatalog
    check: Callable[[int], None] = lambda rows: None

    def apply(self, source: Part, steps: Sequence[MutationStep], directory: Path) -> None:
        """Makes the part in ``directory``, which is there and empty. What is left there after an error is the
        caller's."""
        part = source.under(self.description.schema)
        made: Path | None = None
        places = (directory.with_name(f"{directory.name}.{number}") for number in itertools.count())
        done = 0
        try:
            for group in self._groups(steps):
                part = self._latest(part, made)
                for each in self._rewrites(part, group):
                    part, place = self._latest(part, made), next(places)
                    if self._carry_out(part, each, place, done * source.rows):
                        if made is not None:
                            shutil.rmtree(made)
                        made = place
                    done += len(each)
            if made is None:
                clone_part(source, directory, self.description)
            else:
                os.rename(made, directory)
        except BaseException:
            for left in directory.parent.glob(f"{directory.name}.*"):
                shutil.rmtree(left, ignore_errors=True)
            raise

    def _groups(self, steps: Sequence[MutationStep]) -> Iterator[list[MutationStep]]:
        """The steps in their order, those side by side that may be carried out together in one list. Behind UPDATEs
        come the MATERIALIZED columns whose expressions read what they change."""
        schema = self.description.schema
        for group in together(steps, schema):
            yield group
            commands = (step.command for step in group)
            names = {name for c in commands if isinstance(c, UpdateRows) for name, _ in c.assignments}
            for column in schema.columns if names else ():
                if column.default_kind == "MATERIALIZED" and column.default and names & set(column.default.columns):
                    yield [replace(group[-1], command=MaterializeColumn(column.name))]

    def _latest(self, part: Part, made: Path | None) -> Part:
        if made is None or part.path == made:
            return part
        return open_part(made, name=part.name, table_schema=self.description.schema)

    def _rewrites(self, part: Part, group: list[MutationStep]) -> list[list[MutationStep]]:
        """The steps that each rewrite of the part carries out."""
        schema = self.description.schema
        is_held = len(group) > 1 and fits(part, columns_of_all(group, schema), schema)
        return [group] if is_held else [[step] for step in group]

    def _carry_out(self, part: Part, steps: Sequence[MutationStep], place: Path, rows_before: int) -> bool:
        """``False``: they change nothing in the part, and nothing is at ``place``."""
        self.check(rows_before)
        place.mkdir()
        run = replace(self, check=partial(self._look_beyond, rows_before))
        is_changed = run._together(part, steps, place) if len(steps) > 1 else run._alone(part, steps[0], place)
        if not is_changed:
            place.rmdir()
        return is_changed

    def _together(self, part: Part, steps: Sequence[MutationStep], place: Path) -> bool:
        """UPDATEs and DELETEs, on rows in memory from the first on that changes any."""
        rows: HeldRows | None = None
        for number, step in enumerate(steps):
            self.check(number * part.rows)
            if rows is None:
                if not self._found(part, step).has_more():
                    continue
                rows = HeldRows(part, columns_of_all(steps, self.description.schema), self.description.schema)
            rows.carry_out(step, self._rows_of)
        if rows is None or not (rows.changed or rows.has_lost_rows):
            return False
        changed = sorted(rows.changed)
        found, look = rows.found(changed), partial(self._look_beyond, (len(steps) - 1) * part.rows)
        if rows.has_lost_rows:
            names = [column.name for column in list_rewritten_columns(part, self.description.schema)]
            rewrite_rows(part, place, self.description, remaining(part, names, changed, found, look))
        else:
            rewrite_columns(part, place, self.description, changed, read_updated_rows(part, changed, found, look))
        return True

    def _look_beyond(self, before: int, rows: int) -> None:
        self.check(before + rows)

    def _alone(self, part: Part, step: MutationStep, place: Path) -> bool:
        match step.command:
            case UpdateRows(assignments):
                return self._update(part, [name for name, _ in assignments], self._found(part, step), place)
            case DeleteRows():
                return self._delete(part, self._found(part, step), place)
            case ApplyDeletedMask():
                if not part.has_deleted_rows:
                    return False
                names = [column.name for column in list_rewritten_columns(part, self.description.schema)]
                rewrite_rows(part, place, self.description, self._tables(part.read(names)))
                return True
            case MaterializeTtl(_, at):
                return self._expire(part, at, place)
            case MaterializeIndex(name):
                return self._make_index(part, name, place)
            case ClearIndex(name):
                return self._clear_index(part, name, place)
            case MaterializeColumn(name) | ClearColumnData(name):
                return self._renew(part, name, place, is_cleared=isinstance(step.command, ClearColumnData))

    def _update(self, part: Part, names: Sequence[str], found: ChangedRows, place: Path) -> bool:
        if not found.has_more():
            return False
        rows = self._with_sizes_checked(part, names, read_updated_rows(part, names, found, self.check))
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
            check_array_sizes(whole.combine_chunks(), structures)
            yield table
            begin = rows.end

    def _delete(self, part: Part, found: ChangedRows, place: Path) -> bool:
        if not found.has_more():
            return False
        names = [column.name for column in list_rewritten_columns(part, self.description.schema)]
        rewrite_rows(part, place, self.description, read_remaining_rows(part, names, found, self.check))
        return True

    def _renew(self, part: Part, name: str, place: Path, *, is_cleared: bool) -> bool:
        """Writes the column's default for every row; where it is to be cleared the part is left without it."""
        column = self.description.schema.column(name)
        is_there = name in (*part.readable_columns, *part.converted_columns)
        if not column.is_stored or ((column.default_kind == "DEFAULT" or is_cleared) and is_there is not is_cleared):
            return False
        bare = part.without_columns([name])
        if is_cleared and {*bare.readable_columns, *bare.converted_columns} & set(self.description.schema.names):
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
        known = part.get_applicable_ttl(ttl)
        if not ttl.knows(known):
            found = TtlCollector(ttl, codec=codec)
            names = list(dict.fromkeys(name for rule in ttl.rules for name in rule.columns))
            for block in self._tables(part.read(names)):
                found.update(block)
            known = found.to_part_ttl()
        elif not ttl.may_have_expired(known, at):
            return False
        if not ttl.may_have_expired(known, at):
            new = self._to_take_up(part)
            blocks = self._tables(part.read(new, with_deleted=True))
            rewrite_columns(part, place, self.description, new, blocks, ttl=TtlCollector(ttl, codec=codec, known=known))
            return True
        gone = find_expired_columns(part, known, self.description, at)
        if ttl.of_kind(*_OF_ROWS):
            names = [column.name for column in list_rewritten_columns(part, self.description.schema)]
            left = self._tables(part.read(names)) if not ttl.has_every_row_expired(known, at) else iter(())
            rows = apply_ttl(left, self.description, at)
            rewrite_rows(part, place, self.description, rows, gone, TtlCollector(ttl, at, codec))
        else:
            self._expire_values(part, known, at, place, gone)
        return True

    def _to_take_up(self, part: Part) -> list[str]:
        """The columns that a part lacks and has once its TTL is known: all, if rows expire, else those that do."""
        ttl = self.description.ttl
        expiring = [rule.column for rule in ttl.of_kind(RuleKind.COLUMN)]
        names = self.description.schema.stored.names if ttl.of_kind(*_OF_ROWS) else expiring
        return [name for name in names if part.lacks_columns([name])]

    def _expire_values(self, part: Part, known: PartTtl, at: int, place: Path, gone: set[str]) -> None:
        """Writes the columns of which something has expired; the part is left without those that are ``gone``."""
        ttl = self.description.ttl
        expired = [rule for rule in ttl.of_kind(RuleKind.COLUMN) if rule.may_have_expired(known, at)]
        written = [rule for rule in expired if rule.column not in gone and not part.lacks_columns([rule.column])]
        new = [name for name in self._to_take_up(part) if name not in gone]
        names = [*new, *(rule.column for rule in written)]
        defaults = {name for rule in written if rule.default is not None for name in rule.default.columns}
        applied = [rule for rule in expired if rule in written or rule.column in defaults]
        facts = {text: fact for text, fact in known.rules.items() if text not in {rule.text for rule in written}}
        facts.update((rule.text, RuleTimes(is_whole=False)) for rule in expired if rule not in written)
        found = TtlCollector(ttl, at, part.ttl.codec, PartTtl(facts))

        def blocks() -> Iterator[pa.Table]:
            times = (name for rule in applied for name in rule.columns)
            read = list(dict.fromkeys([*names, *(rule.column for rule in applied), *times, *defaults]))
            tables = self._tables(part.read(read, with_deleted=True))
            for block in reset_expired_values(tables, applied, self.description, at):
                found.update(block)
                yield block.select(names)

        rewrite_columns(part, place, self.description, names, blocks(), gone, ttl=found)

    def _make_index(self, part: Part, name: str, place: Path) -> bool:
        """A compact part takes up the columns that it lacks; a wide one that lacks some gets no index of them."""
        for index in self.description.indexes:
            if index.name == name and part.read_skip_index(index) is None:
                new = [column for column in index.key.columns if part.lacks_columns([column])]
                if new and part.part_type == "Wide":
                    return False
                blocks = self._tables(part.read(new, with_deleted=True))
                rewrite_columns(part, place, self.description, new, blocks, indexes=[name])
                return True
        return False

    def _clear_index(self, part: Part, name: str, place: Path) -> bool:
        if part.skip_index_file is None or all(index.name != name for index in part.skip_index_file):
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

    def _found(self, part: Part, step: MutationStep) -> ChangedRows:
        return self._rows_of(OnePart(part, self.description), step)

    def _rows_of(self, relation: PartsRelation | BlockRelation, step: MutationStep) -> ChangedRows:
        return found_rows(self.engine, step, relation, self.description, self.table, self.others)
