"""CHECK TABLE: reads every byte of the parts and compares it with the checksums.

A broken part is reported to its table, as by a SELECT: a replicated table fetches a good copy.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from engine.interpreter.partition_values import evaluate_partition_id
from engine.interpreter.result_rows import STRING, UINT8, make_batch
from engine.interpreter.statement_kind import define_owner_statement
from engine.queries.context import OwnerContext
from engine.queries.session import QueryResult
from engine.tables.owned_table import OwnedTable
from engine.tables.required_capabilities import require_checked_store
from parts.common.errors import CorruptionError, UserError
from parts.common.part_name import PartName
from parts.common.query_status import QueryStatus
from parts.read.part_reader import Part
from parts.store.part_store import PartStore
from parts.types import DataType
from sql.grammar.statements.statement import CheckTable
from sql.relations import PartsSnapshot

_Columns = tuple[tuple[str, DataType], ...]
_COLUMNS: _Columns = (("part_path", STRING), ("is_passed", UINT8), ("message", STRING))
_SINGLE: _Columns = (("result", UINT8),)


def check_table(statement: CheckTable, context: OwnerContext) -> QueryResult:
    """Returns one row per part (``part_path``, ``is_passed``, ``message``), each as soon as it is known.

    With ``check_query_single_value_result`` it returns a single row. Raises 232 (NO_SUCH_DATA_PART) for an unknown
    part, 233 (BAD_DATA_PART_NAME) for a malformed name.
    """
    table = context.server.catalog.table(context.database(statement.table.database), statement.table.table)
    store = require_checked_store(table)
    snapshot = table.snapshot()
    try:
        parts = _select_parts(snapshot, statement, table, context)
    except BaseException:
        snapshot.release()
        raise
    columns, batches = _COLUMNS, _check_parts(parts, table, store, snapshot, context.status)
    if context.settings.check_query_single_value_result:
        columns, batches = _SINGLE, _combine_verdicts(batches)
    return QueryResult(columns, batches, on_close=snapshot.release)


def _select_parts(
    snapshot: PartsSnapshot, statement: CheckTable, table: OwnedTable, context: OwnerContext
) -> list[Part]:
    if statement.part is not None:
        name = PartName.parse(statement.part)
        found = [part for part in snapshot.parts if part.name == name]
        if not found:
            raise UserError("NO_SUCH_DATA_PART", f"No active part {name} in table {table.definition.full_name}")
        return found
    partition = statement.partition_id
    if statement.partition is not None:
        partition = evaluate_partition_id(table, statement.partition, context)
    return [part for part in snapshot.parts if partition in (None, part.name.partition_id)]


def _check_parts(
    parts: list[Part], table: OwnedTable, store: PartStore, snapshot: PartsSnapshot, status: QueryStatus
) -> Iterator[pa.RecordBatch]:
    try:
        for part in parts:
            status.check()
            message = _check_part(part, table, store, status)
            yield make_batch(_COLUMNS, [(str(part.name), int(not message), message)])
    finally:
        snapshot.release()


def _check_part(part: Part, table: OwnedTable, store: PartStore, status: QueryStatus) -> str:
    try:
        part.verify(status.check)
    except CorruptionError as error:
        store.note_check(part.name, str(error))
        table.report_corruption(error)
        return str(error)
    store.note_check(part.name)
    return ""


def _combine_verdicts(verdicts: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    passed = [batch.column("is_passed")[0].as_py() for batch in verdicts]
    yield make_batch(_SINGLE, [(int(all(passed)),)])


STATEMENTS = (define_owner_statement(CheckTable, check_table),)
