"""SELECT, EXPLAIN and KILL QUERY."""

from __future__ import annotations

from engine.interpreter.context import STRING, Context, rows_result
from engine.session import QueryResult
from sql.statements import Explain, KillQuery, Select


def select(statement: Select, context: Context) -> QueryResult:
    return context.engine.select(statement.query, context)


def explain(statement: Explain, context: Context) -> QueryResult:
    return context.engine.explain(statement.query, statement.kind, statement.options, context)


def kill_query(statement: KillQuery, context: Context) -> QueryResult:
    killed = context.engine.kill_query(statement.query_id)
    columns = [("kill_status", STRING), ("query_id", STRING)]
    return rows_result(list(columns), [("finished", statement.query_id)] if killed else [])
