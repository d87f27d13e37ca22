"""Pando's errors, classified by what the caller can do about them.

Every error carries ClickHouse's numeric code and name, so that clients written for ClickHouse recognise it. The classes
answer one question, "what may the caller do now?":

=====================  ============================================================
``UserError``          the request is wrong; change it;
``ConflictError``      somebody else was first; read the state again and retry;
``UnavailableError``   a service (ZooKeeper, a replica) is away; retry later;
``UnknownOutcomeError``  it may or may not have happened; ask before repeating;
``CorruptionError``    bytes on disk or wire are not what was written;
``CancelledError``     the caller, or a shutdown, stopped the work.
=====================  ============================================================

The classes are in ``parts`` because every other package may import it.
Source of the codes: ClickHouse's ``system.errors``.
"""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Self

CODES: dict[str, int] = {
    "UNSUPPORTED_METHOD": 1,
    "CANNOT_PARSE_TEXT": 6,
    "INCORRECT_NUMBER_OF_COLUMNS": 7,
    "THERE_IS_NO_COLUMN": 8,
    "NOT_FOUND_COLUMN_IN_BLOCK": 10,
    "DUPLICATE_COLUMN": 15,
    "NO_SUCH_COLUMN_IN_TABLE": 16,
    "CANNOT_PARSE_INPUT_ASSERTION_FAILED": 27,
    "ATTEMPT_TO_READ_AFTER_EOF": 32,
    "BAD_ARGUMENTS": 36,
    "CANNOT_PARSE_DATE": 38,
    "TOO_LARGE_SIZE_COMPRESSED": 39,
    "CHECKSUM_DOESNT_MATCH": 40,
    "CANNOT_PARSE_DATETIME": 41,
    "NUMBER_OF_ARGUMENTS_DOESNT_MATCH": 42,
    "ILLEGAL_TYPE_OF_ARGUMENT": 43,
    "ILLEGAL_COLUMN": 44,
    "UNKNOWN_FUNCTION": 46,
    "UNKNOWN_IDENTIFIER": 47,
    "NOT_IMPLEMENTED": 48,
    "LOGICAL_ERROR": 49,
    "UNKNOWN_TYPE": 50,
    "TYPE_MISMATCH": 53,
    "UNKNOWN_STORAGE": 56,
    "TABLE_ALREADY_EXISTS": 57,
    "ILLEGAL_TYPE_OF_COLUMN_FOR_FILTER": 59,
    "UNKNOWN_TABLE": 60,
    "SYNTAX_ERROR": 62,
    "ARGUMENT_OUT_OF_BOUND": 69,
    "CANNOT_CONVERT_TYPE": 70,
    "CANNOT_PARSE_NUMBER": 72,
    "UNKNOWN_FORMAT": 73,
    "CANNOT_OPEN_FILE": 76,
    "INCORRECT_QUERY": 80,
    "UNKNOWN_DATABASE": 81,
    "DATABASE_ALREADY_EXISTS": 82,
    "DIRECTORY_ALREADY_EXISTS": 84,
    "FILE_DOESNT_EXIST": 107,
    "UNKNOWN_SETTING": 115,
    "INCORRECT_DATA": 117,
    "ENGINE_REQUIRED": 119,
    "ILLEGAL_INDEX": 127,
    "ILLEGAL_DIVISION": 153,
    "TOO_MANY_ROWS": 158,
    "TOO_MANY_COLUMNS": 161,
    "ZERO_ARRAY_OR_TUPLE_INDEX": 135,
    "TOO_MANY_BYTES": 307,
    "TOO_MANY_PARTITIONS": 565,
    "READONLY": 164,
    "NOT_AN_AGGREGATE": 215,
    "VIOLATED_CONSTRAINT": 469,
    "QUERY_WITH_SAME_ID_IS_ALREADY_RUNNING": 216,
    "ILLEGAL_AGGREGATION": 184,
    "UNKNOWN_USER": 192,
    "WRONG_PASSWORD": 193,
    "EMPTY_LIST_OF_COLUMNS_QUERIED": 51,
    "COLUMN_QUERIED_MORE_THAN_ONCE": 52,
    "TIMEOUT_EXCEEDED": 159,
    "TOO_SLOW": 160,
    "SOCKET_TIMEOUT": 209,
    "NETWORK_ERROR": 210,
    "NO_ZOOKEEPER": 225,
    "UNEXPECTED_FILE_IN_DATA_PART": 227,
    "ABORTED": 236,
    "NO_REPLICA_HAS_PART": 234,
    "DUPLICATE_DATA_PART": 235,
    "NO_REPLICA_NAME_GIVEN": 237,
    "TOO_MANY_UNEXPECTED_DATA_PARTS": 231,
    "NO_SUCH_DATA_PART": 232,
    "BAD_DATA_PART_NAME": 233,
    "TABLE_IS_READ_ONLY": 242,
    "CORRUPTED_DATA": 246,
    "INVALID_PARTITION_VALUE": 248,
    "MULTIPLE_ASSIGNMENTS_TO_COLUMN": 419,
    "CANNOT_UPDATE_COLUMN": 420,
    "TOO_MANY_MUTATIONS": 692,
    "TOO_MANY_PARTS": 252,
    "REPLICA_ALREADY_EXISTS": 253,
    "NO_ACTIVE_REPLICAS": 254,
    "PARTITION_DOESNT_EXIST": 255,
    "PARTITION_ALREADY_EXISTS": 256,
    "PART_IS_TEMPORARILY_LOCKED": 384,
    "TOO_MANY_SIMULTANEOUS_QUERIES": 202,
    "UNSATISFIED_QUORUM_FOR_PREVIOUS_WRITE": 286,
    "INFINITE_LOOP": 269,
    "QUERY_IS_NOT_SUPPORTED_IN_MATERIALIZED_VIEW": 397,
    "INDEX_NOT_USED": 277,
    "TOO_FEW_LIVE_REPLICAS": 285,
    "UNKNOWN_FORMAT_VERSION": 287,
    "ALL_REPLICAS_ARE_STALE": 369,
    "REPLICA_IS_NOT_IN_QUORUM": 289,
    "TABLE_WAS_NOT_DROPPED": 305,
    "UNKNOWN_STATUS_OF_INSERT": 319,
    "CANNOT_ASSIGN_OPTIMIZE": 388,
    "INSERT_WAS_DEDUPLICATED": 389,
    "QUERY_WAS_CANCELLED": 394,
    "DECIMAL_OVERFLOW": 407,
    "VALUE_IS_OUT_OF_RANGE_OF_DATA_TYPE": 321,
    "INCOMPATIBLE_COLUMNS": 122,
    "METADATA_MISMATCH": 342,
    "UNFINISHED": 341,
    "BAD_TTL_EXPRESSION": 450,
    "INVALID_TRANSACTION": 649,
    "SERIALIZATION_ERROR": 650,
    "UNKNOWN_STATUS_OF_TRANSACTION": 659,
    "TABLE_IS_DROPPED": 218,
    "ASYNC_LOAD_FAILED": 695,
    "UNKNOWN_ELEMENT_OF_ENUM": 691,
    "CANNOT_DECOMPRESS": 271,
    "DATA_TYPE_CANNOT_BE_USED_IN_TABLES": 370,
    "DATA_TYPE_CANNOT_BE_USED_IN_KEY": 549,
    "ILLEGAL_SYNTAX_FOR_DATA_TYPE": 377,
    "SESSION_NOT_FOUND": 372,
    "SESSION_IS_LOCKED": 373,
    "SET_SIZE_LIMIT_EXCEEDED": 191,
    "MEMORY_LIMIT_EXCEEDED": 241,
    "REQUIRED_PASSWORD": 194,
    "AUTHENTICATION_FAILED": 516,
    "NO_FILE_IN_DATA_PART": 226,
    "CANNOT_PARSE_UUID": 376,
    "CANNOT_PARSE_IPV4": 675,
    "CANNOT_PARSE_IPV6": 676,
    "CANNOT_PARSE_BOOL": 467,
    "SUPPORT_IS_DISABLED": 344,
    "KEEPER_EXCEPTION": 999,
    "STD_EXCEPTION": 1001,
    "NO_ELEMENTS_IN_CONFIG": 139,
    "NUMBER_OF_COLUMNS_DOESNT_MATCH": 20,
    "TOO_LARGE_STRING_SIZE": 131,
    "CANNOT_READ_ARRAY_FROM_TEXT": 130,
    "CANNOT_PARSE_QUOTED_STRING": 26,
    "CANNOT_INSERT_NULL_IN_ORDINARY_COLUMN": 349,
    "INDEX_OF_POSITIONAL_ARGUMENT_IS_OUT_OF_RANGE": 353,
    "NO_COMMON_TYPE": 386,
    "SIZES_OF_ARRAYS_DONT_MATCH": 190,
    "INCORRECT_RESULT_OF_SCALAR_SUBQUERY": 125,
    "AMBIGUOUS_IDENTIFIER": 207,
    "BAD_TYPE_OF_FIELD": 169,
    "BAD_DATABASE_FOR_TEMPORARY_TABLE": 442,
    "ILLEGAL_FINAL": 181,
    "UNEXPECTED_EXPRESSION": 183,
    "ILLEGAL_PREWHERE": 182,
    "SAMPLING_NOT_SUPPORTED": 141,
    "UNKNOWN_QUERY_PARAMETER": 456,
    "INVALID_JOIN_ON_EXPRESSION": 403,
    "UNION_ALL_RESULT_STRUCTURES_MISMATCH": 258,
    "FUNCTION_THROW_IF_VALUE_IS_NON_ZERO": 395,
    "MULTIPLE_EXPRESSIONS_FOR_ALIAS": 179,
    "CYCLIC_ALIASES": 174,
    "CANNOT_PARSE_ESCAPE_SEQUENCE": 25,
    "CANNOT_READ_ALL_DATA": 33,
    "THERE_IS_NO_PROFILE": 180,
    "UNKNOWN_COMPRESSION_METHOD": 89,
    "TOO_LARGE_ARRAY_SIZE": 128,
    "ALTER_OF_COLUMN_IS_FORBIDDEN": 524,
    "CANNOT_ASSIGN_ALTER": 517,
    "CANNOT_FORGET_PARTITION": 716,
    "READONLY_SETTING": 472,
    "UNACCEPTABLE_URL": 491,
    "LIMIT_EXCEEDED": 290,
    "DATABASE_ACCESS_DENIED": 291,
    "CANNOT_EXTRACT_TABLE_STRUCTURE": 636,
    "CANNOT_APPEND_TO_FILE": 641,
    "TOO_DEEP_AST": 167,
    "TOO_BIG_AST": 168,
    "TOO_DEEP_RECURSION": 306,
    "NOT_ENOUGH_SPACE": 243,
    "TOO_MANY_ROWS_OR_BYTES": 396,
    "INVALID_SESSION_TIMEOUT": 374,
    "ACCESS_DENIED": 497,
    "CANNOT_COMPRESS": 270,
    "UNKNOWN_CODEC": 432,
    "SETTING_CONSTRAINT_VIOLATION": 452,
    "UNKNOWN_TYPE_OF_QUERY": 78,
    "UNEXPECTED_END_OF_FILE": 3,
    "CANNOT_COMPILE_REGEXP": 427,
    "CANNOT_ALLOCATE_MEMORY": 173,
    "CANNOT_SCHEDULE_TASK": 439,
    "FUNCTION_NOT_ALLOWED": 446,
    "TOO_LARGE_DISTRIBUTED_DEPTH": 581,
    "CANNOT_READ_FROM_FILE_DESCRIPTOR": 74,
    "CANNOT_WRITE_TO_FILE_DESCRIPTOR": 75,
    "QUERY_IS_PROHIBITED": 392,
    "BAD_QUERY_PARAMETER": 457,
    "DATABASE_NOT_EMPTY": 219,
    "INCORRECT_FILE_NAME": 79,
    "UNKNOWN_EXCEPTION": 1002,
    "TOO_MANY_TABLES": 724,
    "CANNOT_PARSE_DOMAIN_VALUE_FROM_STRING": 441,
    "HTTP_LENGTH_REQUIRED": 381,
    "INVALID_LIMIT_EXPRESSION": 440,
    "STORAGE_REQUIRES_PARAMETER": 55,
    "ALL_CONNECTION_TRIES_FAILED": 279,
    "DISTRIBUTED_IN_JOIN_SUBQUERY_DENIED": 288,
    "UNABLE_TO_SKIP_UNUSED_SHARDS": 507,
    "NO_REMOTE_SHARD_AVAILABLE": 519,
    "CLUSTER_DOESNT_EXIST": 701,
}
NAMES: dict[int, str] = {code: name for name, code in CODES.items()}


