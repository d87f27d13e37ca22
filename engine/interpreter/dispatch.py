"""Runs a statement by its kind; the kinds stand beside the functions that run them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from engine.distributed_ddl.initiator import execute_on_cluster
from engine.interpreter import (
    alter,
    check_table,
    data_definition,
    insert_statement,
    mutation_statements,
    optimize,
    select,
    show,
    system_statements,
    transaction_statements,
)
from engine.interpreter.links import link_group_statements, link_statements, switching_statements
from engine.interpreter.statement_kind import StatementKind
from engine.queries.context import Context
from engine.queries.session import QueryResult
from parts.common.errors import UserError
from sql.grammar.statements.statement import ParsedStatement

_MODULES = (
    alter, check_table, data_definition, insert_statement, link_group_statements, link_statements,
    mutation_statements, optimize, select, show, switching_statements, system_statements, transaction_statements,
)  # fmt: skip
STATEMENTS: Mapping[type, StatementKind] = MappingProxyType(
    {kind.statement: kind for module in _MODULES for kind in module.STATEMENTS}
)
"""Every statement that can be run, by its class."""


def execute_statement(parsed: ParsedStatement, context: Context) -> QueryResult:
    """Raises 164 (READONLY) for a change in a read-only session, and whatever the statement raises."""
    statement = parsed.statement
    kind = STATEMENTS[type(statement)]
    is_reading = kind.is_read_only and parsed.on_cluster is None
    if (context.session.readonly or context.settings.readonly) and not is_reading:
        raise UserError("READONLY", f"Cannot execute {type(statement).__name__} in readonly mode")
    if parsed.on_cluster is not None:
        result = execute_on_cluster(parsed, context)
    else:
        result = kind.run(statement, context)
    return replace(
        result,
        format=parsed.format,
        outfile=parsed.outfile,
        statistics=result.statistics if result.batches is not None and result.columns else context.statistics,
        query_id=context.query_id,
    )
