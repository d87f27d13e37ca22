"""What several statements refuse."""

from __future__ import annotations

from engine.context import Context
from engine.system_names import SYSTEM_NAMES
from engine.tables.table import Table
from parts.errors import UserError


def refuse_system(database: str) -> None:
    """Raises 164 (READONLY) for a database that the server makes up."""
    if database in SYSTEM_NAMES:
        raise UserError("READONLY", f"The database {database} is read-only")


def check_alter_sync(table: Table, context: Context) -> None:
    """Raises 48 (NOT_IMPLEMENTED) for a statement that would have to wait for a table's other replicas."""
    if context.settings.alter_sync > 1 and table.definition.is_replicated:
        raise UserError(
            "NOT_IMPLEMENTED",
            f"Setting alter_sync = {context.settings.alter_sync} is not supported for replicated tables; accepted are "
            "0 and 1. SYSTEM SYNC REPLICA on the others waits for them",
        )