class PandoError(Exception):
    """Base of every error that Pando raises on purpose.

    ``name`` is ClickHouse's name (``SYNTAX_ERROR``); it determines the numeric ``code``. ``message`` names the wrong
    value and what to do about it.
    """

    def __init__(self, name: str, message: str) -> None:
        super().__init__(message)
        self.name = name
        self.code = CODES[name]
        self.message = message

    def __str__(self) -> str:
        return f"Code: {self.code}. DB::Exception: {self.message} ({self.name})"

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.name, self.message, self.__dict__))


def _rebuild(cls: type[PandoError], name: str, message: str, state: dict[str, object]) -> PandoError:
    error = cls.__new__(cls)
    PandoError.__init__(error, name, message)
    error.__dict__.update(state)
    return error


class UserError(PandoError):
    """The request is wrong: syntax, types, unknown names, values out of range."""


class ConflictError(PandoError):
    """Another actor changed the state first; read it again and retry."""


class UnavailableError(PandoError):
    """A needed service is away or the table cannot take this now; retry later."""


class UnknownOutcomeError(PandoError):
    """The request may or may not have taken effect (connection lost after it was sent)."""


class CancelledError(PandoError):
    """The work was stopped on request."""

    def __init__(self, message: str = "Query was cancelled") -> None:
        super().__init__("QUERY_WAS_CANCELLED", message)


