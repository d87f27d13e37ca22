"""Resolves backslash escapes and doubled quotes inside one quoted literal or name."""

import re

from parts.common.errors import UserError

_ESCAPED_PIECES = {
    quote: re.compile(rf"(?:[^{quote}\\]{{0,100}}+(?:\\.|{quote}{quote})){{1,1000}}+", re.DOTALL) for quote in "'`\""
}
_ESCAPES = {"a": "\a", "b": "\b", "e": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "0": "\0"}
_RESOLVED = {**{char: char for char in "'\"`/=" + "".join(map(chr, range(32)))}, **_ESCAPES, "N": ""}


def check_utf8(text: str) -> None:
    """Raises 117 (INCORRECT_DATA) for a literal or a name that is not UTF-8.

    No column could have it as its value or as its name.
    """
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            shown = text.encode("utf-8", "replace").decode()
            raise UserError("INCORRECT_DATA", f"Invalid UTF-8 in the statement: {shown[:100]}") from None


def resolve_escapes(body: str, quote: str) -> str:
    """Returns the body of a text in ``quote`` marks, resolved. Raises 117 for invalid UTF-8."""
    if "\\x" in body:
        return _resolve_bytes(body, quote)
    return _ESCAPED_PIECES[quote].sub(lambda match: _resolve_piece(match.group(), quote), body)


def _resolve_piece(piece: str, quote: str) -> str:
    """Resolves a piece that ends behind an escape sequence.

    Between two doubled backslashes, every backslash begins another sequence.
    """
    if len(piece) == 2:
        return _resolve_sequence(piece)
    parts = piece.split("\\\\")
    for index, part in enumerate(parts):
        part = part.replace(quote * 2, quote)
        parts[index] = _replace_sequences(part) if "\\" in part else part
    return "\\".join(parts)


def _replace_sequences(part: str) -> str:
    for letter in _RESOLVED:
        part = part.replace("\\" + letter, _RESOLVED[letter])
    return part


def _resolve_bytes(body: str, quote: str) -> str:
    r"""Resolves escapes where ``\xHH`` is a byte; several may make one character.

    Raises 117 (INCORRECT_DATA) when the bytes are not UTF-8.
    """
    doubled = quote.encode() * 2

    def resolved(match: re.Match[bytes]) -> bytes:
        if match.group(1):
            return bytes([int(match.group(1), 16)])
        return quote.encode() if match.group() == doubled else _resolve_sequence(match.group().decode()).encode()

    pattern = rb"\\x([0-9a-fA-F]{2})|\\[\x00-\x7f]|" + doubled
    try:
        return re.sub(pattern, resolved, body.encode()).decode()
    except UnicodeError:
        raise UserError("INCORRECT_DATA", f"Invalid UTF-8 in the literal {quote}{body}{quote}") from None


def _resolve_sequence(sequence: str) -> str:
    """Resolves one sequence: a backslash and a character, or a doubled quote."""
    if sequence == "\\\\":
        return "\\"
    # An unknown escape keeps its backslash ('\d' of a regular expression), as in ClickHouse.
    return _RESOLVED.get(sequence[1], sequence)
