"""INSERT into a table with materialized views: each block goes through the views' queries too.

The result of a view's query goes, by equal column names, to the view's target, and from there to the views of the
target. A query sees only the block wherever it names the table, also in joins and subqueries; other tables are whole.

Order, and what it guarantees

- Every block, and the views' results for it, is first written as temporary parts. If a query fails, a value does not
  convert, a constraint is violated or the disk is full, nothing becomes visible anywhere. The error names the view.
- Then the table's own parts are committed, and after them those of the targets, view by view. No target is ahead of its
  table: a failure or crash in between leaves rows in the table that are not acknowledged and that some targets lack.
  The opposite order would leave rows in targets that no row of the table explains.
- A table that deduplicates records with each block, in the same commit, which views must get it, and a token made for
  it. When the targets have the block the record is deleted (``coordination.inserts.block_views``). So a repeated INSERT
  gives a known block only to those views that are known to lack it, on this replica or another. Of a block that is
  known in part the views get the rest. A view of another name, or one created later, is not in the record.
- A target identifies its block by that token and the view's name. So two blocks of which a view makes equal rows stay
  two, and a block that the table accepts again, after forgetting it, is new to the targets too. What a target committed
  before the record was deleted is not stored again, if the target deduplicates; otherwise it is stored again.
- A table that does not deduplicate accepts every INSERT, and so do its targets: each has its own token, or that of
  ``insert_deduplication_token``.
- Rows that arrive otherwise (ATTACH, REPLACE and MOVE PARTITION, fetches, mutations) do not pass through views.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Protocol

import pyarrow as pa

from coordination.inserts.block_views import NOTHING_MISSING, MissingViews
from engine.catalog.view_targets import MOST_VIEW_LEVELS, resolve_stored_table
from engine.interpreter.select import list_needed_columns, run_query_over_block
from engine.queries.context import Context
from engine.tables.insert_sink import InsertOutcome, Piece, hash_token
from engine.tables.statement_options import InsertOptions
from engine.tables.table import Table
from parts.common.errors import PandoError, UnknownOutcomeError, UserError
from parts.format.content_hash import hash_block
from parts.table.merge_mode import ORDINARY
from parts.table.table_description import TableDescription, TableSchema
from sql.definitions.column_defaults import cast_block, complete_block, list_insert_columns
from sql.grammar.statements.alter_commands import AlterCommand, DropColumn
from sql.relations import BlockRelation

logger = logging.getLogger(__name__)

_PUSHING = ": while pushing to view "


class BlockSink(Protocol):
    """The interface of an ``InsertSink``."""

    @property
    def description(self) -> TableDescription:
        """The table's description."""

    def write(self, block: pa.Table, token: str = "") -> None:
        """Writes a block as temporary parts."""

    def commit(self) -> InsertOutcome:
        """Makes the blocks visible and returns the counts."""

    def abort(self) -> None:
        """Deletes what is not committed."""


def begin_insert(table: Table, options: InsertOptions, context: Context, level: int = 0) -> BlockSink:
    """Begins an INSERT into the table and its views.

    Raises 48 (NOT_IMPLEMENTED) for a transaction into a table with views, 306 (TOO_DEEP_RECURSION) for a circle of
    views.
    """
    views = context.server.catalog.require_views(table)
    if table.definition.engine.is_proxy:
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
    if level >= MOST_VIEW_LEVELS:
        raise UserError(
            "TOO_DEEP_RECURSION", f"Materialized views over {name} lead to more than {MOST_VIEW_LEVELS} others"
        )
    return _ViewedInsert(table, views, replace(options, is_whole=False), context, level)


def refuse_drop_of_view_columns(table: Table, commands: Sequence[AlterCommand], context: Context) -> None:
    """Raises 524 for DROP COLUMN of a column that materialized views read.

    CLEAR COLUMN is allowed, as in ClickHouse.
    """
    dropped = {command.name for command in commands if isinstance(command, DropColumn) and not command.clear}
    for view in context.server.catalog.list_views_of(table) if dropped else ():
        if read := list_needed_columns(view.definition.create.as_select, table, dropped, context):
            raise UserError(
                "ALTER_OF_COLUMN_IS_FORBIDDEN",
                f"Trying to ALTER DROP column {min(read)} which is referenced by materialized view "
                f"{view.definition.full_name}",
            )


