"""Parses FROM: tables, subqueries, table functions, joins and ARRAY JOIN.

Source: ClickHouse documentation, "FROM clause" and "JOIN clause".
"""

from __future__ import annotations

from fractions import Fraction

from parts.common.errors import UserError
from sql.grammar.number_literals import check_number_length
from sql.grammar.queries.expressions import ExpressionParser
from sql.grammar.queries.primary_expressions import is_at_query
from sql.grammar.query_limits import BRACKET_LEVELS
from sql.grammar.syntax_tree import (
    ArrayJoin,
    Function,
    Join,
    Literal,
    NamedTable,
    Node,
    Subquery,
    SubqueryTable,
    TableFunction,
)
from sql.grammar.tokens import TokenStream, not_implemented

_AFTER_TABLE = frozenset(
    {
        "FINAL", "SAMPLE", "ARRAY", "LEFT", "RIGHT", "INNER", "FULL", "CROSS", "ANY", "ALL", "ASOF", "SEMI", "ANTI",
        "GLOBAL", "JOIN", "ON", "USING", "PREWHERE", "WHERE", "GROUP", "HAVING", "WINDOW", "QUALIFY", "ORDER",
        "LIMIT", "OFFSET", "FETCH", "UNION", "INTERSECT", "EXCEPT", "SETTINGS", "FORMAT", "INTO", "AS", "WITH",
        "PASTE", "NATURAL", "SELECT",
    }
)  # fmt: skip
_JOIN_WORDS = frozenset(
    ["GLOBAL", "ANY", "ALL", "ASOF", "SEMI", "ANTI", "INNER", "LEFT", "RIGHT", "FULL", "CROSS", "OUTER", "JOIN"]
)


_TABLE_LEVELS = 3
_MOST_DIGITS = 600


def parse_from(parser: ExpressionParser) -> Node:
    """Parses the tables, joins and ARRAY JOINs behind FROM."""
    stream = parser.stream
    source = _parse_joins(parser, _parse_table(parser))
    while stream.accept(","):
        source = _parse_joins(parser, Join(source, _parse_table(parser), "CROSS"))
    return source


def _parse_joins(parser: ExpressionParser, source: Node) -> Node:
    stream = parser.stream
    while True:
        array_join = 2 if stream.at("LEFT", "ARRAY", "JOIN") or stream.at("INNER", "ARRAY", "JOIN") else 1
        if stream.at("ARRAY", "JOIN") or array_join == 2:
            left = stream.at("LEFT")
            for _ in range(array_join + 1):
                stream.next()
            source = ArrayJoin(source, parser.parse_aliased_list(), left)
        elif stream.peek().kind == "word" and stream.peek().upper in _JOIN_WORDS:
            source = _parse_join(parser, source)
        elif stream.at("PASTE", "JOIN") or stream.at("NATURAL"):
            raise not_implemented(f"{stream.peek().upper} JOIN")
        else:
            return source


def _parse_join(parser: ExpressionParser, left: Node) -> Node:
    stream = parser.stream
    words: list[str] = []
    while not stream.accept("JOIN"):
        token = stream.peek()
        if token.kind != "word" or token.upper not in _JOIN_WORDS:
            stream.fail("JOIN")
        words.append(stream.next().upper)
    strictness = next((word for word in words if word in ("ANY", "SEMI", "ANTI", "ASOF", "ALL")), "ALL")
    kind = next((word for word in words if word in ("INNER", "LEFT", "RIGHT", "FULL", "CROSS")), "INNER")
    if strictness in ("SEMI", "ANTI") and kind == "INNER":
        kind = "LEFT"
    right = _parse_table(parser)
    on: Node | None = None
    using: tuple[str, ...] = ()
    if stream.accept("ON"):
        on = parser.expression()
    elif stream.accept("USING"):
        using = tuple(_parse_using(parser))
    elif kind != "CROSS":
        stream.fail("ON", "USING")
    return Join(left, right, kind, strictness, on, using, "GLOBAL" in words)


