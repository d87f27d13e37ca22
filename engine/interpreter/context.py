"""What a statement's handler may use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, BinaryIO

import pyarrow as pa

from engine.session import QueryResult, QueryStatistics, Session
from engine.system_names import SYSTEM_NAMES
from parts.errors import UserError
from parts.query_status import QueryStatus
from parts.types import DataType, IntegerType, StringType
from sql.settings import Settings

if TYPE_CHECKING:
    from engine.engine import Engine
    from engine.tables.table import Table

STRING = StringType()
UINT8 = IntegerType(8, signed=False)


@dataclass
class Context:
    """One statement in execution. ``settings`` are those of server, session and statement."""

    engine: Engine
    session: Session
    settings: Settings
    query_id: str
    body: BinaryIO | None = None
    parameters: Mapping[str, str] = field(default_factory=dict)
    statistics: QueryStatistics = field(default_factory=QueryStatistics)
    status: QueryStatus = field(default_factory=QueryStatus)

    def database(self, name: str | None) -> str:
        return name if name is not None else self.session.database


def refuse_system(database: str) -> None:
    """Raises 164 (READONLY) for a database that the server makes up."""
    if database in SYSTEM_NAMES:
        raise UserError("READONLY", f"The database {database} is read-only")


def check_alter_sync(table: Table, context: Context) -> None:
    """Raises 48 (NOT_IMPLEMENTED) for a statement that would have to wait for a table's other replicas."""
    if context.settings.alter_sync > 1 and table.definition.engine_name.startswith("Replicated"):
        raise UserError(
            "NOT_IMPLEMENTED",
            f"Setting alter_sync = {context.settings.alter_sync} is not supported for replicated tables; accepted are "
            "0 and 1. SYSTEM SYNC REPLICA on the others waits for them",
        )


def rows_result(columns: list[tuple[str, DataType]], rows: list[tuple[object, ...]]) -> QueryResult:
    """A small answer made here, not read from a table."""
    return QueryResult(columns=tuple(columns), batches=iter([rows_batch(columns, rows)] if rows else []))


def rows_batch(columns: Sequence[tuple[str, DataType]], rows: Sequence[tuple[object, ...]]) -> pa.RecordBatch:
    arrays = [pa.array([row[index] for row in rows], type_.arrow) for index, (_, type_) in enumerate(columns)]
    schema = pa.schema([pa.field(name, type_.arrow, type_.is_nullable) for name, type_ in columns])
    return pa.record_batch(arrays, schema=schema)
