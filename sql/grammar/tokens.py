"""ClickHouse's lexical rules: tokens, quoting, and syntax errors with position and expectation.

Tokens are made lazily, one at a time from a position of the text. So an INSERT with a gigabyte of inline data is parsed
by reading its head only. (A tokenizer that reads the whole text first, as sqlglot's does, cannot do that.)

Kinds of tokens: ``word`` (bare identifier or keyword), ``quoted`` (identifier in backquotes or double quotes),
``string`` (also by its bytes, ``x'41'``), ``number``, ``mark`` (operators, brackets), ``end``. A word may begin with
digits (``2nd``) if it is no number. Comments are ``-- …``, ``// …``, ``# …``, ``#! …`` and ``/* … */``.

Source: ClickHouse documentation, "SQL syntax".
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, NoReturn

from parts.common.errors import UserError
from sql.grammar.byte_literals import decode_byte_literal
from sql.grammar.password_hiding import hide_passwords
from sql.grammar.query_limits import MAX_LEVELS, QueryGuard, too_deep_recursion
from sql.grammar.quoted_escapes import check_utf8, resolve_escapes

_GAP = r"[\s\u180e\u200b-\u200d\u2060\ufeff]"
"""White space of a statement, with zero-width characters and the byte order mark."""
_SPACE = re.compile(rf"(?:{_GAP}{{1,1000}}+|(?:--|//)[^\n]*+|#(?=[ !])[^\n]*+){{0,1000}}+((?={_GAP}|--|//|#[ !]|/\*))?")
"""The group is set when more white space follows."""
_DIGITS, _HEX = (rf"{digit}++(?:_{digit}++)*+" for digit in (r"\d", "[0-9a-fA-F]"))
_TAG = re.compile(r"(?=(\$\w*+\$))\$")
_TOKEN = re.compile(
    r"(?P<bytes>[bB]'[01]*+'|[xX]'[0-9a-fA-F]*+')"
    r"|(?P<heredoc>\$\w*+\$)"
    r"|(?P<word>[^\W\d][\w$]*+|\$\w[\w$]*+)"
    rf"|(?P<number>0[xX]{_HEX}(?:\.(?:{_HEX})?+)?+(?:[pP][+-]?{_DIGITS})?+|0b[01]++(?:_[01]++)*+"
    rf"|(?:{_DIGITS}(?:\.(?:{_DIGITS})?+)?+|\.\d++)(?:[eE][+-]?{_DIGITS})?+)"
    r"|(?P<string>'(?:[^'\\]{1,1000}+|\\.|''){0,1000}+')"
    r"|(?P<quoted>`(?:[^`\\]{1,1000}+|\\.|``){0,1000}+`|\"(?:[^\"\\]{1,1000}+|\\.|\"\"){0,1000}+\")"
    r"|(?P<mark><=>|::|->|<=|>=|<>|!=|==|\|\||.)",
    re.DOTALL,
)
_QUOTED_PIECES = {
    quote: re.compile(rf"(?:[^{quote}\\]{{1,1000}}+|\\.|{quote}{quote}){{1,1000}}+", re.DOTALL) for quote in "'`\""
}
"""Long strings are matched in pieces: one match must not hold the interpreter for long."""
_PLAIN_TEXT = re.compile(r"(?:\w[\w$]*+|[^\w()\[\]{}'`\"$#/;-]){1,1000}+")
"""Text between brackets without brackets, quotes and comments."""
_MOST_BRACKETS = 10_000
"""Nested brackets in a group that is only skipped."""
_WORD_END = re.compile(r"[\w$]++")
_OPENING = {"(": ")", "[": "]", "{": "}"}
_CLOSING = frozenset(_OPENING.values())
_BARE = re.compile(r"(?:[A-Za-z_]|\$\w)\w*\Z", re.ASCII)
_BEFORE_PASSWORD = 64 << 10
"""Characters before an error's position that are searched for a call with a password."""
_AMBIGUOUS_BARE = frozenset({"select", "from", "null", "true", "false", "distinct", "all", "table", "array"})


class Token(NamedTuple):
    """One token. ``text`` is as written; ``start`` and ``end`` are character offsets in the text."""

    kind: str
    text: str
    start: int
    end: int
    upper: str
    """The text of a word in upper case, of anything else as it is."""

    @property
    def is_identifier(self) -> bool:
        """Returns whether the token can be a name."""
        return self.kind in ("word", "quoted")

    @property
    def value(self) -> str:
        """The identifier's name or the string's content, unquoted."""
        if self.kind == "string":
            return unquote_string(self.text)
        return unquote_identifier(self.text) if self.kind == "quoted" else self.text


@dataclass(frozen=True, slots=True)
class ClusterClause:
    """``ON CLUSTER name`` in the text between ``start`` and ``end``."""

    name: str
    start: int
    end: int


