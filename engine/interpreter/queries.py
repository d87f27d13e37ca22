"""SELECT, EXPLAIN and KILL QUERY."""

from __future__ import annotations

from engine.interpreter.context import STRING, Context, rows_result
from engine.interpreter.result_limits import limited
from engine.session import QueryResult
from parts.errors import UserError
from sql.statements import Explain, KillQuery, SelectQuery


def select(statement: SelectQuery, context: Context) -> QueryResult:
    return limited(context.engine.select(statement.query, context), context.settings)


def explain(statement: Explain, context: Context) -> QueryResult:
    return context.engine.explain(statement.query, statement.kind, statement.options, context)


def kill_query(statement: KillQuery, context: Context) -> QueryResult:
    """A read-only session may end its own user's queries. Raises 497 (ACCESS_DENIED) for another's."""
    found = [process for process in context.engine.processes() if process.query_id == statement.query_id]
    for process in found:
        if context.session.readonly and process.user != context.session.user:
            raise UserError(
                "ACCESS_DENIED",
                f"User {context.session.user} attempts to kill query created by {process.user} in readonly mode",
            )
        process.stop()
    columns = [("kill_status", STRING), ("query_id", STRING)]
    return rows_result(list(columns), [("finished", statement.query_id)] if found else [])
