"""Parses COMMIT TRANSACTION and ROLLBACK TRANSACTION of inserts made under a transaction's id.

Pando adds these statements; ClickHouse's transactions belong to a session. ::

    INSERT INTO t SETTINGS insert_transaction = 'id' …;    -- as often as needed, on any replica

    COMMIT TRANSACTION 'id' ON [TABLE] t [overwrite] [UNCHANGED SINCE SCAN 'name' [IN TABLE]]
        [ATTEMPTS 'a' [, …]] [ROWS n] [APPLICATION 'name' VERSION n];

    overwrite: OVERWRITE [TABLE] | OVERWRITE PARTITIONS [ID 'partition' [, …]]

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
    overwrite, partition_ids = _parse_overwrite(stream)
    scan, is_whole_table = _parse_unchanged(stream)
    attempts = _parse_strings(stream, "name of an attempt") if stream.accept("ATTEMPTS") else None
    rows = _parse_number(stream, "number of rows") if stream.accept("ROWS") else None
    application, version = "", None
    if stream.accept("APPLICATION"):
        application = stream.string("name of the application")
        stream.expect("VERSION")
        version = _parse_number(stream, "version")
    return CommitTransaction(
        transaction, table, overwrite, partition_ids, scan, is_whole_table, attempts, rows, application, version
    )


def _parse_overwrite(stream: TokenStream) -> tuple[str, tuple[str, ...] | None]:
    """Returns what goes, and the partitions that are named."""
    if not stream.accept("OVERWRITE"):
        return "", None
    if stream.accept("PARTITIONS"):
        return "partitions", _parse_strings(stream, "id of a partition") if stream.accept("ID") else None
    stream.accept("TABLE")
    return "table", None


def _parse_unchanged(stream: TokenStream) -> tuple[str, bool]:
    """Returns the scan since which nothing may have changed, and whether that is asked of the whole table."""
    if not stream.accept("UNCHANGED"):
        return "", False
    stream.expect("SINCE")
    stream.expect("SCAN")
    scan = stream.string("name of a scan")
    is_whole_table = stream.accept("IN")
    if is_whole_table:
        stream.expect("TABLE")
    return scan, bool(is_whole_table)


def _parse_strings(stream: TokenStream, what: str) -> tuple[str, ...]:
    found = [stream.string(what)]
    while stream.accept(","):
        found.append(stream.string(what))
    return tuple(found)


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
