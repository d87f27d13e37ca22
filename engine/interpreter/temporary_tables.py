"""Temporary tables of a session, whose names hide other tables.

They are tables of a hidden database (``engine.catalog.database_names``) under unguessable names; the session maps its
names to them. In statements that name one without a database, the hidden name is put in place before execution, in
whichever process.
"""

from __future__ import annotations

from dataclasses import replace

from engine.catalog.database_names import TEMPORARY_DATABASE
from engine.queries.context import Context
from engine.queries.session import Session
from engine.tables.table import Table
from parts.common.errors import UserError
from sql.grammar.clause_types import (
    TableRef,
)
from sql.grammar.statements.statement import (
    CreateTable,
    DropTable,
    ExistsTable,
    ParsedStatement,
    ShowCreateTable,
)


def create_temporary_table(create: CreateTable, context: Context) -> Table | None:
    """Creates a temporary table; returns ``None`` if it exists and IF NOT EXISTS was given.

    Raises 57 (TABLE_ALREADY_EXISTS), 80 (INCORRECT_QUERY), 442 (BAD_DATABASE_FOR_TEMPORARY_TABLE).
    """
    name, known = create.table.table, context.session.temporary_tables
    if create.table.database is not None:
        raise UserError(
            "BAD_DATABASE_FOR_TEMPORARY_TABLE", "Temporary tables cannot be inside a database: name it without one"
        )
    if name in known and not create.replaces:
        if create.if_not_exists:
            return None
        raise UserError("TABLE_ALREADY_EXISTS", f"Temporary table {name} already exists")
    if create.is_replicated:
        raise UserError("INCORRECT_QUERY", "Temporary tables cannot be created with Replicated table engines")
    hidden = f"_tmp_{context.server.services.new_uuid()}"
    catalog = context.server.catalog
    table = catalog.create_table(TEMPORARY_DATABASE, replace(create, table=TableRef(None, hidden), replaces=False))
    if name in known:
        catalog.drop_table(TEMPORARY_DATABASE, known[name])
    known[name] = hidden
    return table


def resolve_names(parsed: ParsedStatement, session: Session) -> ParsedStatement:
    """Returns the statement with the hidden names of temporary tables."""
    statement, known = parsed.statement, session.temporary_tables
    table = getattr(statement, "table", None)
    if parsed.on_cluster is not None:
        return parsed  # other servers do not have them
    is_asked_for = isinstance(statement, DropTable | ExistsTable | ShowCreateTable) and statement.is_temporary
    if not (known or is_asked_for) or not isinstance(table, TableRef) or isinstance(statement, CreateTable):
        return parsed
    if isinstance(statement, ExistsTable) and not is_asked_for:
        return parsed

    def resolve(ref: TableRef) -> TableRef:
        is_meant = ref.database is None and (is_asked_for or ref.table in known)
        return TableRef(TEMPORARY_DATABASE, known.get(ref.table, ref.table)) if is_meant else ref

    changes: dict[str, object] = {"table": resolve(table)}
    if isinstance(statement, DropTable):
        changes["others"] = tuple(map(resolve, statement.others))
    return replace(parsed, statement=replace(statement, **changes))  # type: ignore[arg-type]


def forget_dropped_tables(parsed: ParsedStatement, session: Session) -> None:
    """Removes dropped temporary tables from the session, after the statement."""
    statement = parsed.statement
    if isinstance(statement, DropTable) and session.temporary_tables:
        for ref in (statement.table, *statement.others):
            if ref.database is None:
                session.temporary_tables.pop(ref.table, None)


def get_session_name(table: TableRef, session: Session) -> TableRef:
    """Returns the name under which the session knows the table."""
    names = {hidden: name for name, hidden in session.temporary_tables.items()}
    return TableRef(None, names[table.table]) if table.database == TEMPORARY_DATABASE else table
