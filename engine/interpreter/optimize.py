"""OPTIMIZE TABLE, and the columns of its DEDUPLICATE BY."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from engine.catalog.view_targets import resolve_stored_table
from engine.interpreter.partition_values import evaluate_partition_id
from engine.interpreter.shared_steps import wait_for_replicas
from engine.interpreter.statement_kind import define_owner_statement
from engine.queries.context import OwnerContext
from engine.queries.session import QueryResult
from engine.tables.owned_table import OwnedTable
from engine.tables.required_capabilities import require_optimize
from engine.tables.statement_options import OptimizeOptions
from parts.common.errors import UserError
from parts.table.table_description import TableDescription, TableSchema
from sql.grammar.clause_types import ColumnMatcher
from sql.grammar.statements.statement import OptimizeTable


def optimize_table(statement: OptimizeTable, context: OwnerContext) -> QueryResult:
    """Merges the parts of a table.

    Raises 388 (CANNOT_ASSIGN_OPTIMIZE), 236 (ABORTED), and errors of the columns or the partition.
    """
    table = context.server.catalog.table(context.database(statement.table.database), statement.table.table)
    table = resolve_stored_table(table, context.server.catalog)
    if statement.cleanup or statement.deduplicate:
        _refuse_with_row_versions(table, "CLEANUP" if statement.cleanup else "DEDUPLICATE")
    if statement.cleanup:
        _require_cleanup(table, statement.final)
    partition = statement.partition_id
    if statement.partition is not None:
        partition = evaluate_partition_id(table, statement.partition, context)
    require_optimize(table)(
        OptimizeOptions(
            partition_id=partition,
            final=statement.final,
            deduplicate=statement.deduplicate,
            deduplicate_by=resolve_deduplicate_by(statement.deduplicate_by, table.description),
            cleanup=statement.cleanup and statement.final,
            throw_if_noop=context.settings.optimize_throw_if_noop,
            skip_merged=context.settings.optimize_skip_merged_partitions,
            waits_for_merges=context.settings.alter_sync > 0,
            status=context.status,
        )
    )
    wait_for_replicas(table, context)
    return QueryResult()


def _refuse_with_row_versions(table: OwnedTable, what: str) -> None:
    if table.description.merge_mode.has_row_versions:
        raise UserError(
            "NOT_IMPLEMENTED",
            f"OPTIMIZE … {what} of table {table.definition.full_name} is not supported: with last_writer_wins = 1 "
            "rows that it removed could not replace older ones that come later",
        )


def _require_cleanup(table: OwnedTable, is_final: bool) -> None:
    """Checks that CLEANUP is allowed.

    Without FINAL it has no effect, as in ClickHouse, because parts outside the merge may hold older rows.
    """
    is_replacing = table.description.merge_mode.name == "Replacing"
    if is_final and not is_replacing:
        raise UserError(
            "CANNOT_ASSIGN_OPTIMIZE", "Cannot OPTIMIZE with CLEANUP table: only ReplacingMergeTree can be CLEANUP"
        )
    if is_replacing and not table.definition.settings.allow_experimental_replacing_merge_with_cleanup:
        raise UserError(
            "SUPPORT_IS_DISABLED",
            "Experimental merges with CLEANUP are not allowed: an older row that comes later would be there again; "
            "ALTER TABLE … MODIFY SETTING allow_experimental_replacing_merge_with_cleanup = 1 allows them",
        )


def resolve_deduplicate_by(matchers: tuple[ColumnMatcher, ...], description: TableDescription) -> tuple[str, ...]:
    """Returns the columns of DEDUPLICATE BY.

    Raises 16 (NO_SUCH_COLUMN_IN_TABLE) for one that is not stored, 51 (EMPTY_LIST_OF_COLUMNS_QUERIED) for none, 52
    (COLUMN_QUERIED_MORE_THAN_ONCE), and 8 (THERE_IS_NO_COLUMN) if a key column is missing: rows that differ in it are
    not neighbours in the merge.
    """
    names = [name for matcher in matchers for name in _match_columns(matcher, description.schema)]
    if not matchers:
        return ()
    if not names:
        raise UserError("EMPTY_LIST_OF_COLUMNS_QUERIED", "Empty list of columns queried: DEDUPLICATE BY matches none")
    for name in names:
        description.schema.stored.column(name)
        if names.count(name) > 1:
            raise UserError("COLUMN_QUERIED_MORE_THAN_ONCE", f"Column {name} queried more than once")
    needed = (*description.sorting_key.columns, *description.primary_key.columns, *description.partition_key.columns)
    missing = [name for name in needed if name not in names]
    if missing:
        raise UserError(
            "THERE_IS_NO_COLUMN",
            "DEDUPLICATE BY expression must include all columns used in table's ORDER BY, PRIMARY KEY, or PARTITION BY "
            f"but {missing[0]!r} is missing. Expanded DEDUPLICATE BY columns expression: {names}",
        )
    return tuple(names)


def _match_columns(matcher: ColumnMatcher, schema: TableSchema) -> list[str]:
    """Returns the columns of one matcher; ``*`` and ``COLUMNS('…')`` skip MATERIALIZED and ALIAS columns."""
    found = list(matcher.names)
    if not found:
        found = [column.name for column in schema.columns if column.default_kind in ("", "DEFAULT")]
    if matcher.pattern is not None:
        try:
            is_match = pc.match_substring_regex(pa.array(found, pa.string()), matcher.pattern).to_pylist()
        except pa.ArrowInvalid as error:
            raise UserError(
                "CANNOT_COMPILE_REGEXP", f"Invalid regular expression {matcher.pattern!r} of COLUMNS: {error}"
            ) from None
        found = [name for name, matches in zip(found, is_match, strict=True) if matches]
    return [name for name in found if name not in matcher.excluded]


STATEMENTS = (define_owner_statement(OptimizeTable, optimize_table),)
