"""A place in the text of a data type, and the tokens that follow it."""

from __future__ import annotations

import re

from parts.common.errors import UserError

_SPACE = r"(?:\s|/\*(?:[^*]|\*(?!/))*+\*/|--[^\n]*+)*+"
_TOKEN = re.compile(rf"{_SPACE}(?:([A-Za-z_]\w*)|(-?\d+)|'((?:[^'\\]|\\.|'')*)'|`([^`]+)`|([(),=]))")
_REST = re.compile(rf"{_SPACE}\Z")


class TypeCursor:
    """Its errors tell the place, and what was expected there."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0

    def expect_end(self) -> None:
        if _REST.match(self.text, self.position) is None:
            raise self.syntax_error("end of the type")

    def peek(self) -> tuple[str, str] | None:
        match = _TOKEN.match(self.text, self.position)
        if match is None:
            return None
        kinds = ("word", "number", "string", "quoted", "mark")
        index = (match.lastindex or 1) - 1
        return kinds[index], match.group(index + 1)

    def next(self, expected: str) -> tuple[str, str]:
        token = self.peek()
        match = _TOKEN.match(self.text, self.position)
        if token is None or match is None:
            raise self.syntax_error(expected)
        self.position = match.end()
        return token

    def accept(self, mark: str) -> bool:
        if self.peek() == ("mark", mark):
            self.next(mark)
            return True
        return False

    def accept_word(self, word: str) -> bool:
        token = self.peek()
        if token is None or token[0] != "word" or token[1].upper() != word:
            return False
        self.next(word)
        return True

    def expect(self, mark: str) -> None:
        if not self.accept(mark):
            raise self.syntax_error(f"{mark!r}")

    def word(self) -> str:
        kind, text = self.next("a type name")
        if kind != "word":
            raise self.syntax_error("a type name")
        return text

    def integer(self) -> int:
        kind, text = self.next("a number")
        if kind != "number":
            raise self.syntax_error("a number")
        return int(text)

    def string(self) -> str:
        kind, text = self.next("a quoted string")
        if kind != "string":
            raise self.syntax_error("a quoted string")
        return re.sub(r"\\(.)|'(')", lambda m: m.group(1) or m.group(2), text)

    def syntax_error(self, expected: str) -> UserError:
        rest = self.text[self.position :]
        return UserError(
            "SYNTAX_ERROR",
            f"Syntax error in the data type {self.text!r} at position {self.position} ({rest!r}): expected {expected}",
        )
