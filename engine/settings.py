"""The session settings: ClickHouse's names, types and defaults, for those that work here.

A setting comes from a URL parameter, ``SET``, a statement's ``SETTINGS`` clause, or the configuration, and is
checked in one place: :func:`parse_setting`. What is not in the table is refused (115), never ignored.
Source of names and defaults: ClickHouse's ``system.settings``.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from parts.errors import UserError

SettingValue = bool | int | float | str


@dataclass(frozen=True, slots=True)
class Setting:
    name: str
    type: str
    default: SettingValue
    description: str


def _table(*settings: Setting) -> dict[str, Setting]:
    return {setting.name: setting for setting in sorted(settings, key=lambda setting: setting.name)}


SETTINGS: dict[str, Setting] = _table(
    # inserts and quorum
    Setting("insert_quorum", "UInt64Auto", 0, "Replicas that must have a block before INSERT returns, or auto"),
    Setting("insert_quorum_parallel", "Bool", True, "Quorum inserts do not wait for each other"),
    Setting("insert_quorum_timeout", "Milliseconds", 600_000, "How long an INSERT waits for its quorum"),
    Setting("select_sequential_consistency", "Bool", False, "SELECT sees exactly what reached its quorum"),
    Setting("insert_deduplicate", "Bool", True, "Blocks inserted before are dropped (Replicated tables)"),
    Setting("insert_deduplication_token", "String", "", "Identifies the inserted data in place of its hash"),
    Setting("max_partitions_per_insert_block", "UInt64", 100, "Partitions a block may touch (252); 0: any number"),
    Setting("max_insert_block_size", "NonZeroUInt64", 1_048_449, "Rows in a block that INSERT forms from its data"),
    Setting("min_insert_block_size_rows", "UInt64", 1_048_449, "INSERT joins smaller blocks up to this number of rows"),
    Setting("min_insert_block_size_bytes", "UInt64", 268_402_944, "A block of an INSERT ends at this size; 0: any"),
    # reading
    Setting("max_block_size", "NonZeroUInt64", 65_409, "Rows in a block of a result"),
    Setting("max_threads", "UInt64", 0, "Threads that decode what a query reads (0: the whole pool)"),
    Setting("max_execution_time", "Seconds", 0.0, "Seconds after which a query is ended (159); 0: none"),
    Setting("join_use_nulls", "Bool", False, "Missing cells of outer joins are NULL, not the type's default"),
    Setting("max_query_size", "UInt64", 262_144, "Bytes of SQL text that a query may have, without INSERT data"),
    Setting("readonly", "UInt64", 0, "1: only reading and no change of settings; 2: only reading"),
    # tables and replication
    Setting("check_query_single_value_result", "Bool", False, "CHECK TABLE answers with one row: whether all is well"),
    Setting("optimize_throw_if_noop", "Bool", False, "OPTIMIZE that had nothing to do is an error (388)"),
    Setting("receive_timeout", "Seconds", 300.0, "How long SYSTEM SYNC REPLICA waits"),
    # the HTTP interface
    Setting("wait_end_of_query", "Bool", False, "The whole answer is made before its first byte is sent"),
    Setting("http_response_buffer_size", "UInt64", 1_048_576, "Bytes of an answer held back before the first is sent"),
    Setting("enable_http_compression", "Bool", False, "Answers are compressed as the client's Accept-Encoding allows"),
    Setting("http_zlib_compression_level", "Int64", 3, "Level of gzip and deflate answers"),
    Setting("default_format", "String", "", "Format of answers to queries without FORMAT"),
    # formats
    Setting("format_csv_delimiter", "Char", ",", "The character between CSV fields"),
    Setting("input_format_skip_unknown_fields", "Bool", True, "Fields that are no column are skipped"),
    Setting("input_format_null_as_default", "Bool", True, "NULL for a column that cannot hold it becomes its default"),
    Setting("input_format_defaults_for_omitted_fields", "Bool", True, "Omitted fields get their DEFAULT expression"),
    Setting("input_format_csv_empty_as_default", "Bool", True, "Empty CSV fields are defaults"),
    Setting("date_time_input_format", "String", "basic", "How text of date and time is read: basic or best_effort"),
    Setting("output_format_json_quote_64bit_integers", "Bool", False, "64-bit integers are strings in JSON"),
    Setting("output_format_json_quote_denormals", "Bool", False, "nan and inf are strings in JSON, not null"),
    Setting("output_format_json_quote_64bit_floats", "Bool", False, "64-bit floats are strings in JSON"),
    Setting("output_format_json_named_tuples_as_objects", "Bool", True, "Named tuples are objects in JSON"),
    Setting("output_format_json_quote_decimals", "Bool", False, "Decimals are strings in JSON"),
    Setting("output_format_json_escape_forward_slashes", "Bool", True, "/ is written as \\/ in JSON"),
    Setting("output_format_pretty_max_rows", "UInt64", 1000, "Rows that Pretty formats show"),
    Setting("output_format_pretty_max_value_width", "UInt64", 10_000, "Characters of a value that Pretty formats show"),
    Setting("output_format_pretty_max_column_pad_width", "UInt64", 250, "Widest padding of a column in Pretty formats"),
    Setting("output_format_pretty_color", "Bool", False, "Pretty formats use colours"),
    Setting("output_format_pretty_row_numbers", "Bool", True, "Pretty formats number the rows"),
    Setting("output_format_write_statistics", "Bool", True, "JSON formats tell elapsed time and rows read"),
)  # fmt: skip

_DEFAULTS: dict[str, SettingValue] = {name: setting.default for name, setting in SETTINGS.items()}


def default_settings() -> dict[str, object]:
    """A fresh dictionary of every setting's default."""
    return dict(_DEFAULTS)


