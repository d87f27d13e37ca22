"""Checks the fields of a link's JSON messages.

Whatever is missing or of another type raises 36 (BAD_ARGUMENTS), which names the field. Unknown fields are ignored: a
newer version may send them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from coordination.links.positions import MAX_ZXID
from parts.common.errors import UserError

Document = Mapping[str, Any]
MAX_REQUEST_BYTES = 1 << 20
"""A request names a table, a link and a vector of at most 64 KiB."""
MAX_ANSWER_BYTES = 256 << 20
_SHOWN_CHARACTERS = 200


def parse_document(data: bytes, what: str) -> Document:
    """Parses a JSON object. ``what`` names it in errors."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise UserError("BAD_ARGUMENTS", f"The {what} is not JSON: {error}") from None
    if not isinstance(document, dict):
        raise UserError("BAD_ARGUMENTS", f"The {what} must be a JSON object, got {type(document).__name__}")
    return document


def to_bytes(document: Document) -> bytes:
    """Encodes a JSON object."""
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()


def get_text(document: Document, name: str, default: str | None = None) -> str:
    """Returns a string, or the default."""
    value = document.get(name, default)
    if not is_text(value):
        _refuse(name, "a string", value)
    return str(value)


def get_number(document: Document, name: str, default: int | None = None, *, most: int = MAX_ZXID) -> int:
    """Returns a whole number from 0 to ``most``, or the default."""
    value = document.get(name, default)
    if not is_number(value) or value > most:
        _refuse(name, f"a number of 0 to {most}", value)
    return int(value)


def get_seconds(document: Document, name: str, most: float) -> float:
    """Returns a duration, at most ``most``; 0 if it is missing."""
    value = document.get(name, 0)
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
        _refuse(name, "a number of seconds", value)
    return float(min(value, most))


def get_flag(document: Document, name: str) -> bool:
    """Returns a boolean; False if it is missing."""
    value = document.get(name, False)
    if not isinstance(value, bool):
        _refuse(name, "true or false", value)
    return value


def get_object(document: Document, name: str) -> Document:
    """Returns an object."""
    value = document.get(name)
    if not isinstance(value, dict):
        _refuse(name, "an object", value)
    return value


def get_list(document: Document, name: str) -> Sequence[Any]:
    """Returns a list; an empty one if it is missing."""
    value = document.get(name, [])
    if not isinstance(value, list):
        _refuse(name, "a list", value)
    return value


def get_objects(document: Document, name: str) -> Sequence[Document]:
    """Returns a list of objects; an empty one if it is missing."""
    value = get_list(document, name)
    if not all(isinstance(item, dict) for item in value):
        _refuse(name, "a list of objects", value)
    return value


def get_texts(document: Document, name: str) -> tuple[str, ...]:
    """Returns a list of strings; an empty one if it is missing."""
    value = get_list(document, name)
    if not all(map(is_text, value)):
        _refuse(name, "a list of strings", value)
    return tuple(value)


def get_numbers(document: Document, name: str) -> tuple[int, ...]:
    """Returns a list of whole numbers; an empty one if it is missing."""
    value = get_list(document, name)
    if not all(map(is_number, value)):
        _refuse(name, "a list of numbers", value)
    return tuple(value)


def get_numbered(document: Document, name: str) -> tuple[tuple[str, int], ...]:
    """Returns a list of pairs of a partition and a number."""
    value = get_list(document, name)
    for pair in value:
        if not (isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str) and is_number(pair[1])):
            _refuse(name, "a list of pairs of a partition and a number", pair)
    return tuple((partition_id, number) for partition_id, number in value)


def is_text(value: object) -> bool:
    """Returns whether the value is a string that UTF-8 can encode: JSON also writes halves of characters."""
    return isinstance(value, str) and (value.isascii() or not any("\ud800" <= char <= "\udfff" for char in value))


def is_number(value: object) -> bool:
    """Returns whether the value is a whole number of 0 to 2⁶³ - 1."""
    return type(value) is int and 0 <= value <= MAX_ZXID


def _refuse(name: str, expected: str, value: object) -> NoReturn:
    raise UserError("BAD_ARGUMENTS", f"{name!r} must be {expected}, got {repr(value)[:_SHOWN_CHARACTERS]}")
