"""The one DuckDB of the process: in memory, with Pando's macros, closed to files, network and configuration.

User text never reaches it: only what the compilers write. A cursor serves one query.
"""

from __future__ import annotations

import atexit
import re
import threading
from functools import cache

import duckdb

from parts.errors import NAMES, CancelledError, PandoError, UserError
from sql import text_conversion
from sql.functions import arithmetic, bits_and_hashes, mathematics, strings

_MACROS = (
    *arithmetic.MACROS,
    *mathematics.MACROS,
    *text_conversion.MACROS,
    *strings.MACROS,
    *bits_and_hashes.MACROS,
)
_OWN_ERROR = re.compile(r"pando:(\d+):(.*?)(?:\n|$)", re.DOTALL)
_lock = threading.Lock()


@cache
def _connection() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(
        ":memory:", config={"enable_external_access": "false", "autoload_known_extensions": "false"}
    )
    for macro in _MACROS:
        connection.execute(f"CREATE MACRO {macro}")
    connection.execute("SET lock_configuration = true")
    return connection


@atexit.register
def _close() -> None:
    """DuckDB's binding complains at the end of the process about connections that are still open."""
    if _connection.cache_info().currsize:
        _connection().close()
        _connection.cache_clear()


def cursor() -> duckdb.DuckDBPyConnection:
    """A connection of its own for one query; close it."""
    with _lock:
        return _connection().cursor()


def translate(error: Exception) -> PandoError:
    """DuckDB's error as Pando's."""
    if isinstance(error, PandoError):
        return error
    message = str(error)
    own = _OWN_ERROR.search(message)
    if own is not None and int(own.group(1)) in NAMES:
        return UserError(NAMES[int(own.group(1))], own.group(2).strip())
    first = next((line for line in message.split("\n") if line.strip()), repr(error))
    if isinstance(error, duckdb.InterruptException):
        return CancelledError()
    if isinstance(error, duckdb.ConversionException):
        if "DECIMAL" in first:
            return UserError("DECIMAL_OVERFLOW", f"Decimal overflow: {first}")
        return UserError("CANNOT_PARSE_TEXT", f"Cannot convert a value: {first.removeprefix('Conversion Error: ')}")
    if isinstance(error, duckdb.OutOfRangeException):
        name = "DECIMAL_OVERFLOW" if "DECIMAL" in first else "VALUE_IS_OUT_OF_RANGE_OF_DATA_TYPE"
        return UserError(name, first)
    if isinstance(error, duckdb.OutOfMemoryException):
        return UserError("MEMORY_LIMIT_EXCEEDED", first)
    if "More than one row returned" in message:
        return UserError("INCORRECT_RESULT_OF_SCALAR_SUBQUERY", "Scalar subquery returned more than one row")
    if isinstance(error, (duckdb.InvalidInputException,)):
        return UserError("BAD_ARGUMENTS", first.removeprefix("Invalid Input Error: "))
    if not isinstance(error, duckdb.Error):
        return UserError("LOGICAL_ERROR", f"{type(error).__name__}: {first}")
    return UserError("NOT_IMPLEMENTED", f"This query is not supported: {first}")
