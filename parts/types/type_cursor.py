"""A cursor over the tokens of a data type's text."""

from __future__ import annotations

import re

from parts.common.errors import UserError

_SPACE = r"(?:\s|/\*(?:[^*]|\*(?!/))*+\*/|--[^\n]*+)*+"
_TOKEN = re.compile(rf"{_SPACE}(?:([A-Za-z_]\w*)|(-?\d+)|'((?:[^'\\]|\\.|'')*)'|`([^`]+)`|([(),=]))")
_REST = re.compile(rf"{_SPACE}\Z")


class TypeCursor:
    """A position in the text of a type. Errors name the position and what was expected there."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0

    def expect_end(self) -> None:
        """Raises a syntax error unless the text ends here."""
        if _REST.match(self.text, self.position) is None:
            raise self.syntax_error("end of the type")

    def peek(self) -> tuple[str, str] | None:
        """Returns the next token as (kind, text) without consuming it; ``None`` if there is none."""
        match = _TOKEN.match(self.text, self.position)
        if match is None:
            return None
        kinds = ("word", "number", "string", "quoted", "mark")
        index = (match.lastindex or 1) - 1
        return kinds[index], match.group(index + 1)

    def next(self, expected: str) -> tuple[str, str]:
        """Consumes and returns the next token. ``expected`` is for the error if there is none."""
        token = self.peek()
        match = _TOKEN.match(self.text, self.position)
        if token is None or match is None:
            raise self.syntax_error(expected)
        self.position = match.end()
        return token

    def accept(self, mark: str) -> bool:
        """Consumes the mark if it is next. Returns whether it was."""
        if self.peek() == ("mark", mark):
            self.next(mark)
            return True
        return False

    def accept_word(self, word: str) -> bool:
        """Consumes the word if it is next. Returns whether it was."""
        token = self.peek()
        if token is None or token[0] != "word" or token[1].upper() != word:
            return False
        self.next(word)
        return True

    def expect(self, mark: str) -> None:
        """Consumes the mark. Raises a syntax error if it is not next."""
        if not self.accept(mark):
            raise self.syntax_error(f"{mark!r}")

    def word(self) -> str:
        """Consumes and returns a type name."""
        kind, text = self.next("a type name")
        if kind != "word":
            raise self.syntax_error("a type name")
        return text

    def integer(self) -> int:
        """Consumes and returns a number."""
        kind, text = self.next("a number")
        if kind != "number":
            raise self.syntax_error("a number")
        return int(text)

    def integer_argument(self) -> int:
        """Consumes and returns one number in parentheses."""
        self.expect("(")
        value = self.integer()
        self.expect(")")
        return value

    def string(self) -> str:
        """Consumes a quoted string and returns its value."""
        kind, text = self.next("a quoted string")
        if kind != "string":
            raise self.syntax_error("a quoted string")
        return re.sub(r"\\(.)|'(')", lambda m: m.group(1) or m.group(2), text)

    def syntax_error(self, expected: str) -> UserError:
        """Returns the error 62 (SYNTAX_ERROR) for the current position."""
        rest = self.text[self.position :]
        return UserError(
            "SYNTAX_ERROR",
            f"Syntax error in the data type {self.text!r} at position {self.position} ({rest!r}): expected {expected}",
        )
