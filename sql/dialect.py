"""ClickHouse's lexical rules: tokens, quoting, and the syntax error that says where and what was expected.

Tokens are made lazily, one at a time from a position of the text. That is what lets an INSERT with a gigabyte of
inline data be parsed by reading its head only: nothing behind the head is ever looked at. (A tokenizer that reads the
whole text first, as sqlglot's does, cannot be used for that.)

Kinds of tokens: ``word`` (bare identifier or keyword), ``quoted`` (identifier in backquotes or double quotes),
``string``, ``number``, ``mark`` (operators, brackets), ``end``. A word may begin with digits (``2nd``) if it is no
number. Comments are ``-- …``, ``# …``, ``#! …`` and ``/* … */``.

Source: ClickHouse documentation, "SQL syntax".
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

from parts.errors import UserError

SPACE = re.compile(r"(?:\s++|--[^\n]*+|#(?=[ !])[^\n]*+|/\*.*?\*/)*+", re.DOTALL)
_TOKEN = re.compile(
    r"(?P<word>[^\W\d][\w$]*+)"
    r"|(?P<number>0[xX][0-9a-fA-F]++|0b[01]++|(?:\d[\d_]*+(?:\.\d*+)?+|\.\d++)(?:[eE][+-]?\d++)?+)"
    r"|(?P<string>'(?:[^'\\]++|\\.|'')*+')"
    r"|(?P<quoted>`(?:[^`\\]++|\\.|``)*+`|\"(?:[^\"\\]++|\\.|\"\")*+\")"
    r"|(?P<heredoc>\$(\w*+)\$.*?\$\6\$)"
    r"|(?P<mark><=>|::|->|<=|>=|<>|!=|==|\|\||.)",
    re.DOTALL,
)
_WORD_END = re.compile(r"[\w$]++")
_OPENING = {"(": ")", "[": "]", "{": "}"}
_CLOSING = frozenset(_OPENING.values())
_ESCAPES = {"a": "\a", "b": "\b", "e": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "0": "\0"}
_ESCAPE = re.compile(r"\\x([0-9a-fA-F]{2})|\\(.)", re.DOTALL)
_BARE = re.compile(r"[A-Za-z_]\w*\Z", re.ASCII)
_AMBIGUOUS_BARE = frozenset({"select", "from", "null", "true", "false", "distinct", "all", "table", "array"})


@dataclass(frozen=True, slots=True)
class Token:
    """``text`` is as written; ``start`` and ``end`` are offsets in characters of the statement text."""

    kind: str
    text: str
    start: int
    end: int

    @property
    def upper(self) -> str:
        return self.text.upper() if self.kind == "word" else self.text

    @property
    def is_identifier(self) -> bool:
        return self.kind in ("word", "quoted")

    @property
    def value(self) -> str:
        """The identifier's name or the string's content, unquoted."""
        if self.kind == "string":
            return unquote_string(self.text)
        return unquote_identifier(self.text) if self.kind == "quoted" else self.text


class TokenStream:
    """A cursor over the tokens of a text."""

    def __init__(self, text: str, position: int = 0) -> None:
        self.text = text
        self.position = position
        self._cache: dict[int, Token] = {}

    def peek(self, ahead: int = 0) -> Token:
        token = self._token_at(self.position)
        for _ in range(ahead):
            token = self._token_at(token.end)
        return token

    def next(self) -> Token:
        token = self.peek()
        self.position = token.end
        return token

    def _token_at(self, position: int) -> Token:
        token = self._cache.get(position)
        if token is None:
            token = self._scan(position)
            if len(self._cache) > 4096:
                self._cache.clear()
            self._cache[position] = token
        return token

    def _scan(self, position: int) -> Token:
        space = SPACE.match(self.text, position)
        start = space.end() if space else position
        match = _TOKEN.match(self.text, start)
        if match is None:
            return Token("end", "", start, start)
        kind = match.lastgroup or "mark"
        text = match.group()
        if kind == "heredoc":
            label = match.group(6)
            return Token("string", quote_string(text[len(label) + 2 : -len(label) - 2]), start, match.end())
        if kind == "mark" and text in "'`\"":
            what = "string" if text == "'" else "identifier"
            raise syntax_error(self.text, start, f"the closing {text} of the {what}")
        if self.text.startswith("/*", start):
            raise syntax_error(self.text, start, "the closing */ of the comment")
        if kind == "number" and (rest := _WORD_END.match(self.text, match.end())):
            if "." in text:
                raise syntax_error(self.text, start, "a number that ends before the next word")
            return Token("word", text + rest.group(), start, rest.end())
        return Token(kind, text, start, match.end())

    # Words and marks ------------------------------------------------------------------------------------------------

    def at(self, *words: str) -> bool:
        """Whether the next tokens are these keywords or marks (keywords in any case, never quoted)."""
        position = self.position
        for word in words:
            token = self._token_at(position)
            if token.kind not in ("word", "mark") or token.upper != word:
                return False
            position = token.end
        return True

    def accept(self, *words: str) -> bool:
        if not self.at(*words):
            return False
        for _ in words:
            self.next()
        return True

    def expect(self, *words: str) -> None:
        if not self.accept(*words):
            self.fail(" ".join(words))

    def at_end(self) -> bool:
        return self.peek().kind == "end" or self.at(";")

    def fail(self, *expected: str) -> NoReturn:
        raise syntax_error(self.text, self.peek().start, *expected)

    # Values ---------------------------------------------------------------------------------------------------------

    def identifier(self, what: str = "identifier") -> str:
        if not self.peek().is_identifier:
            self.fail(what)
        return self.next().value

    def string(self, what: str = "string literal") -> str:
        if self.peek().kind != "string":
            self.fail(what)
        return self.next().value

    def skip_group(self) -> None:
        """Steps over one token, or over a whole bracketed group when it opens one."""
        first = self.peek()
        if first.text not in _OPENING or first.kind != "mark":
            self.next()
            return
        closers: list[str] = []
        while True:
            token = self.peek()
            if token.kind == "end":
                raise syntax_error(self.text, first.start, f"the closing {_OPENING[first.text]}")
            if token.kind == "mark" and token.text in _OPENING:
                closers.append(_OPENING[token.text])
            elif token.kind == "mark" and token.text in _CLOSING and token.text != closers.pop():
                self.fail("a matching closing bracket")
            self.next()
            if not closers:
                return

    def slice_until(self, stops: Callable[[TokenStream], bool], what: str = "expression") -> str:
        """The text up to (not including) the first token outside brackets where ``stops`` holds; never empty.

        A ``;``, the end, or a bracket that was not opened inside stops too.
        """
        start = self.peek().start
        end = start
        while not self.at_end() and not stops(self):
            if self.peek().kind == "mark" and self.peek().text in _CLOSING:
                break
            self.skip_group()
            end = self.position
        if end == start:
            self.fail(what)
        return self.text[start:end]


def syntax_error(text: str, position: int, *expected: str) -> UserError:
    """``UserError`` 62 in ClickHouse's words: position from 1, line and column, what stood there, what was expected."""
    line = text.count("\n", 0, position) + 1
    column = position - (text.rfind("\n", 0, position) + 1) + 1
    match = _TOKEN.match(text, position)
    token = match.group() if match else "end of query"
    rest = text[position : position + 80].split("\n")[0]
    wanted = "one of: " + ", ".join(expected) if len(expected) > 1 else "".join(expected)
    return UserError(
        "SYNTAX_ERROR",
        f"Syntax error: failed at position {position + 1} ({token[:40]}) (line {line}, col {column}): "
        f"{rest}. Expected {wanted or 'end of query'}",
    )