@dataclass(frozen=True)
class _WrittenPiece:
    """A written piece of a block.

    ``recorded``: the views that lack it if the table stores it now, as the commit records them. ``given``: the views
    that lacked it when the known blocks were checked, and that it was given to.
    """

    block_id: str
    recorded: MissingViews
    given: MissingViews


class _ViewedInsert:
    """An INSERT into a table with views."""

    def __init__(
        self, table: Table, views: Sequence[Table], options: InsertOptions, context: Context, level: int
    ) -> None:
        self._table = table
        self._options = options
        self._memory = table.block_memory if options.deduplicate else None
        self._blocks = 0
        self._written: list[_WrittenPiece] = []
        self._branches: list[_Branch] = []
        self._own = table.begin_insert(options)
        self.description = self._own.description
        try:
            for view in views:
                with name_view_in_errors(view):
                    self._branches.append(_make_branch(view, options, context, level))
        except BaseException:
            self.abort()
            raise

    def write(self, block: pa.Table, token: str = "") -> None:
        """Writes a block, and gives its views the pieces that they lack."""
        if block.num_rows == 0:
            return
        pieces = self._own.identified(block, token)
        written = self._find_missing_views(block, pieces, token)
        self._blocks += 1
        self._written += written
        whole = [replace(piece, missing=of.recorded) for piece, of in zip(pieces, written, strict=True)]
        self._own.write_pieces(block, whole)
        for branch in self._branches:
            meant = [(piece, of) for piece, of in zip(pieces, written, strict=True) if branch.name in of.given.views]
            if not meant:
                continue
            rows = block if len(meant) == len(pieces) else pa.concat_tables(piece.rows.block for piece, _ in meant)
            with name_view_in_errors(branch.view):
                tokens = sorted({of.given.token for _, of in meant})
                branch.write(self._table, BlockRelation(self.description.schema, rows), " ".join(tokens))

    def _find_missing_views(self, block: pa.Table, pieces: Sequence[Piece], token: str) -> list[_WrittenPiece]:
        ids = [piece.block_id or "" for piece in pieces]
        views = tuple(branch.name for branch in self._branches)
        known = self._memory.missing_of(ids) if self._memory is not None else None
        if known is None:
            new = MissingViews(token or self._make_token(block, has_ids=any(ids)), views)
            return [_WrittenPiece(block_id, NOTHING_MISSING, new) for block_id in ids]
        begun = [missing.token for missing in known if missing is not None and missing.views]
        new = MissingViews((begun or [token or self._make_record_token(block)])[0], views)
        return [
            _WrittenPiece(block_id, new, new if missing is None else missing)
            for block_id, missing in zip(ids, known, strict=True)
        ]

    def _make_token(self, block: pa.Table, *, has_ids: bool) -> str:
        """Returns the token of a block without a record."""
        if given := self._options.deduplication_token:
            return hash_token(given, self._blocks)
        return hash_block(block) if has_ids else self._table.services.new_uuid().hex

    def _make_record_token(self, block: pa.Table) -> str:
        """Returns a new random token for a block.

        A merge mode may leave no row of a block; then no id would keep the token, so it is the hash of the block
        instead.
        """
        keeps_all = self.description.merge_mode == ORDINARY or not self._options.reduces
        return self._table.services.new_uuid().hex if keeps_all else hash_block(block)

    def commit(self) -> InsertOutcome:
        """Commits the table's parts, then those of the views' targets."""
        try:
            outcome = self._own.commit()
            self._table.services.failpoint("insert.before_views")
            self._commit_views(
                [outcome.known.get(of.block_id, of.recorded) if of.recorded.views else of.given for of in self._written]
            )
            return outcome
        finally:
            self.abort()

    def _commit_views(self, missing: Sequence[MissingViews]) -> None:
        """Commits the targets. ``missing``: the views that lack each piece now that the table has it."""
        done: list[str] = []
        try:
            for branch in self._branches:
                with name_view_in_errors(
                    branch.view, f"; {self._table.definition.full_name} has the rows: repeat the INSERT"
                ):
                    self._commit(branch, missing)
                done.append(branch.name)
        except Exception:
            self._settle_records(missing, done)
            raise
        self._table.services.failpoint("insert.after_views")
        self._settle_records(missing, done)

    def _commit(self, branch: _Branch, missing: Sequence[MissingViews]) -> None:
        given = [of.given.token if branch.name in of.given.views else "" for of in self._written]
        wanted = [of.token if branch.name in of.views else "" for of in missing]
        if not any(wanted):
            branch.sink.abort()
        elif wanted == given:
            branch.sink.commit()
        else:
            raise UnknownOutcomeError(
                "UNKNOWN_STATUS_OF_INSERT", "The same block was inserted, or dropped, at the same time"
            )

    def _settle_records(self, missing: Sequence[MissingViews], done: Sequence[str]) -> None:
        """Removes finished views from the records. If that fails they stay, and a repeated INSERT settles it."""
        tokens = {
            of.block_id: left.token
            for of, left in zip(self._written, missing, strict=True)
            if of.recorded.views and left.views
        }
        if not (tokens and done and self._memory):
            return
        try:
            self._memory.views_have(tokens, done)
        except PandoError as error:
            logger.warning("views of table %s: %s", self._table.definition.full_name, error)

    def abort(self) -> None:
        """Aborts the table's and the targets' INSERTs, as far as they are not committed."""
        self._own.abort()
        for branch in self._branches:
            branch.sink.abort()


