"""Values of settings, read as ClickHouse reads them: one parser for each of its types of settings."""

from __future__ import annotations

from collections.abc import Callable
from zoneinfo import ZoneInfo

from parts.errors import UserError

SettingValue = bool | int | float | str


def parse_value(type: str, name: str, value: object) -> SettingValue:
    """Raises, for a value that is not of the type, 27, 36, 69, 72 or 467, naming setting and value."""
    return _PARSERS[type](name, value)


def is_timezone(name: str) -> bool:
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
