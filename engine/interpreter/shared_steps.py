"""Steps that several statements share: refuse system databases, wait for replicas."""

from __future__ import annotations

from engine.catalog.database_names import SYSTEM_DATABASES
from engine.queries.context import Context
from engine.tables.owned_table import OwnedTable
from engine.tables.unfinished_errors import report_as_unfinished
from parts.common.errors import UserError


def refuse_system_database(database: str) -> None:
    """Raises 164 (READONLY) for a built-in database."""
    if database in SYSTEM_DATABASES:
        raise UserError("READONLY", f"The database {database} is read-only")


def wait_for_replicas(table: OwnedTable, context: Context) -> None:
    """Waits until the active replicas have executed the log, if ``alter_sync`` is 2.

    Called at the end of a statement. Raises 341 (UNFINISHED) after ``receive_timeout`` seconds.
    """
    if context.settings.alter_sync > 1 and table.replication is not None:
        with report_as_unfinished("It is done here"):
            table.replication.wait_for_others(context.settings.receive_timeout, context.status)
