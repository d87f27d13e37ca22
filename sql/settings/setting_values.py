"""Parses values of settings as ClickHouse does, with one parser for each type of setting."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from zoneinfo import ZoneInfo

from parts.common.errors import UserError
from sql.settings.clickhouse_settings import load_clickhouse_settings

SettingValue = bool | int | float | str
CLICKHOUSE_DIALECT = "clickhouse"
DIALECTS = (
    CLICKHOUSE_DIALECT, "athena", "bigquery", "databricks", "doris", "dremio", "drill", "druid", "duckdb", "dune",
    "exasol", "fabric", "hive", "materialize", "mysql", "oracle", "postgres", "presto", "redshift", "risingwave",
    "snowflake", "spark", "spark2", "sqlite", "starrocks", "teradata", "trino", "tsql",
)  # fmt: skip
"""ClickHouse's own dialect, and sqlglot's SQL dialects."""
_DIALECTS_LEFT_OUT = ("clickhouse_json", "kusto", "polyglot", "promql", "prql")
Parser = Callable[[str, object], SettingValue]


def parse_setting_value(type: str, name: str, value: object) -> SettingValue:
    """Returns the typed value.

    Raises 27, 36, 69, 72 or 467 for a value that is not of the type, naming setting and value.
    """
    parser = _PARSERS.get(type)
    return parser(name, value) if parser is not None else _parse_enum(type, name, value)


def format_setting_value(value: SettingValue) -> str:
    """Formats a value as ``system.settings`` shows it."""
    if isinstance(value, bool):
        return str(int(value))
    return f"{value:.15g}" if isinstance(value, float) else str(value)


def is_timezone(name: str) -> bool:
    """Returns whether a time zone with this name exists."""
    try:
        ZoneInfo(name)
    except (OSError, ValueError, KeyError):
        return False
    return True


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
    digits, unit = _UNITED.fullmatch(str(value).strip()).groups()  # type: ignore[union-attr]
    try:
        return int(digits) * _UNITS[unit]
    except ValueError:
        raise UserError(
            "CANNOT_PARSE_NUMBER", f"Cannot parse {str(value)!r} as an integer for setting {name}"
        ) from None


_UNITS = {None: 1} | {
    letter + suffix: base**power
    for power, letters in enumerate(("kK", "M", "G", "T"), 1)
    for letter in letters
    for suffix, base in (("", 1000), ("i", 1024))
}
"""Suffixes of a number: 10M, 64Ki."""
_UNITED = re.compile(rf"(.*?)((?<=\d)(?:{'|'.join(unit for unit in _UNITS if unit)}))?", re.DOTALL)


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


def _or_auto(parse: Parser) -> Parser:
    def parser(name: str, value: object) -> SettingValue:
        return "auto" if str(value).strip().lower() == "auto" else parse(name, value)

    return parser


def _parse_threads(name: str, value: object) -> int:
    """Parses a number of threads; 0 is ``auto``: as many as there are."""
    return 0 if re.fullmatch(r"auto(\(\d+\))?", str(value).strip(), re.IGNORECASE) else _parse_unsigned(name, value)


def _parse_float(name: str, value: object) -> float:
    try:
        return float(str(value).strip())
    except ValueError:
        raise UserError("CANNOT_PARSE_NUMBER", f"Cannot parse {str(value)!r} as a number for setting {name}") from None


def _parse_timezone(name: str, value: object) -> str:
    if value != "" and not is_timezone(str(value)):
        raise UserError("BAD_ARGUMENTS", f"Invalid time zone {str(value)!r} for setting {name}")
    return str(value)


def _parse_map(name: str, value: object) -> str:
    text = str(value).strip()
    if not (text.startswith("{") and text.endswith("}")):
        raise UserError(
            "CANNOT_PARSE_INPUT_ASSERTION_FAILED",
            f"Cannot parse {text!r} as a map for setting {name}: use {{'a': 'b'}}",
        )
    return text


def _parse_enum(type: str, name: str, value: object) -> str:
    table = load_clickhouse_settings()
    values = table.enums.get(type)
    text = str(value)
    given = [item.strip() for item in text.split(",")] if type in table.lists else [text]
    wrong = [item for item in given if values is not None and item not in values]
    if wrong and wrong != [""]:
        known = ", ".join(repr(item) for item in sorted(values or ()))
        raise UserError("BAD_ARGUMENTS", f"Unexpected value {text!r} of setting {name}. Must be one of {known}")
    return text


def _parse_seconds(name: str, value: object) -> float:
    """Parses seconds. A number that is not positive means no limit."""
    text = str(float(value)) if isinstance(value, bool) else str(value)
    number = _NUMBER.match(text)
    if number is None:
        raise UserError("CANNOT_PARSE_NUMBER", f"Cannot parse {text!r} as seconds for setting {name}")
    if number.end() < len(text):
        raise UserError(
            "CANNOT_PARSE_INPUT_ASSERTION_FAILED",
            f"Cannot parse {text!r} as seconds for setting {name}: a number ends before {text[number.end() :]!r}",
        )
    seconds = float(text)
    if not math.isfinite(seconds):
        raise UserError("CANNOT_PARSE_NUMBER", f"Value {text} of setting {name} must be finite")
    if abs(seconds) > _MOST_SECONDS:
        raise UserError("BAD_ARGUMENTS", f"Value {text} of setting {name} is too big for microseconds of 64 bits")
    return seconds


_NUMBER = re.compile(r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?|inf(?:inity)?|nan)", re.IGNORECASE)
_MOST_SECONDS = 9223372036854.775


def _parse_dialect(name: str, value: object) -> str:
    text = str(value).lower()
    if text in DIALECTS:
        return text
    known = ", ".join(repr(dialect) for dialect in DIALECTS)
    if text in _DIALECTS_LEFT_OUT:
        raise UserError("NOT_IMPLEMENTED", f"Setting {name} = {text!r} is not supported; accepted are {known}")
    raise UserError("BAD_ARGUMENTS", f"Unexpected value {str(value)!r} of setting {name}. Must be one of {known}")


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


_PARSERS: dict[str, Parser] = {
    "Bool": _parse_bool,
    "UInt64": _parse_unsigned,
    "NonZeroUInt64": _parse_positive,
    "Int64": _parse_integer,
    "UInt64Auto": _or_auto(_parse_unsigned),
    "UInt32": _parse_unsigned,
    "Int32": _parse_integer,
    "MaxThreads": _parse_threads,
    "BoolAuto": _or_auto(_parse_bool),
    "Float": _parse_float,
    "Double": _parse_float,
    "FloatAuto": _or_auto(_parse_float),
    "URI": _parse_text,
    "Timezone": _parse_timezone,
    "Map": _parse_map,
    "Milliseconds": _parse_unsigned,
    "Seconds": _parse_seconds,
    "String": _parse_text,
    "Char": _parse_char,
    "Dialect": _parse_dialect,
}
