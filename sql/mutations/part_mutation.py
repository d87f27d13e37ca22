"""Applies a mutation's commands to one part, writing a temporary part with the resulting rows.

Commands run one after another; ``sql.mutations.combined_steps`` says which share a rewrite. A query over the part alone
finds the rows that a command changes. It keeps the order of the part and gives the number of each row and, for UPDATE,
its new values::

    SELECT _part_offset, CAST(expression, 'type') FROM <the part> WHERE condition

So conditions are pruned, and subqueries run, as in any SELECT. Columns that a command does not change stay as they are
(``parts.merge.part_rewriting``), and a part in which it finds no row is hard-linked whole. The memory needed is that of
a window of rows.

The result depends only on the rows of the part, the commands and the definition, unless an expression is not
deterministic (``sql.mutations.mutation`` tells).
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
from parts.read.reached_rows import find_reached_rows
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
from sql.mutations.changed_rows import ChangedRows, read_found_rows, read_remaining_rows, read_updated_rows
from sql.mutations.combined_steps import HeldRows, find_all_columns, fits_in_memory, group_steps
from sql.mutations.mutation import ALL_ROWS
from sql.mutations.mutation_queries import MutationStep, OnePart, find_changed_rows
from sql.relations import BlockRelation, PartsRelation, RelationCatalog
from sql.run.query_engine import QueryEngine

_ROW_RULES = (RuleKind.ROWS, RuleKind.ROWS_WHERE, RuleKind.GROUP_BY)


@dataclass(frozen=True)
class PartMutator:
    """Mutates parts of one table.

    ``table`` is the name of the table in expressions; ``others`` finds the tables that subqueries read. ``check`` is
    called with the number of rows read so far, and may raise to stop.
    """

    engine: QueryEngine
    description: TableDescription
    table: str
    others: RelationCatalog
    check: Callable[[int], None] = lambda rows: None

    def apply(self, source: Part, steps: Sequence[MutationStep], directory: Path) -> None:
        """Writes the mutated part into ``directory``, which exists and is empty.

        After an error the caller removes what is left there.
        """
        part = source.adapt_to_schema(self.description.schema)
        made: Path | None = None
        places = (directory.with_name(f"{directory.name}.{number}") for number in itertools.count())
        done = 0
        try:
            for group in self._groups(steps):
                part = self._latest(part, made)
                for each in self._rewrites(part, group):
                    part, place = self._latest(part, made), next(places)
                    if self._apply_steps(part, each, place, done * source.rows):
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
        """Yields the steps in order, in groups that can share a rewrite.

        Behind UPDATEs come the MATERIALIZED columns whose expressions read what they change.
        """
        schema = self.description.schema
        for group in group_steps(steps, schema):
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
        """Splits a group into the steps of each rewrite of the part."""
        schema = self.description.schema
        is_held = len(group) > 1 and fits_in_memory(part, find_all_columns(group, schema), schema)
        return [group] if is_held else [[step] for step in group]

    def _apply_steps(self, part: Part, steps: Sequence[MutationStep], place: Path, rows_before: int) -> bool:
        """Writes the changed part to ``place``; returns ``False``, with nothing written, if nothing changes."""
        self.check(rows_before)
        place.mkdir()
        run = replace(self, check=partial(self._check_rows_read, rows_before))
        is_changed = (
            run._apply_combined(part, steps, place) if len(steps) > 1 else run._apply_one(part, steps[0], place)
        )
        if not is_changed:
            place.rmdir()
        return is_changed

    def _apply_combined(self, part: Part, steps: Sequence[MutationStep], place: Path) -> bool:
        """Applies UPDATEs and DELETEs to rows in memory, from the first that changes any."""
        rows: HeldRows | None = None
        for number, step in enumerate(steps):
            self.check(number * part.rows)
            if rows is None:
                if not self._find_rows(part, step).has_more():
                    continue
                rows = HeldRows(part, find_all_columns(steps, self.description.schema), self.description.schema)
            rows.apply_step(step, partial(self._find_rows_in, part))
        if rows is None or not (rows.changed or rows.has_lost_rows):
            return False
        changed = sorted(rows.changed)
        found, look = rows.list_remaining(changed), partial(self._check_rows_read, (len(steps) - 1) * part.rows)
        if rows.has_lost_rows:
            names = [column.name for column in list_rewritten_columns(part, self.description.schema)]
            rewrite_rows(part, place, self.description, read_found_rows(part, names, changed, found, look))
        else:
            rewrite_columns(part, place, self.description, changed, read_updated_rows(part, changed, found, look))
        return True

    def _check_rows_read(self, before: int, rows: int) -> None:
        self.check(before + rows)

    def _apply_one(self, part: Part, step: MutationStep, place: Path) -> bool:
        match step.command:
            case UpdateRows(assignments):
                return self._update(part, [name for name, _ in assignments], self._find_rows(part, step), place)
            case DeleteRows(condition) if condition == ALL_ROWS and part.rows and self._is_reached_whole(part, step):
                rewrite_rows(part, place, self.description, iter(()))
                return True
            case DeleteRows():
                return self._delete(part, self._find_rows(part, step), place)
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
                return self._rewrite_column(part, name, place, is_cleared=isinstance(step.command, ClearColumnData))

    def _update(self, part: Part, names: Sequence[str], found: ChangedRows, place: Path) -> bool:
        if not found.has_more():
            return False
        rows = self._with_sizes_checked(part, names, read_updated_rows(part, names, found, self.check))
        rewrite_columns(part, place, self.description, names, rows)
        return True

    def _with_sizes_checked(self, part: Part, names: Sequence[str], tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
        """Raises 190 for a row of a Nested structure in which another column is longer."""
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

    def _rewrite_column(self, part: Part, name: str, place: Path, *, is_cleared: bool) -> bool:
        """Writes the column's default for every row, or removes a cleared column from the part."""
        column = self.description.schema.column(name)
        is_there = name in (*part.readable_columns, *part.converted_columns)
        if not column.is_stored or ((column.default_kind == "DEFAULT" or is_cleared) and is_there is not is_cleared):
            return False
        bare = part.hide_columns([name])
        if is_cleared and {*bare.readable_columns, *bare.converted_columns} & set(self.description.schema.names):
            rewrite_columns(
                part, place, self.description, (), self._tables(part.read([], with_deleted=True)), gone=[name]
            )
        else:
            blocks = self._tables(bare.read([name], with_deleted=True))
            rewrite_columns(part, place, self.description, [name], blocks)
        return True

    def _expire(self, part: Part, at: int, place: Path) -> bool:
        """Removes what has expired; reads only the columns of the times if nothing has."""
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
            new = self._list_columns_to_add(part)
            blocks = self._tables(part.read(new, with_deleted=True))
            rewrite_columns(part, place, self.description, new, blocks, ttl=TtlCollector(ttl, codec=codec, known=known))
            return True
        gone = find_expired_columns(part, known, self.description, at)
        if ttl.list_rules(*_ROW_RULES):
            names = [column.name for column in list_rewritten_columns(part, self.description.schema)]
            left = self._tables(part.read(names)) if not ttl.has_every_row_expired(known, at) else iter(())
            rows = apply_ttl(left, self.description, at)
            rewrite_rows(part, place, self.description, rows, gone, TtlCollector(ttl, at, codec))
        else:
            self._expire_values(part, known, at, place, gone)
        return True

    def _list_columns_to_add(self, part: Part) -> list[str]:
        """Returns the columns that the part lacks and must get once its TTL is known.

        These are all columns if rows expire, else the expiring columns.
        """
        ttl = self.description.ttl
        expiring = [rule.column for rule in ttl.list_rules(RuleKind.COLUMN)]
        names = self.description.schema.stored.names if ttl.list_rules(*_ROW_RULES) else expiring
        return [name for name in names if part.lacks_columns([name])]

    def _expire_values(self, part: Part, known: PartTtl, at: int, place: Path, gone: set[str]) -> None:
        """Writes columns with expired values; columns that are ``gone`` are removed from the part."""
        ttl = self.description.ttl
        expired = [rule for rule in ttl.list_rules(RuleKind.COLUMN) if rule.may_have_expired(known, at)]
        written = [rule for rule in expired if rule.column not in gone and not part.lacks_columns([rule.column])]
        new = [name for name in self._list_columns_to_add(part) if name not in gone]
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
        """Builds an index. A compact part also gets the columns that it lacks.

        A wide part that lacks some gets no index of them.
        """
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

    def _is_reached_whole(self, part: Part, step: MutationStep) -> bool:
        return step.reach is None or find_reached_rows(part, step.reach) is True

    def _find_rows(self, part: Part, step: MutationStep) -> ChangedRows:
        return self._find_rows_in(part, OnePart(part, self.description), step)

    def _find_rows_in(self, part: Part, relation: PartsRelation | BlockRelation, step: MutationStep) -> ChangedRows:
        """Finds rows in ``relation``, which numbers them as the part does."""
        reached = step.reach is None or find_reached_rows(part, step.reach)
        if reached is False:
            return ChangedRows(iter(()))
        found = find_changed_rows(self.engine, step, relation, self.description, self.table, self.others)
        return found if reached is True else found.select(reached)