@dataclass(frozen=True)
class _Branch:
    """A view and the INSERT into its target."""

    view: Table
    sink: BlockSink
    context: Context

    @property
    def name(self) -> str:
        """The view's full name."""
        return self.view.definition.full_name

    def write(self, source: Table, relation: BlockRelation, token: str) -> None:
        """Runs the view's query over the block and writes the result to the target."""
        token = f"{token} {self.name}"
        made = run_view_query(self.view, source, relation, self.sink.description.schema, self.context)
        for number, block in enumerate(made):
            self.sink.write(block, hash_token(token, number))


def run_view_query(
    view: Table, source: Table, relation: BlockRelation, schema: TableSchema, context: Context
) -> Iterator[pa.Table]:
    """Yields the result of a view's query for a block of its source, as blocks of the target's ``schema``."""
    settings = context.settings
    result = run_query_over_block(view.definition.create.as_select, source, relation, context)
    wanted = {column.name: column for column in list_insert_columns(schema)}
    given = [(index, name, type_) for index, (name, type_) in enumerate(result.columns) if name in wanted]
    columns, types = [wanted[name] for _, name, _ in given], [type_ for _, _, type_ in given]
    made = result.read_all().select([index for index, _, _ in given])
    for start in range(0, made.num_rows, settings.max_insert_block_size):
        block = made.slice(start, settings.max_insert_block_size)
        block = cast_block(block, types, columns, settings=settings)
        yield complete_block(block, schema, settings=settings, of_data=())


def _make_branch(view: Table, options: InsertOptions, context: Context, level: int) -> _Branch:
    is_told_apart = options.deduplicate and context.settings.deduplicate_blocks_in_dependent_materialized_views
    own = replace(options, deduplicate=is_told_apart, deduplication_token="")
    return _Branch(
        view, begin_insert(resolve_stored_table(view, context.server.catalog), own, context, level + 1), context
    )


@contextmanager
def name_view_in_errors(view: Table, more: str = "") -> Iterator[None]:
    """Adds the view's name to errors that the block raises."""
    try:
        yield
    except PandoError as error:
        if _PUSHING not in error.message:
            error.message += f"{_PUSHING}{view.definition.full_name}{more}"
        raise
