"""The process's one DuckDB: in memory, with Pando's kernels and macros.

It has no access to files, network or configuration, and only SQL that the compilers write reaches it, never a user's
text. A cursor serves one query. While it runs only its memory limit changes. What sorts, joins and aggregations cannot
hold in memory goes to a spill directory, which exists only while it is needed.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import tempfile
import threading
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import duckdb

from parts.common.errors import NAMES, CancelledError, PandoError, UnavailableError, UserError
from sql.compile.macros_and_kernels import KERNELS, MACROS, find_macro_names
from sql.functions import memory_guards
from sql.functions.introspection import block_rows
from sql.typing.column_kernels import kernels
from sql.typing.typed_expressions import string_literal_text

_LONG_TEXT = 10_000
_PANDO_ERROR = re.compile(r"pando:(\d+):(.*?)(?:\n|$)", re.DOTALL)
_lock = threading.Lock()
_created_macros: set[str] = set()
"""The macros that were created in DuckDB."""


@dataclass
class SpillSettings:
    """The directory for intermediate results that do not fit in memory, and their limit.

    ``most_bytes`` of 0 means half of the disk.
    """

    directory: Path
    most_bytes: int = 0


_spill = SpillSettings(Path(tempfile.gettempdir()) / f"pando-spill-{os.getpid()}")


def configure_spill(spill: SpillSettings) -> None:
    """Sets the spill directory of the process; call it before the first query."""
    global _spill
    _spill = spill


@cache
def _connection() -> duckdb.DuckDBPyConnection:
    config = {
        "enable_external_access": "false",
        "autoload_known_extensions": "false",
        "temp_directory": str(_spill.directory),
    }
    connection = duckdb.connect(":memory:", config=config)
    connection.execute(f"SET max_temp_directory_size = '{_spill.most_bytes or _half_of_disk(_spill.directory)}B'")
    kernels.register(connection, KERNELS)
    _created_macros.clear()
    memory_guards.register(connection)
    block_rows.register(connection)
    connection.execute("SET allowed_configs = ['memory_limit']")
    connection.execute("SET lock_configuration = true")
    return connection


def _half_of_disk(directory: Path) -> int:
    existing = next(parent for parent in directory.absolute().parents if parent.exists())
    return shutil.disk_usage(existing).free // 2


def set_memory_limit(limit_bytes: int) -> bool:
    """Sets how much all queries together may hold in DuckDB's buffers.

    Returns ``False`` when they hold more and cannot free it.
    """
    try:
        with open_cursor() as setter:
            setter.execute(f"SET memory_limit = '{limit_bytes}B'")
    except duckdb.OutOfMemoryException:
        return False
    return True


def release_memory(limit_bytes: int) -> None:
    """Frees buffers that DuckDB keeps for later; ``limit_bytes`` is its limit afterwards."""
    set_memory_limit(1 << 20)
    set_memory_limit(limit_bytes)


@atexit.register
def _close() -> None:
    """Closes the connection at exit: DuckDB's binding complains about open ones."""
    if _connection.cache_info().currsize:
        _connection().close()
        _connection.cache_clear()


def open_cursor() -> duckdb.DuckDBPyConnection:
    """Returns a connection of its own for one query; close it."""
    with _lock:
        return _connection().cursor()


def prepare_sql(sql: str) -> str:
    """Creates the macros that the statement uses; returns the statement in a form that is quick to parse.

    DuckDB parses a statement with the interpreter locked, about a megabyte a second. It parses the argument of
    ``query`` only when it plans, without the lock, so a long statement is passed that way.
    """
    missing = find_macro_names(sql) - _created_macros
    if missing:
        with _lock:
            _create_macros(missing)
    return sql if len(sql) <= _LONG_TEXT else f"SELECT * FROM query({string_literal_text(sql)})"


def _create_macros(macros: set[str]) -> None:
    """Creates the macros, and before each those that it uses."""
    for name in sorted(macros):
        if name not in _created_macros:
            _create_macros(find_macro_names(MACROS[name].partition(")")[2]))
            _connection().execute(f"CREATE MACRO {MACROS[name]}")
            _created_macros.add(name)


def translate_error(error: Exception) -> PandoError:
    """Translates DuckDB's error to Pando's."""
    if isinstance(error, PandoError):
        return error
    message = str(error)
    own = _PANDO_ERROR.search(message)
    if own is not None and int(own.group(1)) in NAMES:
        return UserError(NAMES[int(own.group(1))], own.group(2).strip())
    first = next((line for line in message.split("\n") if line.strip()), repr(error))
    # Errors of a stream that Arrow reads are Arrow's errors with DuckDB's text.
    if isinstance(error, duckdb.InterruptException) or "INTERRUPT Error" in first:
        return CancelledError()
    if isinstance(error, (duckdb.OutOfMemoryException, MemoryError)) or "Out of Memory Error" in first:
        return _out_of_memory(first)
    if "No space left on device" in first:
        return UnavailableError(
            "NOT_ENOUGH_SPACE", f"Not enough space on disk for what does not fit in memory: {first}"
        )
    if isinstance(error, duckdb.ConversionException) or "Conversion Error" in first:
        text = first.rpartition("Conversion Error: ")[2]
        if "DECIMAL" in text:
            return UserError("DECIMAL_OVERFLOW", f"Decimal overflow: {text}")
        return UserError("CANNOT_PARSE_TEXT", f"Cannot convert a value: {text}")
    if isinstance(error, duckdb.OutOfRangeException) or "Out of Range Error" in first:
        name = "DECIMAL_OVERFLOW" if "DECIMAL" in first else "VALUE_IS_OUT_OF_RANGE_OF_DATA_TYPE"
        return UserError(name, first.rpartition("Out of Range Error: ")[2])
    if "must not end with escape character" in message:
        return UserError("CANNOT_PARSE_ESCAPE_SEQUENCE", "Invalid escape sequence at the end of a LIKE pattern")
    if "expression depth limit" in message:
        return UserError("TOO_DEEP_AST", "The query is nested too deeply")
    if "More than one row returned" in message:
        return UserError("INCORRECT_RESULT_OF_SCALAR_SUBQUERY", "Scalar subquery returned more than one row")
    if isinstance(error, (duckdb.InvalidInputException,)):
        return UserError("BAD_ARGUMENTS", first.removeprefix("Invalid Input Error: "))
    if not isinstance(error, duckdb.Error):
        return UserError("LOGICAL_ERROR", f"{type(error).__name__}: {first}")
    return UserError("NOT_IMPLEMENTED", f"This query is not supported: {first}")


def _out_of_memory(message: str) -> PandoError:
    text = message.rpartition("Out of Memory Error: ")[2]
    if "max_temp_directory_size" in text or "temp directory" in text:
        return UserError(
            "TOO_MANY_ROWS_OR_BYTES",
            f"Limit for temporary files size exceeded (max_temporary_data_on_disk_size): {text}",
        )
    return UserError(
        "MEMORY_LIMIT_EXCEEDED",
        f"Memory limit exceeded: {text}. The limit follows max_memory_usage of the queries that run",
    )
