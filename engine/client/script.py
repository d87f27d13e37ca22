"""Splits a script into statements.

Only boundaries are found here: a statement that this client cannot parse still goes to the server, which reports the
error. ``\\G`` ends a statement like ``;`` and asks for the Vertical format.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

from parts.common.errors import UserError
from sql.grammar.statements.drop_table import parse_set, parse_use
from sql.grammar.statements.insert import parse_insert_head
from sql.grammar.statements.statement import Insert, SetSettings, Statement, Use
from sql.grammar.tokens import Token, TokenStream


@dataclass(frozen=True)
class ScriptStatement:
    """One statement. ``text`` has neither its end mark nor INTO OUTFILE.

    ``insert`` is the head of an INSERT that takes data, ``data`` the data that followed it in the script. ``change`` is
    a USE or SET, which a client of a stateless protocol must remember.
    """

    text: str
    insert: Insert | None = None
    data: bytes = b""
    outfile: str | None = None
    is_vertical: bool = False
    change: Use | SetSettings | None = None

    @property
    def wants_data(self) -> bool:
        """Whether it is an INSERT whose data must come from elsewhere (standard input)."""
        return self.insert is not None and not self.data.strip()

    @property
    def is_insert(self) -> bool:
        """Whether it is an INSERT."""
        return self.insert is not None or self.text[:6].upper() == "INSERT"


def split_script(text: str) -> Iterator[ScriptStatement]:
    """Yields the statements in order. Raises 62 (SYNTAX_ERROR) for a quote that is not closed."""
    position = 0
    while True:
        stream = TokenStream(text, position)
        while stream.accept(";"):
            pass
        token = stream.peek()
        if token.kind == "end":
            return
        start = token.start
        if token.upper == "INSERT":
            statement, position = _parse_insert(text, start)
        else:
            end, position, is_vertical = _find_end(text, start)
            statement = _make_statement(text[start:end].rstrip(), is_vertical)
        yield statement


def is_complete_statement(text: str) -> bool:
    """Returns whether a text ends with ``;`` or ``\\G`` outside quotes and comments."""
    stripped = text.rstrip()
    if not stripped.endswith((";", "\\G")):
        return False
    try:
        stream = TokenStream(text)
        last: Token | None = None
        while (token := stream.next()).kind != "end":
            last = token
    except UserError:
        return False
    return last is not None and last.end == len(stripped)


def _find_end(text: str, start: int) -> tuple[int, int, bool]:
    """Returns the end of the statement, the start of the next, and whether it ended with ``\\G``."""
    stream = TokenStream(text, start)
    while True:
        token = stream.next()
        if token.kind == "end":
            return len(text), len(text), False
        if token.kind == "mark" and token.text == ";":
            return token.start, token.end, False
        if token.kind == "mark" and token.text == "\\" and text[token.end : token.end + 1] == "G":
            return token.start, token.end + 1, True


def _parse_insert(text: str, start: int) -> tuple[ScriptStatement, int]:
    """Parses an INSERT. VALUES end at a ``;`` outside quotes; the data of a FORMAT are all the rest."""
    rest = text[start:].encode()
    head, data_start = parse_insert_head(rest, complete=True) or (None, 0)
    if head is None:
        end, position, is_vertical = _find_end(text, start)
        return _make_statement(text[start:end].rstrip(), is_vertical), position
    sql = rest[:data_start].decode()
    if head.format == "Values":
        end, position, _ = _find_end(text, start + len(sql))
    else:
        end = position = len(text)
    data = text[start + len(sql) : end].encode()
    return ScriptStatement(sql.rstrip(), head, data), position


def _make_statement(text: str, is_vertical: bool) -> ScriptStatement:
    """Makes a statement of a text, which only the server parses, except for USE and SET."""
    stream = TokenStream(text)
    word = stream.peek().upper
    text, outfile = _split_off_outfile(text)
    change: Statement | None = None
    if word in ("USE", "SET"):
        with contextlib.suppress(UserError):
            change = parse_use(stream) if word == "USE" else parse_set(stream)
    assert change is None or isinstance(change, Use | SetSettings)
    return ScriptStatement(text, outfile=outfile, is_vertical=is_vertical, change=change)


def _split_off_outfile(text: str) -> tuple[str, str | None]:
    """Splits off the last ``INTO OUTFILE '…'``, which only the client can execute."""
    if "outfile" not in text.lower():
        return text, None
    stream = TokenStream(text)
    clause: tuple[int, Token] | None = None
    while (token := stream.next()).kind != "end":
        if token.upper == "INTO" and stream.peek().upper == "OUTFILE" and stream.peek(1).kind == "string":
            clause = token.start, stream.peek(1)
    if clause is None:
        return text, None
    start, name = clause
    return text[:start] + text[name.end :], name.value
