"""String literals given as bytes: ``b'01000001'`` and ``x'41'``."""

from __future__ import annotations

from parts.common.errors import UserError


def decode_byte_literal(literal: str) -> str:
    """Returns the text of a ``b'…'`` or ``x'…'`` literal.

    The first byte may have fewer digits. Raises 117 (INCORRECT_DATA) for bytes that are not UTF-8.
    """
    digits = literal[2:-1]
    base, width = (2, 8) if literal[0] in "bB" else (16, 2)
    if base == 16:
        value = bytes.fromhex(digits.zfill(len(digits) + len(digits) % width))
    else:
        value = int(digits or "0", base).to_bytes(-(-len(digits) // width))
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise UserError("INCORRECT_DATA", f"Invalid UTF-8 in the literal {literal[:100]}") from None
