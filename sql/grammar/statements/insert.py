"""Parses the head of INSERT; the data behind it stay bytes.

Data begin where ClickHouse begins them. For VALUES that is right behind the word. For ``FORMAT name`` it is after
blanks and at most one line end. Data of VALUES end at a ``;`` outside quotes, so that statements may follow. Data of
FORMAT are all the rest.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, replace

from parts.common.errors import UserError
from sql.grammar.clause_types import (
    SettingLiteral,
    TableRef,
)
from sql.grammar.common_clauses import (
    parse_identifier_list,
    parse_output_clauses,
    parse_settings_clause,
    parse_table_name,
    slice_query,
)
from sql.grammar.statements.statement import (
    FileArguments,
    Insert,
    ParsedStatement,
)
from sql.grammar.statements.statement_syntax import StatementSyntax
from sql.grammar.tokens import TokenStream, not_implemented, skip_space

_VALUES_DATA = re.compile(r"(?:[^';]++|'(?:[^'\\]++|\\.|'')*+')*+", re.DOTALL)
_SETTINGS = re.compile(r"settings\b", re.IGNORECASE)
_DATA_START = re.compile(r"[ \t\f]*+\r?+\n?+")
_PARTIAL_SPACE = re.compile(r"(?:\s|--[^\n]*+\n|#[ !][^\n]*+\n|/\*[^*]*+(?:\*(?!/)[^*]*+)*+\*/)*+")
MAX_HEAD_BYTES = 1 << 20
_PLAIN_HEAD = re.compile(
    rb"\s{0,8}+INSERT\s{1,8}+INTO\s{1,8}+(?:\w{1,100}\.)?\w{1,100}\s{0,8}+(?:\([\w\s,]{1,2000}\)\s{0,8})?+"
    rb"(?:VALUES\s{0,8}+\(|FORMAT\s{1,8}+\w{1,100}+[ \t]{0,8}+\r?+\n(?!\s|settings|--|#|/))",
    re.IGNORECASE,
)
"""A head without comments, quotes and settings, up to the first row of VALUES or the line of FORMAT's data."""


@dataclass(frozen=True, slots=True)
class _InsertClauses:
    table: TableRef
    columns: tuple[str, ...]
    except_columns: tuple[str, ...]
    settings: dict[str, SettingLiteral]
    file: FileArguments | None = None

    def insert(self, **source: str) -> Insert:
        """Returns the statement with the given source of rows."""
        return Insert(self.table, self.columns, self.except_columns, settings=self.settings, file=self.file, **source)  # type: ignore[arg-type]


def parse_insert(stream: TokenStream) -> ParsedStatement:
    """Parses INSERT with its data, or INSERT … SELECT."""
    head = _parse_clauses(stream)
    if stream.accept("VALUES"):
        match = _VALUES_DATA.match(stream.text, stream.position)
        end = match.end() if match else stream.position
        if end < len(stream.text) and stream.text[end] == "'":
            end = len(stream.text)  # an unclosed string: the format's reader reports it
        return _attach_data(stream, head.insert(format="Values"), stream.position, end)
    if stream.at("FORMAT"):
        result, start = _parse_format(stream, head)
        return _attach_data(stream, result, start, len(stream.text))
    if stream.at("SELECT") or stream.at("WITH") or stream.at("(") or stream.at("FROM"):
        query = slice_query(stream)
        clauses = parse_output_clauses(stream)
        if clauses.outfile is not None:
            raise not_implemented("INTO OUTFILE of INSERT")
        head = replace(head, settings={**clauses.settings, **head.settings})  # settings of INSERT win
        return ParsedStatement(head.insert(select=query))
    return stream.fail("VALUES", "FORMAT", "SELECT", "WITH", "SETTINGS", "(")


def _attach_data(stream: TokenStream, statement: Insert, start: int, end: int) -> ParsedStatement:
    try:
        data = stream.text[start:end].encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise UserError("INCORRECT_DATA", "The data of the INSERT have half a surrogate: they are no UTF-8") from None
    stream.position = end
    return ParsedStatement(replace(statement, inline_data=data))


def _parse_clauses(stream: TokenStream) -> _InsertClauses:
    stream.expect("INSERT")
    stream.accept("INTO")
    if stream.at("TABLE") and stream.peek(1).is_identifier and stream.peek(1).upper not in ("VALUES", "FORMAT"):
        stream.next()
    file: FileArguments | None = None
    if stream.at("FUNCTION") and stream.peek(1).is_identifier and stream.peek(1).upper not in ("VALUES", "FORMAT"):
        file, table = _parse_file_function(stream), TableRef(None, "file")
    else:
        table = parse_table_name(stream)
    columns, excluded = _parse_column_list(stream)
    settings: dict[str, SettingLiteral] = {}
    if stream.at("PARTITION", "BY") or stream.at("FROM", "INFILE"):
        raise not_implemented(f"INSERT … {stream.peek().upper} {stream.peek(1).upper}")
    if stream.accept("SETTINGS"):
        settings = parse_settings_clause(stream)
    return _InsertClauses(table, columns, excluded, settings, file)


