"""Translates queries of other dialects to ClickHouse SQL (the setting ``dialect``).

sqlglot parses the text and writes it anew; then it is parsed as any query. Importing sqlglot takes a third of a second,
so the import waits for the first text that needs it. Refused is what has no counterpart (see ``dialect_corrections``).
Functions that ClickHouse lacks keep their names, and the query compiler refuses them (46).

Names keep their case and are compared with it. Outer joins give NULL where there is no row (``join_use_nulls``).

Invariants

- sqlglot recurses, and parses some parts again and again. It therefore gets no text that is longer, has more tokens or
  is nested deeper than the limits here say. Its parser may not take more steps than a text of that length needs.
- Only a query comes out, and only one, that the grammar here accepts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from parts.common.errors import UserError
from parts.common.lru_cache import LruCache
from sql.grammar.queries.query_parser import parse_query
from sql.grammar.query_limits import too_deep_recursion
from sql.grammar.statement_parser import parse_statement
from sql.grammar.statements.statement import Explain, SelectQuery, SetSettings, Statement, Use
from sql.grammar.text_cache import TextKey, make_text_cache
from sql.settings.setting_values import CLICKHOUSE_DIALECT

if TYPE_CHECKING:
    from sql.settings.supported_settings import (
        Settings,
    )

_MOST_NESTED = 200
"""Nested brackets and CASEs: about as many as ClickHouse's own 1000 parser levels allow."""
_MOST_NESTED_TYPES = 16
_MOST_TOKENS = 10_000
_STEPS_PER_TOKEN = 10
_SPACE = r"(?>\s|;|--[^\n]*(?:\n|\Z)|#[^\n]*(?:\n|\Z)|/\*.*?\*/)*+"
"""Possessive: a comment ends at the first ``*/`` or end of line, whatever follows."""
_FIRST_WORD = re.compile(rf"{_SPACE}(\(|\w+)", re.DOTALL)
_EXPLAINED = re.compile(rf"{_SPACE}EXPLAIN\b[\w\s=,]*?(?=\bSELECT\b|\bWITH\b|\bFROM\b|\()", re.DOTALL | re.IGNORECASE)
_FORMAT = re.compile(r"\sFORMAT\s+(\w+)[\s;]*\Z", re.IGNORECASE)
_QUERIES = ("SELECT", "WITH", "FROM", "(", "EXPLAIN")
_OWN_GRAMMAR = ("", "SET", "USE")
_recent_translations: LruCache[TextKey, str] = make_text_cache(1000, len)


def translate_to_clickhouse(text: str, settings: Settings) -> str:
    """Returns the text as ClickHouse SQL.

    Raises ``UserError`` 62 (SYNTAX_ERROR), 306 (TOO_DEEP_RECURSION) and 168 (TOO_BIG_AST). Raises 48 (NOT_IMPLEMENTED)
    for what has no counterpart and for statements that are no queries.
    """
    dialect = settings.dialect
    if dialect == CLICKHOUSE_DIALECT:
        return text
    if 0 < settings.max_query_size < len(text.encode("utf-8", "surrogatepass")):
        raise _syntax_error(dialect, f"the query is longer than max_query_size = {settings.max_query_size} bytes")
    found = _FIRST_WORD.match(text)
    word = found[1].upper() if found else ""
    if word in _OWN_GRAMMAR:
        return text
    if word not in _QUERIES:
        raise _unsupported_statement_error(word, dialect)
    return _recent_translations.get((text, dialect), lambda: _translate(text, dialect))


def check_statement_dialect(statement: Statement, dialect: str, own_settings: Mapping[str, object]) -> None:
    """Checks that a parsed statement fits the dialect that it was read with.

    Raises 48 (NOT_IMPLEMENTED) for a statement that another dialect cannot have, and for a SETTINGS clause that changes
    the dialect after the query was read.
    """
    asked = str(own_settings.get("dialect", dialect) or CLICKHOUSE_DIALECT).lower()
    if asked != dialect:
        raise UserError(
            "NOT_IMPLEMENTED",
            f"SETTINGS dialect = {asked!r} comes after the query is read: set it before, with SET, "
            "or as a parameter of the URL",
        )
    if dialect != CLICKHOUSE_DIALECT and not isinstance(statement, SelectQuery | Explain | SetSettings | Use):
        raise _unsupported_statement_error(type(statement).__name__, dialect)


def get_dialect_defaults(dialect: str) -> dict[str, object]:
    """Returns the settings whose defaults differ in another dialect."""
    return {} if dialect == CLICKHOUSE_DIALECT else {"join_use_nulls": True}