def _parse_using(parser: ExpressionParser) -> list[str]:
    stream = parser.stream
    bracketed = stream.accept("(")
    names = [stream.identifier("a column name")]
    while stream.accept(","):
        names.append(stream.identifier("a column name"))
    if bracketed:
        stream.expect(")")
    return names


def _parse_table(parser: ExpressionParser) -> Node:
    stream = parser.stream
    if stream.accept("("):
        if is_at_query(stream, ("SELECT", "WITH", "FROM")):
            with stream.guard.nested(_TABLE_LEVELS):
                query = parser.parse_query(stream)
            stream.expect(")")
            return SubqueryTable(query, _parse_table_alias(stream))
        if stream.at("VALUES", "("):
            return _parse_values(parser)
        with stream.guard.nested(BRACKET_LEVELS):
            source = parse_from(parser)
        stream.expect(")")
        return source
    name = stream.identifier("a table, a table function or a subquery in brackets")
    if stream.accept("("):
        args: tuple[Node, ...] = ()
        if stream.at("SELECT") or stream.at("WITH"):
            args = (Subquery(parser.parse_query(stream)),)
        elif not stream.at(")"):
            args = parser.parse_aliased_list()
        stream.expect(")")
        return TableFunction(name, args, _parse_table_alias(stream))
    database = None
    if stream.accept("."):
        database, name = name, stream.identifier("a table name")
    alias = _parse_table_alias(stream)
    final = stream.accept("FINAL")
    alias = alias or _parse_table_alias(stream)
    sample = _parse_sample_ratio(stream) if stream.accept("SAMPLE") else None
    offset = _parse_sample_ratio(stream) if sample is not None and stream.accept("OFFSET") else None
    return NamedTable(database, name, alias, final, sample, offset)


def _parse_values(parser: ExpressionParser) -> TableFunction:
    """Parses ``VALUES (1, 'a'), (2, 'b'))``: rows without a structure.

    A leading string is wrapped in ``identity``: as a literal it would be taken for a structure.
    """
    stream = parser.stream
    stream.expect("VALUES")
    first, *rows = parser.parse_aliased_list()
    stream.expect(")")
    if isinstance(first, Literal):
        first = Function("identity", (first,))
    return TableFunction("values", (first, *rows), _parse_table_alias(stream))


def _parse_sample_ratio(stream: TokenStream) -> Fraction:
    if stream.peek().text.startswith("."):  # the tokenizer joins a dot and digits behind a word
        stream.fail("a digit before the point")
    ratio = _parse_decimal(stream, "a share of the data (0.1, 1/10) or a number of rows")
    if not stream.accept("/"):
        return ratio
    divisor = _parse_decimal(stream, "a number")
    if not divisor:
        raise UserError("STD_EXCEPTION", "bad rational: zero denominator: SAMPLE and its OFFSET divide by 0")
    return ratio / divisor


def _parse_decimal(stream: TokenStream, expected: str) -> Fraction:
    """Parses a decimal number exactly. An exponent past ``_MOST_DIGITS`` counts as ``_MOST_DIGITS``."""
    text = stream.peek().text.replace("_", "").lower()
    is_number = stream.peek().kind == "number" or text.isdecimal()  # 1__0 is a word elsewhere
    if not is_number or text[:2] in ("0x", "0b"):
        stream.fail(expected)
    check_number_length(stream.next().text)
    digits, _, exponent = text.partition("e")
    power = int(exponent) if exponent else 0
    return Fraction(digits) * Fraction(10) ** max(-_MOST_DIGITS, min(power, _MOST_DIGITS))


def _parse_table_alias(stream: TokenStream) -> str:
    token = stream.peek()
    if stream.accept("AS"):
        alias = stream.identifier("alias of the table")
    elif token.kind == "quoted" or (token.kind == "word" and token.upper not in _AFTER_TABLE):
        alias = stream.next().value
    else:
        return ""
    if stream.at("("):
        raise not_implemented(f"Names of columns behind the alias {alias} of a table")
    return alias