class TokenStream:
    """A cursor over the tokens of a text.

    ``guard`` counts what is read; ``on_cluster`` is the ON CLUSTER clause of the current statement.
    """

    def __init__(self, text: str, position: int = 0, guard: QueryGuard | None = None) -> None:
        self.text = text
        self.position = position
        self.guard = guard if guard is not None else QueryGuard(text=text)
        self.on_cluster: ClusterClause | None = None
        self._recent: dict[int, Token] = {}
        self._current = Token("end", "", -1, -1, "")
        self._current_at = -1
        self._last_tags: dict[str, int] | None = None

    def peek(self, ahead: int = 0) -> Token:
        """Returns the next token, or the one ``ahead`` tokens behind it, without moving."""
        if self._current_at != self.position:
            self._current = self._token_at(self.position)
            self._current_at = self.position
        token = self._current
        while ahead:
            token = self._token_at(token.end)
            ahead -= 1
        return token

    def next(self) -> Token:
        """Returns the next token and moves behind it."""
        token = self.peek()
        self.position = token.end
        return token

    def _token_at(self, position: int) -> Token:
        token = self._recent.get(position)
        if token is None:
            token = self._scan(position)
            if len(self._recent) > 4096:
                self._recent.clear()
            self._recent[position] = token
        return token

    def _scan(self, position: int) -> Token:
        self.guard.step()
        start = skip_space(self.text, position, self.guard)
        match = _TOKEN.match(self.text, start)
        if match is None:
            return Token("end", "", start, start, "")
        kind = match.lastgroup or "mark"
        text = match.group()
        if kind == "heredoc":
            return self._heredoc(text, start, match.end())
        if kind == "bytes":
            value = quote_string(decode_byte_literal(text))
            return Token("string", value, start, match.end(), value)
        if kind == "mark" and text in "'`\"":
            return self._long_quoted(text, start)
        if self.text.startswith("/*", start):
            raise syntax_error(self.text, start, "the closing */ of the comment")
        if kind == "number" and (rest := _WORD_END.match(self.text, match.end())):
            if "." in text:
                raise syntax_error(self.text, start, "a number that ends before the next word")
            text += rest.group()
            return Token("word", text, start, rest.end(), text.upper())
        return Token(kind, text, start, match.end(), text.upper() if kind == "word" else text)

    def _heredoc(self, tag: str, start: int, begin: int) -> Token:
        """Reads a heredoc: the text up to the same tag again.

        Where no such tag follows, it is a word that begins with a dollar.
        """
        may_end = self._last_tags is None or self._last_tags.get(tag, -1) >= begin
        end = self.text.find(tag, begin) if may_end else -1
        if end < 0 and self._last_tags is None:  # found once for all tags: a search for each would be quadratic
            self._last_tags = {match.group(1): match.start() for match in _TAG.finditer(self.text, begin)}
        if end >= 0:
            value = quote_string(self.text[begin:end])
            return Token("string", value, start, end + len(tag), value)
        word = _WORD_END.match(self.text, start)
        if word is None or tag == "$$":
            raise syntax_error(self.text, start, f"the closing {tag} of the text")
        return Token("word", word.group(), start, word.end(), word.group().upper())

    def _long_quoted(self, quote: str, start: int) -> Token:
        pieces = _QUOTED_PIECES[quote]
        end = start + 1
        while piece := pieces.match(self.text, end):
            self.guard.step()
            end = piece.end()
        what = "string" if quote == "'" else "identifier"
        if not self.text.startswith(quote, end):
            raise syntax_error(self.text, start, f"the closing {quote} of the {what}")
        end += 1
        text = self.text[start:end]
        return Token("string" if quote == "'" else "quoted", text, start, end, text)

    # Words and marks ------------------------------------------------------------------------------------------------

    def at(self, *words: str) -> bool:
        """Returns whether the next tokens are these keywords or marks.

        Keywords match in any case, but never quoted.
        """
        token = self.peek()
        if token.upper != words[0]:
            return False
        for word in words[1:]:
            token = self._token_at(token.end)
            if token.upper != word:
                return False
        return True

    def accept(self, *words: str) -> bool:
        """Moves behind the given words if they come next; returns whether they did."""
        if not self.at(*words):
            return False
        for _ in words:
            self.next()
        return True

    def expect(self, *words: str) -> None:
        """Moves behind the given words. Raises 62 (SYNTAX_ERROR) if something else comes next."""
        if not self.accept(*words):
            self.fail(" ".join(words))

    def is_at_end(self) -> bool:
        """Returns whether the text or the statement ends here."""
        return self.peek().kind == "end" or self.at(";")

    def fail(self, *expected: str) -> NoReturn:
        """Raises 62 (SYNTAX_ERROR) at the current position."""
        raise syntax_error(self.text, self.peek().start, *expected)

    # Values ---------------------------------------------------------------------------------------------------------

    def identifier(self, what: str = "identifier") -> str:
        """Reads a name, unquoted. ``what`` is the name for it in the error 62 (SYNTAX_ERROR)."""
        if not self.peek().is_identifier:
            self.fail(what)
        return self.next().value

    def string(self, what: str = "string literal") -> str:
        """Reads a string literal, unquoted. ``what`` is the name for it in the error 62 (SYNTAX_ERROR)."""
        if self.peek().kind != "string":
            self.fail(what)
        return self.next().value

    def skip_group(self) -> None:
        """Skips one token, or a whole bracketed group when the token opens one."""
        first = self.peek()
        if first.text not in _OPENING or first.kind != "mark":
            self.next()
            return
        closers: list[str] = []
        while True:
            while dull := _PLAIN_TEXT.match(self.text, self.position):
                self.guard.step()
                self.position = dull.end()
            token = self.peek()
            if token.kind == "end":
                raise syntax_error(self.text, first.start, f"the closing {_OPENING[first.text]}")
            if token.kind == "mark" and token.text in _OPENING:
                closers.append(_OPENING[token.text])
                if len(closers) > _MOST_BRACKETS:
                    raise too_deep_recursion(MAX_LEVELS)
            elif token.kind == "mark" and token.text in _CLOSING and token.text != closers.pop():
                self.fail("a matching closing bracket")
            self.next()
            if not closers:
                return

    def slice_until(self, stops: Callable[[TokenStream], bool], what: str = "expression") -> str:
        """Returns the text up to the first token outside brackets where ``stops`` holds.

        The text is never empty. A ``;``, the end, or a closing bracket that was not opened inside stops too.
        """
        start = self.peek().start
        end = start
        while (token := self.peek()).kind != "end":
            if token.text == ";" or token.text in _CLOSING or stops(self):
                break
            if token.text in _OPENING:
                self.skip_group()
            else:
                self.position = token.end
            end = self.position
        if end == start:
            self.fail(what)
        return self.text[start:end]