def _translate(text: str, dialect: str) -> str:
    explained = _EXPLAINED.match(text)
    head = explained[0] if explained else ""
    body = text[len(head) :]
    format = _FORMAT.search(body)
    tail = f" FORMAT {format[1]}" if format else ""
    query = _transpile(body[: format.start()] if format else body, dialect)
    try:
        parse_statement(head + query + tail)
        parse_query(query)
    except UserError as error:
        raise _no_counterpart_error(dialect, f"{error.message}, in what it became: {query[:1000]}") from None
    return head + query + tail


def _transpile(text: str, dialect: str) -> str:
    from sqlglot import ErrorLevel
    from sqlglot.dialects.dialect import Dialect
    from sqlglot.errors import ParseError, TokenError, UnsupportedError

    from sql.grammar.dialect_corrections import correct_tree

    try:
        reader = Dialect.get_or_raise(dialect)
        tokens = reader.tokenize(text)
        _check_token_limits(tokens, reader.parser_class.TYPE_TOKENS)
        trees = [tree for tree in _make_parser(reader, len(tokens)).parse(tokens, text) if tree is not None]
        if len(trees) != 1:
            raise _syntax_error(dialect, f"expected one query, found {len(trees)}")
        return str(
            correct_tree(trees[0], dialect).sql("clickhouse", unsupported_level=ErrorLevel.RAISE, comments=False)
        )
    except ParseError as error:
        place = error.errors[0] if error.errors else {}
        near = f", near {place['highlight'][:100]!r}" if place.get("highlight") else ""
        where = f" at line {place['line']}, column {place['col']}{near}" if place.get("line") else ""
        raise _syntax_error(dialect, f"{str(place.get('description') or error)[:300]}{where}") from None
    except TokenError as error:
        raise _syntax_error(dialect, str(error)[:300]) from None
    except UnsupportedError as error:
        raise _no_counterpart_error(dialect, str(error)) from None
    except RecursionError:
        raise too_deep_recursion(_MOST_NESTED) from None


def _make_parser(reader: Any, tokens: int) -> Any:
    """Returns a parser that gives up after too many steps.

    sqlglot parses nested calls of type names twice at every level, so a short text could take very long.
    """
    from sqlglot import ErrorLevel

    most = 1000 + _STEPS_PER_TOKEN * tokens

    class CountingParser(reader.parser_class):
        """sqlglot's parser, counting its steps. Raises 306 past the limit."""

        steps = 0

        def _advance(self, times: int = 1) -> None:
            self.steps += 1
            if self.steps > most:
                raise too_deep_recursion(_MOST_NESTED)
            super()._advance(times)

    return CountingParser(dialect=reader, error_level=ErrorLevel.IMMEDIATE)


def _check_token_limits(tokens: list[Any], type_tokens: set[Any]) -> None:
    """Raises 168 (TOO_BIG_AST) or 306 (TOO_DEEP_RECURSION) for tokens past the limits."""
    from sqlglot.tokens import TokenType

    if len(tokens) > _MOST_TOKENS:
        problem = f"The query has {len(tokens)} tokens; at most {_MOST_TOKENS} are translated"
        raise UserError("TOO_BIG_AST", f"{problem}: write it in ClickHouse's SQL, or shorten its lists")
    opening = (TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE, TokenType.CASE)
    closing = (TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE, TokenType.END)
    prefixes = (TokenType.NOT, TokenType.DASH, TokenType.PLUS, TokenType.TILDE)
    nested = angles = prefixed = 0
    before = None
    for token in tokens:
        kind = token.token_type
        nested += (kind in opening) - (kind in closing)
        prefixed = prefixed + 1 if kind in prefixes else 0
        if before in type_tokens and kind is TokenType.LT:
            angles += 1
        elif angles and set(token.text) == {">"}:
            angles = max(angles - len(token.text), 0)
        if max(nested, prefixed) > _MOST_NESTED or angles > _MOST_NESTED_TYPES:
            raise too_deep_recursion(_MOST_NESTED)
        before = kind


def _unsupported_statement_error(statement: str, dialect: str) -> UserError:
    return UserError(
        "NOT_IMPLEMENTED",
        f"{statement} is not supported with dialect = {dialect!r}: only queries (SELECT, EXPLAIN), SET and USE are; "
        f"SET dialect = {CLICKHOUSE_DIALECT!r} first",
    )


def _syntax_error(dialect: str, problem: str) -> UserError:
    return UserError("SYNTAX_ERROR", f"Syntax error in the dialect {dialect}: {problem}")


def _no_counterpart_error(dialect: str, problem: str) -> UserError:
    return UserError(
        "NOT_IMPLEMENTED",
        f"This query of the dialect {dialect} has no counterpart here: {problem}. "
        f"Write it otherwise, or in ClickHouse's SQL after SET dialect = {CLICKHOUSE_DIALECT!r}",
    )