def not_implemented(what: str) -> UserError:
    return UserError("NOT_IMPLEMENTED", f"{what} is not supported")


def unquote_string(text: str) -> str:
    """The content of a literal ``'…'`` with backslash escapes and doubled quotes resolved."""
    body = text[1:-1]
    if "\\" not in body and "''" not in body:
        return body
    return _unescape(body, "'")


def unquote_identifier(text: str) -> str:
    return _unescape(text[1:-1], text[0])


def _unescape(body: str, quote: str) -> str:
    if "\\x" in body:
        return _unescape_bytes(body, quote)
    pieces: list[str] = []
    position = 0
    for match in re.finditer(r"\\x[0-9a-fA-F]{2}|\\.|" + quote * 2, body, re.DOTALL):
        pieces.append(body[position : match.start()])
        pieces.append(quote if match.group() == quote * 2 else _escaped(match.group()))
        position = match.end()
    pieces.append(body[position:])
    return "".join(pieces)


def _unescape_bytes(body: str, quote: str) -> str:
    r"""``\xHH`` is a byte, and several may make one character. Raises 117 when all together are no text."""
    doubled = quote.encode() * 2

    def resolved(match: re.Match[bytes]) -> bytes:
        if match.group(1):
            return bytes([int(match.group(1), 16)])
        return quote.encode() if match.group() == doubled else _escaped(match.group().decode()).encode()

    pattern = rb"\\x([0-9a-fA-F]{2})|\\[\x00-\x7f]|" + doubled
    try:
        return re.sub(pattern, resolved, body.encode()).decode()
    except UnicodeError:
        raise UserError("INCORRECT_DATA", f"Invalid UTF-8 in the literal {quote}{body}{quote}") from None


def _escaped(sequence: str) -> str:
    match = _ESCAPE.match(sequence)
    if match is None or match.group(1):
        return chr(int(sequence[2:], 16))
    char = match.group(2)
    if char in _ESCAPES:
        return _ESCAPES[char]
    # An unknown escape keeps its backslash ('\d' of a regular expression), as in ClickHouse.
    return char if char in "\\'\"`/" or ord(char) < 32 else sequence


def quote_string(value: str) -> str:
    """A literal ``'…'`` of the value."""
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    for char, letter in (("\n", "n"), ("\t", "t"), ("\r", "r"), ("\0", "0"), ("\b", "b"), ("\f", "f")):
        escaped = escaped.replace(char, "\\" + letter)
    return f"'{escaped}'"


def quote_identifier(name: str) -> str:
    """The name in backquotes."""
    return "`" + name.replace("\\", "\\\\").replace("`", "\\`") + "`"


def identifier_if_needed(name: str) -> str:
    """The name, in backquotes unless it is a plain word."""
    return name if _BARE.match(name) and name.lower() not in _AMBIGUOUS_BARE else quote_identifier(name)