class PartLabel(str):
    """A part's name for error messages. ``directory`` is where the part is now."""

    directory: Path

    def __new__(cls, name: str, directory: Path) -> Self:
        label = super().__new__(cls, name)
        label.directory = directory
        return label

    def __reduce__(self) -> tuple[object, ...]:
        return PartLabel, (str(self), self.directory)


class CorruptionError(PandoError):
    """Stored bytes do not match their checksum or layout, or cannot be read.

    ``part`` (a part name or ``None``), ``file`` (file name in the part) and ``offset`` (bytes) give the place. A
    :class:`PartLabel` also gives ``directory``, by which the part's table is found.
    """

    def __init__(
        self,
        message: str,
        *,
        part: str | None = None,
        file: str | None = None,
        offset: int | None = None,
        name: str = "CHECKSUM_DOESNT_MATCH",
    ) -> None:
        where = ", ".join(
            f"{label} {value}"
            for label, value in (("part", part), ("file", file), ("offset", offset))
            if value is not None
        )
        super().__init__(name, f"{message}: {where}" if where else message)
        self.part = part if part is None else str(part)
        self.directory = part.directory if isinstance(part, PartLabel) else None
        self.file = file
        self.offset = offset


def convert_resource_error(error: OSError | MemoryError | RuntimeError) -> Exception:
    """Converts an error of the operating system to Pando's; returns any other error unchanged.

    243 (NOT_ENOUGH_SPACE): the disk is full. 241: no memory. 439 (CANNOT_SCHEDULE_TASK): no thread. 76
    (CANNOT_OPEN_FILE): too many open files. 75 (CANNOT_WRITE_TO_FILE_DESCRIPTOR): the disk fails or is read-only.
    """
    if isinstance(error, RuntimeError):
        is_thread = str(error) == "can't start new thread"  # Python has no class for it
        return UnavailableError("CANNOT_SCHEDULE_TASK", f"Cannot start a thread: {error}") if is_thread else error
    if isinstance(error, MemoryError):
        return UserError("MEMORY_LIMIT_EXCEEDED", f"Cannot allocate memory: {error}")
    file = f": {error.filename}" if error.filename else ""
    if error.errno in (errno.EMFILE, errno.ENFILE):
        message = f"{error.strerror}{file}; raise the limit of open files (ulimit -n)"
        return UnavailableError("CANNOT_OPEN_FILE", message)
    if error.errno in (errno.EIO, errno.EROFS):
        return UnavailableError("CANNOT_WRITE_TO_FILE_DESCRIPTOR", f"The disk failed ({error.strerror}){file}")
    if error.errno in _DISK_IS_FULL:
        return UnavailableError("NOT_ENOUGH_SPACE", f"Not enough space on disk ({error.strerror}){file}")
    return error


_DISK_IS_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


_CORRUPT = (
    "CHECKSUM_DOESNT_MATCH", "CORRUPTED_DATA", "NO_FILE_IN_DATA_PART", "UNEXPECTED_FILE_IN_DATA_PART",
    "CANNOT_READ_FROM_FILE_DESCRIPTOR",
)  # fmt: skip
_UNKNOWN = ("UNKNOWN_STATUS_OF_INSERT", "UNKNOWN_STATUS_OF_TRANSACTION", "UNFINISHED")
_UNAVAILABLE = (
    "KEEPER_EXCEPTION", "NETWORK_ERROR", "TABLE_IS_READ_ONLY", "TOO_FEW_LIVE_REPLICAS", "ALL_REPLICAS_ARE_STALE",
)  # fmt: skip


def make_error_from_code(code: int, message: str) -> PandoError:
    """Rebuilds the error that another server reported by its code."""
    name = NAMES.get(code, "STD_EXCEPTION")
    if name in _CORRUPT:
        return CorruptionError(message, name=name)
    if name in _UNKNOWN:
        return UnknownOutcomeError(name, message)
    if name in _UNAVAILABLE:
        return UnavailableError(name, message)
    return UserError(name, message)
