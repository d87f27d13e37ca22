"""Parses COMMIT TRANSACTION and ROLLBACK TRANSACTION of inserts made under a transaction's id.

Pando adds these statements; ClickHouse's transactions belong to a session. ::

    INSERT INTO t SETTINGS insert_transaction = 'id' …;    -- as often as needed, on any replica

    COMMIT TRANSACTION 'id' ON [TABLE] t [OVERWRITE [TABLE] | OVERWRITE PARTITIONS]
        [ATTEMPTS 'a' [, …]] [ROWS n] [APPLICATION 'name' VERSION n];

    ROLLBACK TRANSACTION 'id' ON [TABLE] t
"""

from __future__ import annotations

from sql.grammar.common_clauses import parse_table_name
from sql.grammar.statements.statement import CommitTransaction, RollbackTransaction, Statement
from sql.grammar.statements.statement_syntax import StatementSyntax
from sql.grammar.tokens import TokenStream, not_implemented

_MOST_DIGITS = 20
"""Digits of the largest UInt64."""


def parse_commit(stream: TokenStream) -> Statement:
    """Parses COMMIT TRANSACTION."""
    transaction = _parse_transaction(stream)
    table = parse_table_name(stream)
    overwrite = ""
    if stream.accept("OVERWRITE"):
        overwrite = "partitions" if stream.accept("PARTITIONS") else "table"
        stream.accept("TABLE")
    attempts: tuple[str, ...] | None = None
    if stream.accept("ATTEMPTS"):
        names = [stream.string("name of an attempt")]
        while stream.accept(","):
            names.append(stream.string("name of an attempt"))
        attempts = tuple(names)
    rows = _parse_number(stream, "number of rows") if stream.accept("ROWS") else None
    application, version = "", None
    if stream.accept("APPLICATION"):
        application = stream.string("name of the application")
        stream.expect("VERSION")
        version = _parse_number(stream, "version")
    return CommitTransaction(transaction, table, overwrite, attempts, rows, application, version)


def parse_rollback(stream: TokenStream) -> Statement:
    """Parses ROLLBACK TRANSACTION."""
    transaction = _parse_transaction(stream)
    return RollbackTransaction(transaction, parse_table_name(stream))


def _parse_transaction(stream: TokenStream) -> str:
    verb = stream.next().upper
    if not stream.accept("TRANSACTION") or stream.peek().kind != "string":
        raise not_implemented(
            f"{verb} without the id of a transaction: INSERT with SETTINGS insert_transaction = 'id', then {verb} "
            "TRANSACTION 'id' ON table; it"
        )
    transaction = stream.string("id of the transaction")
    stream.expect("ON")
    stream.accept("TABLE")
    return transaction


def _parse_number(stream: TokenStream, what: str) -> int:
    token = stream.peek()
    if token.kind != "number" or not token.text.isdecimal() or len(token.text) > _MOST_DIGITS:
        stream.fail(what)
    return int(stream.next().text)


SYNTAX = (
    StatementSyntax(("COMMIT",), parse_commit),
    StatementSyntax(("ROLLBACK",), parse_rollback),
)
