"""COMMIT TRANSACTION and ROLLBACK TRANSACTION."""

from __future__ import annotations

from coordination.transactions.commit_request import CommitRequest, Overwrite
from coordination.transactions.read_state import ReadState
from engine.interpreter.result_rows import STRING, make_result
from engine.interpreter.shared_steps import refuse_system_database
from engine.interpreter.statement_kind import define_owner_statement
from engine.queries.context import OwnerContext
from engine.queries.session import QueryResult
from engine.scan.read_parts import find_read_state
from engine.tables.owned_table import OwnedTable
from engine.tables.required_capabilities import require_transactions
from engine.tables.statement_options import CommitOptions
from parts.common.errors import UserError
from parts.types import IntegerType
from sql.grammar.clause_types import (
    TableRef,
)
from sql.grammar.statements.statement import (
    CommitTransaction,
    RollbackTransaction,
)

_UINT64 = IntegerType(64, signed=False)
_OVERWRITE = {"": Overwrite.NOTHING, "table": Overwrite.TABLE, "partitions": Overwrite.PARTITIONS}
_LONGEST_ID = 1000


def commit_transaction(statement: CommitTransaction, context: OwnerContext) -> QueryResult:
    """Commits; returns one row: ``status``, and the ``rows`` and ``parts`` that became visible."""
    table = _find_table(statement.table, context)
    transactions = require_transactions(table)
    partition_ids = frozenset(statement.partition_ids) if statement.partition_ids is not None else None
    request = CommitRequest(
        check_transaction_id(statement.transaction, "id of the transaction"),
        _OVERWRITE[statement.overwrite],
        partition_ids,
        _find_read_state(statement, table, partition_ids) if statement.scan else None,
        statement.attempts,
        statement.rows,
        check_transaction_id(statement.application, "name of the application") if statement.application else "",
        statement.version,
    )
    settings = context.settings
    options = CommitOptions(
        settings.insert_quorum,
        settings.insert_quorum_timeout / 1000,
        settings.insert_timeout,
        settings.require_sync_replica,
        context.status,
    )
    outcome = transactions.commit(request, options)
    columns = [("status", STRING), ("rows", _UINT64), ("parts", _UINT64)]
    return make_result(list(columns), [(outcome.verdict.value, outcome.rows, len(outcome.parts))])


def _find_read_state(
    statement: CommitTransaction, table: OwnedTable, partition_ids: frozenset[str] | None
) -> ReadState:
    """Returns what must be unchanged. Raises 36 (BAD_ARGUMENTS) if the statement does not say where."""
    is_whole_table = statement.is_whole_table or statement.overwrite == "table"
    if not is_whole_table and partition_ids is None:
        raise UserError(
            "BAD_ARGUMENTS",
            "UNCHANGED SINCE SCAN needs OVERWRITE PARTITIONS ID …, OVERWRITE TABLE, or its own IN TABLE",
        )
    return find_read_state(table, statement.scan, None if is_whole_table else partition_ids)


def rollback_transaction(statement: RollbackTransaction, context: OwnerContext) -> QueryResult:
    """Executes ROLLBACK TRANSACTION."""
    transaction = check_transaction_id(statement.transaction, "id of the transaction")
    require_transactions(_find_table(statement.table, context)).rollback(transaction)
    return QueryResult()


def check_transaction_id(text: str, what: str) -> str:
    """Returns the text. Raises 36 (BAD_ARGUMENTS) if it is empty or very long."""
    if not text or len(text) > _LONGEST_ID:
        raise UserError("BAD_ARGUMENTS", f"The {what} must have 1 to {_LONGEST_ID} characters, got {len(text)}")
    return text


def _find_table(ref: TableRef, context: OwnerContext) -> OwnedTable:
    database = context.database(ref.database)
    refuse_system_database(database)
    return context.server.catalog.table(database, ref.table)


STATEMENTS = (
    define_owner_statement(CommitTransaction, commit_transaction),
    define_owner_statement(RollbackTransaction, rollback_transaction),
)
