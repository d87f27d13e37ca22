"""SELECT, EXPLAIN and KILL QUERY, and queries inside other statements."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Set
from importlib.metadata import version
from typing import TypedDict

import pyarrow as pa

from engine.distributed.sharded_relation import LocalQueries
from engine.interpreter.result_limits import limit_result
from engine.interpreter.result_rows import STRING, make_result
from engine.interpreter.session_relations import BlockRelations, SessionRelations
from engine.interpreter.statement_kind import StatementKind, define_owner_statement
from engine.queries.context import Context
from engine.queries.session import QueryResult
from engine.tables.table import Table
from parts.common.errors import UserError
from parts.common.query_status import QueryStatus
from parts.table.table_description import TableSchema
from parts.types import DataType
from sql.grammar.statements.statement import Explain, KillQuery, SelectQuery
from sql.relations import BlockRelation
from sql.run.query_engine import SelectResult
from sql.settings.supported_settings import (
    Settings,
)

_VERSION = version("pando")


def select(statement: SelectQuery, context: Context) -> QueryResult:
    """Executes a SELECT."""
    return limit_result(run_query(statement.query, context), context.settings)


def explain(statement: Explain, context: Context) -> QueryResult:
    """Executes an EXPLAIN."""
    engine = context.server.query_engine
    result = engine.explain(statement.query, statement.kind, statement.options, **_make_arguments(context))
    return _make_query_result(result, context)


def kill_query(statement: KillQuery, context: Context) -> QueryResult:
    """Executes KILL QUERY.

    A read-only session may kill only its own user's queries. Raises 497 (ACCESS_DENIED) for another's.
    """
    found = [process for process in context.server.processes() if process.query_id == statement.query_id]
    for process in found:
        if context.session.readonly and process.user != context.session.user:
            raise UserError(
                "ACCESS_DENIED",
                f"User {context.session.user} attempts to kill query created by {process.user} in readonly mode",
            )
        process.stop()
    columns = [("kill_status", STRING), ("query_id", STRING)]
    return make_result(list(columns), [("finished", statement.query_id)] if found else [])


def run_query(query: str, context: Context) -> QueryResult:
    """Runs a query over the tables of the session."""
    return _make_query_result(context.server.query_engine.select(query, **_make_arguments(context)), context)


def run_query_over_block(query: str, table: Table, block: BlockRelation, context: Context) -> SelectResult:
    """Runs a query that sees only the block in place of the table."""
    arguments = _make_arguments(context)
    arguments["catalog"] = BlockRelations(context, LOCAL_QUERIES, table, block)
    return context.server.query_engine.select(query, **arguments)


def list_needed_columns(query: str, table: Table, columns: Set[str], context: Context) -> set[str]:
    """Returns those of the columns that the query reads or cannot be compiled without."""
    arguments, schema = _make_arguments(context), table.description.schema
    engine = context.server.query_engine
    whole = BlockRelation(schema, schema.arrow.empty_table())
    arguments["catalog"] = BlockRelations(context, LOCAL_QUERIES, table, whole)
    needed = {name for name in engine.columns_read(query, whole, **arguments) if name in columns}
    for name in columns - needed:
        rest = TableSchema(tuple(column for column in schema.columns if column.name != name))
        arguments["catalog"] = BlockRelations(
            context, LOCAL_QUERIES, table, BlockRelation(rest, rest.arrow.empty_table())
        )
        try:
            engine.describe(query, **arguments)
        except UserError:
            needed.add(name)
    return needed


def describe_columns(query: str, context: Context) -> tuple[tuple[str, DataType], ...]:
    """Returns names and types of a query's columns, without running it."""
    return context.server.query_engine.describe(query, **_make_arguments(context))


def make_relations(context: Context) -> SessionRelations:
    """Returns the relations that queries of this statement can read."""
    return SessionRelations(context, LOCAL_QUERIES)


class _Arguments(TypedDict):
    catalog: SessionRelations
    settings: Settings
    status: QueryStatus
    database: str
    parameters: dict[str, str]
    constants: dict[str, str]


def _make_arguments(context: Context) -> _Arguments:
    return {
        "catalog": make_relations(context),
        "settings": context.settings,
        "status": context.status,
        "database": context.session.database,
        "parameters": dict(context.parameters),
        "constants": {
            "hostName": socket.gethostname(),
            "version": _VERSION,
            "currentDatabase": context.session.database,
            "currentUser": context.session.user,
            "queryID": context.query_id,
            "timezone": context.settings.timezone,
            "serverUUID": context.server.uuid,
            "profiles": context.session.profile,
            "serverTimezone": context.server.config.timezone,
        },
    }


def _make_query_result(selected: SelectResult, context: Context) -> QueryResult:
    statistics = context.statistics
    monotonic = context.server.services.monotonic
    started = monotonic()

    def count_read() -> None:
        statistics.rows_read = selected.statistics.read_rows
        statistics.bytes_read = selected.statistics.read_bytes
        statistics.elapsed_seconds = monotonic() - started

    def counted() -> Iterator[pa.RecordBatch]:
        for batch in selected.batches:
            statistics.result_rows += batch.num_rows
            count_read()
            yield batch
        count_read()

    return QueryResult(
        columns=tuple(selected.columns),
        batches=counted(),
        refresh_statistics=count_read,
        statistics=statistics,
        on_cancel=selected.cancel,
        on_close=selected.close,
    )


LOCAL_QUERIES = LocalQueries(run_query, describe_columns)
"""The functions that read this server's own shards."""


STATEMENTS = (
    StatementKind(SelectQuery, select, is_read_only=True),
    StatementKind(Explain, explain, is_read_only=True),
    define_owner_statement(KillQuery, kill_query, is_read_only=True),
)
