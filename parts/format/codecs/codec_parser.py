"""Parse the text inside ``CODEC(…)`` to a :class:`Codec`, with ClickHouse's checks and error codes."""

from __future__ import annotations

import re

from parts.common.errors import UserError
from parts.format.codecs.codec_chain import DELTA, DOUBLE_DELTA, Codec
from parts.types import ArrayType, DataType, strip_nullable

DEFAULT_CODEC = "LZ4"
_ITEM = re.compile(r"\s*([A-Za-z_]\w*)\s*(?:\(([^()]*)\))?\s*(,|$)")
_MAX_CHAIN = 6
_NOT_SUPPORTED = (
    "T64",
    "GORILLA",
    "FPC",
    "GCD",
    "ALP",
    "DEFLATE_QPL",
    "ZSTD_QAT",
    "AES_128_GCM_SIV",
    "AES_256_GCM_SIV",
)


def parse_codec(text: str, type_: DataType, default: str = DEFAULT_CODEC) -> Codec:
    """Parses and validates e.g. ``Delta(4), ZSTD(1)`` for a column of ``type_``; ``""`` is the default.

    Raises ``UserError`` 36 (BAD_ARGUMENTS), 62 (SYNTAX_ERROR), 48 (NOT_IMPLEMENTED).
    """
    transforms: list[int] = []
    final: Codec | None = None
    for name, argument in _split(text or default):
        if final is not None:
            raise UserError("BAD_ARGUMENTS", f"CODEC({text}): nothing may follow the compression codec {final.text}")
        if name in ("DELTA", "DOUBLEDELTA"):
            transforms.append((DELTA if name == "DELTA" else DOUBLE_DELTA) + _log2_width(name, argument, type_, text))
        elif name == "DEFAULT":
            final = parse_codec(default, type_)
        else:
            final = _compressor(name, argument, text)
    if final is None:
        raise UserError(
            "BAD_ARGUMENTS",
            f"CODEC({text}) only prepares data and compresses nothing: add a compressor, e.g. CODEC({text}, LZ4)",
        )
    if transforms and not final.compressor:
        raise UserError("BAD_ARGUMENTS", f"CODEC({text}): NONE must stand alone")
    if len(transforms) > _MAX_CHAIN:
        raise UserError("BAD_ARGUMENTS", f"CODEC({text}) has more than {_MAX_CHAIN} transforms")
    return Codec(text or default, tuple(transforms), final.compressor, final.level)


def _split(text: str) -> list[tuple[str, int | None]]:
    items: list[tuple[str, int | None]] = []
    position = 0
    while True:
        match = _ITEM.match(text, position)
        if match is None:
            raise UserError("SYNTAX_ERROR", f"Syntax error in CODEC({text}) at position {position}: expected a codec")
        name, argument, separator = match.groups()
        if argument is not None and not re.fullmatch(r"\s*\d+\s*", argument):
            raise UserError("BAD_ARGUMENTS", f"Argument {argument!r} of codec {name} must be one unsigned integer")
        items.append((name.upper(), int(argument) if argument is not None else None))
        position = match.end()
        if not separator:
            return items


def _compressor(name: str, argument: int | None, text: str) -> Codec:
    if name in ("NONE", "LZ4") and argument is None:
        return Codec(name, (), "" if name == "NONE" else name)
    if name == "LZ4HC":
        level = 9 if argument is None else argument
        if not 1 <= level <= 12:
            raise UserError("BAD_ARGUMENTS", f"LZ4HC level {level} must be 1 to 12")
        return Codec(f"LZ4HC({level})", (), "LZ4HC", level)
    if name == "ZSTD":
        level = 1 if argument is None else argument
        if not 1 <= level <= 22:
            raise UserError("BAD_ARGUMENTS", f"ZSTD level {level} must be 1 to 22")
        return Codec(f"ZSTD({level})", (), "ZSTD", level)
    if name in ("NONE", "LZ4"):
        raise UserError("BAD_ARGUMENTS", f"Codec {name} takes no argument, given {argument}")
    if name in _NOT_SUPPORTED:
        raise UserError(
            "NOT_IMPLEMENTED", f"Codec {name} in CODEC({text}) is not supported; use Delta, DoubleDelta or ZSTD"
        )
    raise UserError("UNKNOWN_CODEC", f"Unknown codec family: {name} in CODEC({text})")


def _log2_width(name: str, argument: int | None, type_: DataType, text: str) -> int:
    width = _value_width(type_)
    if width is None:
        raise UserError("BAD_ARGUMENTS", f"Codec {name} in CODEC({text}) is not applicable to the type {type_}")
    width = width if argument is None else argument
    if width not in (1, 2, 4, 8):
        raise UserError("BAD_ARGUMENTS", f"{name} value must be 1, 2, 4 or 8 bytes, given {width}")
    return width.bit_length() - 1


def _value_width(type_: DataType) -> int | None:
    """Returns the bytes of a stored value if the type has a fixed width, otherwise ``None``."""
    bare = strip_nullable(type_)
    while isinstance(bare, ArrayType):
        bare = strip_nullable(bare.inner)
    return bare.codec_width_bytes
