"""An INSERT into a table that materialized views read: each of its blocks goes through their queries too.

What a view makes of a block goes, column by column of equal names, to the view's target, and from there to the views of
the target. A query sees the block wherever it names the table, in joins and subqueries too; other tables as they are.

Order, and what it promises
- Every block, and what the views make of it, is written as temporary parts first. A query that fails, a value that does
  not convert, a constraint, a full disk: nothing becomes visible anywhere. The error names the view.
- Then the table's own parts are committed, and after them those of the targets, view by view. No target is ahead of its
  table: what fails or dies in between leaves rows in the table that are not acknowledged, and that some targets lack.
  The other order would leave rows in targets that no table explains.
- Whoever repeats the INSERT completes it. A block of a target is known not by its rows but by the block that it was
  made of (or by the token of the INSERT) and the name of the view: a target that remembers blocks takes each exactly
  once, whether the table found its own block new or known, here or on another replica. Two blocks of which a view makes
  equal rows are two. A target that remembers none takes what is repeated again, as in ClickHouse.
- Rows that come otherwise (ATTACH, REPLACE and MOVE PARTITION, fetches, mutations) do not pass through views.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Protocol

import pyarrow as pa

from engine.context import Context
from engine.interpreter.queries import columns_needed, run_over
from engine.tables.insert_sink import InsertOutcome, digest
from engine.tables.options import InsertOptions
from engine.tables.table import Table
from parts.content_hash import block_hash
from parts.errors import PandoError, UserError
from parts.schema import TableDescription
from sql.definitions.defaults import cast_block, complete_block, insertable_columns
from sql.grammar.alterations import AlterCommand, DropColumn
from sql.relation import BlockRelation

_MOST_LEVELS = 32
"""Of views that read the targets of views."""
_PUSHING = ": while pushing to view "


class Sink(Protocol):
    """What an ``InsertSink`` does."""

    @property
    def description(self) -> TableDescription: ...

    def write(self, block: pa.Table, token: str = "") -> None: ...

    def commit(self) -> InsertOutcome: ...

    def abort(self) -> None: ...


def begin_insert(table: Table, options: InsertOptions, context: Context, level: int = 0) -> Sink:
    """Of the table and all its views. Raises 48 where the rows would wait for a transaction, 306 in a circle."""
    views = context.server.catalog.views_of(table)
    if table.definition.is_proxy:
        name = table.definition.engine_name
        raise UserError("NOT_IMPLEMENTED", f"Table engine {name} as target of a materialized view is not supported")
    if not views:
        return table.begin_insert(options)
    name = table.definition.full_name
    if options.transaction:
        raise UserError(
            "NOT_IMPLEMENTED",
            f"INSERT of a transaction into {name} is not supported: its rows would have to go to the materialized "
            f"views {', '.join(view.definition.full_name for view in views)} in the same step",
        )
    if level >= _MOST_LEVELS:
        raise UserError("TOO_DEEP_RECURSION", f"Materialized views over {name} lead to more than {_MOST_LEVELS} others")
    return _ViewedInsert(table, views, replace(options, is_whole=False), context, level)


def stored_table(table: Table, context: Context) -> Table:
    """The table itself, or where a materialized view has its rows. Raises 60 when that is gone."""
    for _ in range(_MOST_LEVELS):
        view = table.definition.create.view
        if view is None or not view.is_materialized:
            break
        table = context.server.catalog.table(*table.definition.target)
    return table


def refuse_columns_of_views(table: Table, commands: Sequence[AlterCommand], context: Context) -> None:
    """Raises 524 for DROP COLUMN of one that materialized views read. CLEAR is allowed, as in ClickHouse."""
    dropped = {command.name for command in commands if isinstance(command, DropColumn) and not command.clear}
    for view in context.server.catalog.views_of(table) if dropped else ():
        if read := columns_needed(view.definition.create.as_select, table, dropped, context):
            raise UserError(
                "ALTER_OF_COLUMN_IS_FORBIDDEN",
                f"Trying to ALTER DROP column {min(read)} which is referenced by materialized view "
                f"{view.definition.full_name}",
            )


class _ViewedInsert:
    """Into a table with views."""

    def __init__(
        self, table: Table, views: Sequence[Table], options: InsertOptions, context: Context, level: int
    ) -> None:
        self._table = table
        self._options = options
        self._blocks = 0
        self._branches: list[_Branch] = []
        self._own = table.begin_insert(options)
        self.description = self._own.description
        try:
            for view in views:
                with _naming(view):
                    self._branches.append(_branch(view, options, context, level))
        except BaseException:
            self.abort()
            raise

    def write(self, block: pa.Table, token: str = "") -> None:
        if block.num_rows == 0:
            return
        self._own.write(block, token)
        token = token or self._token(block)
        self._blocks += 1
        relation = BlockRelation(self.description.schema, block)
        for branch in self._branches:
            with _naming(branch.view):
                branch.write(self._table, relation, token)

    def _token(self, block: pa.Table) -> str:
        given = self._options.deduplication_token
        return digest(given, self._blocks) if given else block_hash(block)

    def commit(self) -> InsertOutcome:
        try:
            outcome = self._own.commit()
            self._table.services.failpoint("insert.before_views")
            for branch in self._branches:
                with _naming(branch.view, f"; {self._table.definition.full_name} has the rows: repeat the INSERT"):
                    branch.sink.commit()
            return outcome
        finally:
            self.abort()

    def abort(self) -> None:
        self._own.abort()
        for branch in self._branches:
            branch.sink.abort()


@dataclass(frozen=True)
class _Branch:
    """A view and the INSERT into its target."""

    view: Table
    sink: Sink
    context: Context

    def write(self, source: Table, relation: BlockRelation, token: str) -> None:
        token = f"{token} {self.view.definition.full_name}"
        for number, block in enumerate(self._made_of(source, relation)):
            self.sink.write(block, digest(token, number))

    def _made_of(self, source: Table, relation: BlockRelation) -> Iterator[pa.Table]:
        """What the view's query makes of the block, as blocks of the target."""
        settings, schema = self.context.settings, self.sink.description.schema
        result = run_over(self.view.definition.create.as_select, source, relation, self.context)
        wanted = {column.name: column for column in insertable_columns(schema)}
        given = [(index, name, type_) for index, (name, type_) in enumerate(result.columns) if name in wanted]
        columns, types = [wanted[name] for _, name, _ in given], [type_ for _, _, type_ in given]
        made = result.read_all().select([index for index, _, _ in given])
        for start in range(0, made.num_rows, settings.max_insert_block_size):
            block = made.slice(start, settings.max_insert_block_size)
            yield complete_block(cast_block(block, types, columns, settings=settings), schema, settings=settings)


def _branch(view: Table, options: InsertOptions, context: Context, level: int) -> _Branch:
    is_told_apart = options.deduplicate and context.settings.deduplicate_blocks_in_dependent_materialized_views
    own = replace(options, deduplicate=is_told_apart, deduplication_token="")
    return _Branch(view, begin_insert(stored_table(view, context), own, context, level + 1), context)


@contextmanager
def _naming(view: Table, more: str = "") -> Iterator[None]:
    """Adds the view to what fails within."""
    try:
        yield
    except PandoError as error:
        if _PUSHING not in error.message:
            error.message += f"{_PUSHING}{view.definition.full_name}{more}"
        raise
