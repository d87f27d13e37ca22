"""``sleep`` and ``sleepEachRow``, up to ``function_sleep_max_microseconds_per_block`` for each block.

DuckDB's vectors are much shorter than ClickHouse's blocks. So rows are counted, and a block begins every
``max_block_size`` rows. Ending the query ends the waiting.
"""

from __future__ import annotations

import threading
from weakref import WeakKeyDictionary

import pyarrow as pa
import pyarrow.compute as pc

from parts.common.errors import UserError
from parts.common.query_status import QueryStatus
from parts.types import FloatType, IntegerType
from sql.functions import memory_guards
from sql.functions.registry import Call, define
from sql.typing.duckdb.sql_fragments import fragment
from sql.typing.typed_expressions import UINT8, Typed

_MAX_SECONDS = 1_000_000_000
_lock = threading.Lock()
_counted_rows: WeakKeyDictionary[QueryStatus, int] = WeakKeyDictionary()
"""The number of rows for which each query has waited."""


def _sleep(call: Call) -> Typed:
    """Compiles ``sleep(seconds)`` and ``sleepEachRow(seconds)``. Raises ``UserError`` 43, 44."""
    (seconds,) = call.args
    is_unsigned = isinstance(seconds.type, IntegerType) and not seconds.type.signed
    if not is_unsigned and not isinstance(seconds.type, FloatType):
        raise call.wrong_type(0, "UInt* or Float*")
    if not seconds.is_constant:
        raise UserError("ILLEGAL_COLUMN", f"The argument of function {call.name} must be constant")
    # -1 marks times that cannot be waited for; NaN fails both comparisons.
    waited = fragment(
        "(CASE WHEN {seconds} >= 0 AND {seconds} < {most} THEN CAST({seconds} * 1000000 AS BIGINT) ELSE -1 END)",
        most=_MAX_SECONDS,
        seconds=fragment("CAST({} AS DOUBLE)", seconds.sql),
    )
    settings = call.environment.settings
    most = settings.function_sleep_max_microseconds_per_block
    called = memory_guards.with_side_effect(call.name, (most, settings.max_block_size), waited)
    return Typed(fragment("CAST({} * 0 AS UTINYINT)", called), UINT8)


define("sleep", _sleep, 1)
define("sleepEachRow", _sleep, 1)


def _pause(name: str, bounds: tuple[int, ...], sizes: pa.ChunkedArray, status: QueryStatus | None) -> None:
    """Waits for the rows of one vector. Raises ``UserError`` 36, 160."""
    most, block_rows = bounds
    rows, microseconds = len(sizes), pc.max(sizes).as_py()
    if microseconds < 0:
        raise UserError("BAD_ARGUMENTS", "Cannot sleep infinite, very large or negative amount of time")
    before = _count_rows(status, rows)
    if name == "sleep":
        blocks = -(-(before + rows) // block_rows) - -(-before // block_rows)
        _check_limit(most, microseconds)
        _wait(blocks * microseconds, status)
    else:
        _check_limit(most, microseconds * min(block_rows, before % block_rows + rows))
        _wait(rows * microseconds, status)


def _count_rows(status: QueryStatus | None, rows: int) -> int:
    """Counts rows of a query; returns how many came before."""
    if status is None:
        return 0
    with _lock:
        before = _counted_rows.get(status, 0)
        _counted_rows[status] = before + rows
    return before


def _check_limit(most: int, microseconds: int) -> None:
    if 0 < most < microseconds:
        raise UserError(
            "TOO_SLOW",
            f"The maximum sleep time is {most} microseconds. Requested: {microseconds} microseconds per block",
        )


def _wait(microseconds: int, status: QueryStatus | None) -> None:
    ended = threading.Event()
    forget = status.register_interrupt(ended.set) if status is not None else ended.clear
    try:
        ended.wait(microseconds / 1e6)
    finally:
        forget()
    if status is not None:
        status.check()


memory_guards.EFFECTS.update({"sleep": _pause, "sleepEachRow": _pause})