def _parse_file_function(stream: TokenStream) -> FileArguments:
    """Parses ``FUNCTION file('path'[, format[, 'structure']])``."""
    stream.expect("FUNCTION")
    name = stream.identifier("the name of a table function")
    if name != "file":
        raise not_implemented(f"INSERT INTO FUNCTION {name} (only file can be written)")
    stream.expect("(")
    texts = [stream.string("the path of a file")]
    while len(texts) < 3 and stream.accept(","):
        is_word = len(texts) == 1 and stream.peek().is_identifier
        texts.append(stream.identifier() if is_word else stream.string(("", "format name", "structure")[len(texts)]))
    stream.expect(")")
    return FileArguments(*texts)


def _parse_column_list(stream: TokenStream) -> tuple[tuple[str, ...], tuple[str, ...]]:
    if not stream.at("(") or stream.at("(", "SELECT") or stream.at("(", "WITH"):
        return (), ()
    stream.next()
    columns: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    if _accept_star(stream):
        if stream.accept("EXCEPT"):
            if stream.accept("("):
                excluded = parse_identifier_list(stream)
                stream.expect(")")
            else:
                excluded = (stream.identifier("column name"),)
    else:
        columns = parse_identifier_list(stream)
    stream.expect(")")
    return columns, excluded


def _accept_star(stream: TokenStream) -> bool:
    """Accepts ``*`` or ``t.*``, whatever ``t`` is: there is one table."""
    place = 0
    while stream.peek(place).is_identifier and stream.peek(place + 1).text == ".":
        place += 2
    if stream.peek(place).text != "*":
        return False
    for _ in range(place + 1):
        stream.next()
    return True


def _parse_format(stream: TokenStream, head: _InsertClauses) -> tuple[Insert, int]:
    stream.expect("FORMAT")
    name = stream.identifier("format name")
    is_word = _SETTINGS.match(stream.text, skip_space(stream.text, stream.position))  # data must not be tokenised
    if is_word and stream.at("SETTINGS") and stream.peek(1).is_identifier and stream.peek(2).text == "=":
        stream.next()
        head = replace(head, settings={**head.settings, **parse_settings_clause(stream)})
    if name.upper() == "VALUES":
        name = "Values"
    match = _DATA_START.match(stream.text, stream.position)
    start = match.end() if match else stream.position
    is_on_next_line = stream.text.endswith("\n", 0, start)  # then a ``;`` is data, such as a byte 59 of RowBinary
    if not is_on_next_line and stream.text.startswith(";", start) and stream.text[start + 1 :].strip():
        raise UserError(
            "SYNTAX_ERROR",
            "You have excessive ';' symbol before data for INSERT. Remove it: data follows FORMAT directly",
        )
    if stream.text.startswith(";", start) and not stream.text[start + 1 :].strip():
        start = len(stream.text)
    return head.insert(format=name), start


def parse_insert_head(prefix: bytes, *, complete: bool) -> tuple[Insert | None, int] | None:
    """Implements :func:`sql.grammar.statement_parser.parse_insert_head`."""
    plain = _PLAIN_HEAD.match(prefix)
    found = None if plain is None else _parse_plain_head(plain.group())
    return _parse_head(prefix, complete=complete) if found is None else found


@functools.lru_cache(maxsize=1024)
def _parse_plain_head(head: bytes) -> tuple[Insert | None, int] | None:
    """Parses a plain head, with a cache.

    Programs send the same head with other rows, and what follows the first row's bracket changes nothing. Returns
    ``None`` for a wrong head, because its error message shows the data.
    """
    try:
        return _parse_head(head + b"1)", complete=True)
    except UserError:
        return None


def _parse_head(prefix: bytes, *, complete: bool) -> tuple[Insert | None, int] | None:
    text = prefix.decode("utf-8", "surrogateescape")
    undecided = None if not complete and len(prefix) < MAX_HEAD_BYTES else (None, 0)
    space = _PARTIAL_SPACE.match(text)
    begin = space.end() if space else 0
    word = text[begin : begin + 6].upper()
    maybe_comment = text.startswith(("--", "//", "/*", "#"), begin) or text[begin:] in ("-", "/")
    if not complete and (maybe_comment or (word != "INSERT" and "INSERT".startswith(word))):
        return undecided
    if word != "INSERT":
        return None, 0
    stream = TokenStream(text, begin)
    try:
        head = _parse_clauses(stream)
        if stream.accept("VALUES"):
            result, start = head.insert(format="Values"), stream.position
        elif stream.at("FORMAT"):
            result, start = _parse_format(stream, head)
        elif not complete and stream.peek().end >= len(text):
            return undecided
        else:
            return None, 0
    except UserError as error:
        if error.name == "SYNTAX_ERROR" and undecided is None:
            return None
        raise
    if not complete and _may_change(text, stream, start):
        return undecided
    return result, len(text[:start].encode("utf-8", "surrogateescape"))


def _may_change(text: str, stream: TokenStream, start: int) -> bool:
    """Returns whether bytes still to come could lengthen the last word or belong to the head."""
    if start >= len(text):
        return True
    after = text[skip_space(text, stream.position) :][:512]
    return "SETTINGS".startswith(after[:8].upper()) and len(after) < 512


SYNTAX = (StatementSyntax(("INSERT",), parse_insert),)