def nearest_names(name: str, known: Iterable[str]) -> str:
    """``". Maybe you meant …"`` for an unknown name, or ``""``."""
    near = difflib.get_close_matches(name, list(known), n=3, cutoff=0.7)
    return f". Maybe you meant {' or '.join(near)}" if near else ""


def is_timezone(name: str) -> bool:
    from zoneinfo import ZoneInfo

    try:
        ZoneInfo(name)
    except (OSError, ValueError, KeyError):
        return False
    return True


def parse_setting(name: str, value: object) -> SettingValue:
    """The typed value. Raises 115 (UNKNOWN_SETTING) and, for a value of another type, 27, 36, 69 or 72."""
    setting = SETTINGS.get(name)
    if setting is None:
        raise UserError("UNKNOWN_SETTING", f"Unknown setting {name!r}{nearest_names(name, SETTINGS)}")
    return _PARSERS[setting.type](name, value)


def _parse_bool(name: str, value: object) -> bool:
    if isinstance(value, bool):
        return value
    text = str(value).strip().lower()
    if text in ("1", "true"):
        return True
    if text in ("0", "false"):
        return False
    raise UserError(
        "CANNOT_PARSE_BOOL", f"Cannot parse {str(value)!r} as a Bool for setting {name}: use 0, 1, true or false"
    )


def _parse_integer(name: str, value: object) -> int:
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    try:
        return int(str(value).strip())
    except ValueError:
        raise UserError(
            "CANNOT_PARSE_NUMBER", f"Cannot parse {str(value)!r} as an integer for setting {name}"
        ) from None


def _parse_unsigned(name: str, value: object) -> int:
    number = _parse_integer(name, value)
    if not 0 <= number < 1 << 64:
        raise UserError(
            "ARGUMENT_OUT_OF_BOUND", f"Value {number} of setting {name} is out of range: it must be 0 or greater"
        )
    return number


def _parse_positive(name: str, value: object) -> int:
    number = _parse_unsigned(name, value)
    if number == 0:
        raise UserError("BAD_ARGUMENTS", f"Value 0 of setting {name}: it must be greater than 0")
    return number


def _parse_auto(name: str, value: object) -> int | str:
    if str(value).strip().lower() == "auto":
        return "auto"
    return _parse_unsigned(name, value)


def _parse_seconds(name: str, value: object) -> float:
    try:
        seconds = float(str(value).strip())
    except ValueError:
        raise UserError("CANNOT_PARSE_NUMBER", f"Cannot parse {str(value)!r} as seconds for setting {name}") from None
    if not 0 <= seconds < 1e12:
        raise UserError(
            "ARGUMENT_OUT_OF_BOUND", f"Value {value} of setting {name} is out of range: it must be 0 or greater"
        )
    return seconds


def _parse_text(name: str, value: object) -> str:
    if isinstance(value, bool):
        return str(int(value))
    return str(value)


def _parse_char(name: str, value: object) -> str:
    text = str(value)
    if len(text) == 3 and text[0] == text[2] == "'":
        text = text[1]
    text = {"\\t": "\t", "\\\\": "\\"}.get(text, text)
    if len(text) != 1 or len(text.encode()) != 1:
        raise UserError("BAD_ARGUMENTS", f"Value {str(value)!r} of setting {name} must be a single character")
    return text


_PARSERS: dict[str, Callable[[str, object], SettingValue]] = {
    "Bool": _parse_bool,
    "UInt64": _parse_unsigned,
    "NonZeroUInt64": _parse_positive,
    "Int64": _parse_integer,
    "UInt64Auto": _parse_auto,
    "Milliseconds": _parse_unsigned,
    "Seconds": _parse_seconds,
    "String": _parse_text,
    "Char": _parse_char,
}