def skip_space(text: str, position: int, guard: QueryGuard | None = None) -> int:
    """Returns the position behind blanks and comments; before a comment that is not closed."""
    while True:
        match = _SPACE.match(text, position)
        assert match is not None
        position = match.end()
        if match.lastindex is None:
            return position
        if text.startswith("/*", position):
            end = text.find("*/", position + 2)
            if end < 0:
                return position
            position = end + 2
        if guard is not None:
            guard.step()


def syntax_error(text: str, position: int, *expected: str) -> UserError:
    """Returns ``UserError`` 62 (SYNTAX_ERROR) in ClickHouse's words.

    It names the position from 1, the line and column, the token there, and what was expected.
    """
    line = text.count("\n", 0, position) + 1
    column = position - (text.rfind("\n", 0, position) + 1) + 1
    match = _TOKEN.match(text, position)
    token = _without_passwords(text, position, min(match.end(), position + 40)) if match else "end of query"
    rest = _without_passwords(text, position, position + 80).split("\n")[0]
    wanted = "one of: " + ", ".join(expected) if len(expected) > 1 else "".join(expected)
    return UserError(
        "SYNTAX_ERROR",
        f"Syntax error: failed at position {position + 1} ({token}) (line {line}, col {column}): "
        f"{rest}. Expected {wanted or 'end of query'}",
    )


def _without_passwords(text: str, start: int, end: int) -> str:
    """Returns a piece of the text without passwords, which are recognised by the text before them."""
    begin = max(start - _BEFORE_PASSWORD, 0)
    before = hide_passwords(text[begin:start])
    shown = hide_passwords(text[begin:end])
    return shown[len(before) :] if shown.startswith(before) else ""


def not_implemented(what: str) -> UserError:
    """Returns ``UserError`` 48 (NOT_IMPLEMENTED)."""
    return UserError("NOT_IMPLEMENTED", f"{what} is not supported")


def unquote_string(text: str) -> str:
    """Returns the content of a literal ``'…'``, with escapes and doubled quotes resolved."""
    check_utf8(text)
    body = text[1:-1]
    if "\\" not in body and "''" not in body:
        return body
    return resolve_escapes(body, "'")


def unquote_identifier(text: str) -> str:
    """Returns the name inside backquotes or double quotes, with escapes and doubled quotes resolved."""
    check_utf8(text)
    return resolve_escapes(text[1:-1], text[0])


def quote_string(value: str) -> str:
    """Returns the value as a literal ``'…'``."""
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    for char, letter in (("\n", "n"), ("\t", "t"), ("\r", "r"), ("\0", "0"), ("\b", "b"), ("\f", "f")):
        escaped = escaped.replace(char, "\\" + letter)
    return f"'{escaped}'"


def quote_identifier(name: str) -> str:
    """Returns the name in backquotes."""
    return "`" + name.replace("\\", "\\\\").replace("`", "\\`") + "`"


def quote_identifier_if_needed(name: str) -> str:
    """Returns the name, in backquotes unless it is a plain word."""
    return name if _BARE.match(name) and name.lower() not in _AMBIGUOUS_BARE else quote_identifier(name)
