"""Parses queries: SELECT with all its clauses, UNION, CTEs and the tables of FROM.

Source: ClickHouse documentation, "SELECT query" and "JOIN clause".
"""

from __future__ import annotations

from parts.errors import UserError
from sql.grammar.clauses import setting_list
from sql.grammar.expressions import ExpressionParser
from sql.grammar.limits import BRACKET_LEVELS, QUERY_LEVELS, Guard, check_tree
from sql.grammar.primary import at_query
from sql.grammar.recent_texts import RecentTexts
from sql.grammar.syntax_tree import (
    Alias,
    ArrayJoin,
    CommonTable,
    Join,
    LimitBy,
    Literal,
    NamedTable,
    Node,
    Query,
    Select,
    Subquery,
    SubqueryTable,
    TableFunction,
    Union,
    WindowSpec,
)
from sql.grammar.tokens import TokenStream, not_implemented
from sql.settings.known import check_inner_settings

_AFTER_TABLE = frozenset(
    [
        "FINAL",
        "SAMPLE",
        "ARRAY",
        "LEFT",
        "RIGHT",
        "INNER",
        "FULL",
        "CROSS",
        "ANY",
        "ALL",
        "ASOF",
        "SEMI",
        "ANTI",
        "GLOBAL",
        "JOIN",
        "ON",
        "USING",
        "PREWHERE",
        "WHERE",
        "GROUP",
        "HAVING",
        "WINDOW",
        "QUALIFY",
        "ORDER",
        "LIMIT",
        "OFFSET",
        "FETCH",
        "UNION",
        "INTERSECT",
        "EXCEPT",
        "SETTINGS",
        "FORMAT",
        "INTO",
        "AS",
        "WITH",
        "PASTE",
    ]
)
_JOIN_WORDS = frozenset(
    ["GLOBAL", "ANY", "ALL", "ASOF", "SEMI", "ANTI", "INNER", "LEFT", "RIGHT", "FULL", "CROSS", "OUTER", "JOIN"]
)


_TABLE_LEVELS = 3
_queries: RecentTexts[Query] = RecentTexts(most=256)
_expressions: RecentTexts[Node] = RecentTexts(most=1024)
_lists: RecentTexts[tuple[Node, ...]] = RecentTexts(most=256)


def _fresh(stream: TokenStream) -> ExpressionParser:
    return ExpressionParser(stream, parse_query_stream)


def parse_query(text: str, guard: Guard | None = None) -> Query:
    """The whole text as one query. Raises ``UserError`` 62 with the position, 306, 167 and 168 past the limits."""
    guard = guard if guard is not None else Guard(text=text)
    return _queries.get((text, guard.limits), lambda: _whole_query(text, guard))


def _whole_query(text: str, guard: Guard) -> Query:
    stream = TokenStream(text, guard=guard)
    query = parse_query_stream(stream)
    stream.accept(";")
    if not stream.at_end():
        stream.fail("end of query")
    check_tree(query, guard)
    return query


def parse_expression(text: str) -> Node:
    """The whole text as one expression (a key, a default, a condition)."""
    return _expressions.get((text, None), lambda: _whole_expression(text))


def _whole_expression(text: str) -> Node:
    stream = TokenStream(text)
    node = _fresh(stream).aliased()
    if not stream.at_end():
        stream.fail("end of expression")
    check_tree(node, stream.guard)
    return node


def parse_expression_list(text: str) -> tuple[Node, ...]:
    """``a, b``; an empty text is no expression."""
    return _lists.get((text, None), lambda: _whole_list(text))


def _whole_list(text: str) -> tuple[Node, ...]:
    stream = TokenStream(text)
    if stream.at_end():
        return ()
    nodes = _fresh(stream).aliased_list()
    if not stream.at_end():
        stream.fail("end of expression")
    for node in nodes:
        check_tree(node, stream.guard)
    return nodes


def parse_query_stream(stream: TokenStream) -> Query:
    """A query from the stream's position on."""
    with stream.guard.nested(QUERY_LEVELS):
        return _union(stream)


def _union(stream: TokenStream) -> Query:
    queries = [_operand(stream)]
    operators: list[str] = []
    while True:
        for word in ("UNION", "INTERSECT", "EXCEPT"):
            if stream.accept(word):
                break
        else:
            break
        mode = "DISTINCT" if stream.accept("DISTINCT") else ("ALL" if stream.accept("ALL") else "")
        if word == "UNION" and not mode:
            raise UserError(
                "BAD_ARGUMENTS", "Expected ALL or DISTINCT in SelectWithUnion query: write UNION ALL or UNION DISTINCT"
            )
        operators.append(f"{word} {mode}".strip())
        queries.append(_operand(stream))
    return queries[0] if len(queries) == 1 else Union(tuple(queries), tuple(operators))


def _operand(stream: TokenStream) -> Query:
    if stream.accept("("):
        query = parse_query_stream(stream)
        stream.expect(")")
        return query
    return _select(stream)


def _select(stream: TokenStream) -> Select:
    parser = _fresh(stream)
    tables, aliases = _with_clause(parser)
    early_source = None
    if stream.accept("FROM"):
        early_source = _from(parser)
    stream.expect("SELECT")
    clauses: dict[str, object] = {"common_tables": tables, "with_aliases": aliases, "source": early_source}
    if stream.at("DISTINCT"):
        stream.next()
        clauses["distinct"] = True
        if stream.accept("ON"):
            stream.expect("(")
            clauses["distinct_on"] = parser.aliased_list()
            stream.expect(")")
    elif stream.at("ALL") and stream.peek(1).text not in (",", "(", "."):
        stream.next()
    if stream.accept("TOP"):
        clauses["limit"] = parser.expression()
    clauses["expressions"] = parser.aliased_list()
    if stream.accept("FROM"):
        clauses["source"] = _from(parser)
    _filters(parser, clauses)
    _ordering(parser, clauses)
    return Select(**clauses)  # type: ignore[arg-type]


def _with_clause(parser: ExpressionParser) -> tuple[tuple[CommonTable, ...], tuple[Alias, ...]]:
    stream = parser.stream
    tables: list[CommonTable] = []
    aliases: list[Alias] = []
    if not stream.accept("WITH"):
        return (), ()
    if stream.at("RECURSIVE"):
        raise not_implemented("WITH RECURSIVE")
    while True:
        if stream.peek().is_identifier and _at_common_table(stream):
            name = stream.next().value
            columns = tuple(parser.names()) if stream.at("(") else ()
            stream.expect("AS")
            stream.expect("(")
            tables.append(CommonTable(name, parse_query_stream(stream), columns))
            stream.expect(")")
        else:
            item = parser.aliased()
            if not isinstance(item, Alias):
                stream.fail("AS")
            aliases.append(item)
        if not stream.accept(","):
            return tuple(tables), tuple(aliases)


def _at_common_table(stream: TokenStream) -> bool:
    start = stream.position
    stream.next()
    if stream.at("("):
        stream.skip_group()
    found = stream.accept("AS", "(")
    while found and stream.accept("("):
        pass
    found = found and stream.peek().upper in ("SELECT", "WITH", "FROM")
    stream.position = start
    return found


def _filters(parser: ExpressionParser, clauses: dict[str, object]) -> None:
    stream = parser.stream
    if stream.accept("PREWHERE"):
        clauses["prewhere"] = parser.aliased()
    if stream.accept("WHERE"):
        clauses["where"] = parser.aliased()
    if stream.accept("GROUP"):
        stream.expect("BY")
        _group_by(parser, clauses)
    while stream.accept("WITH"):
        _with_modifier(stream, clauses)
    if stream.accept("HAVING"):
        clauses["having"] = parser.aliased()
    if stream.accept("WINDOW"):
        windows: list[tuple[str, WindowSpec]] = []
        while True:
            name = stream.identifier("the name of a window")
            stream.expect("AS")
            windows.append((name, parser.window_spec()))
            if not stream.accept(","):
                break
        clauses["windows"] = tuple(windows)
    if stream.accept("QUALIFY"):
        clauses["qualify"] = parser.aliased()


def _with_modifier(stream: TokenStream, clauses: dict[str, object]) -> None:
    if stream.accept("TOTALS"):
        clauses["totals"] = True
    elif stream.at("ROLLUP") or stream.at("CUBE"):
        clauses["grouping"] = stream.next().upper
    else:
        stream.fail("TOTALS", "ROLLUP", "CUBE")


def _group_by(parser: ExpressionParser, clauses: dict[str, object]) -> None:
    stream = parser.stream
    if stream.at("ALL") and stream.peek(1).text not in (",", "(", "."):
        stream.next()
        clauses["grouping"] = "ALL"
    elif stream.at("GROUPING", "SETS"):
        stream.next()
        stream.next()
        stream.expect("(")
        clauses["grouping"] = "SETS"
        clauses["group_by"] = parser.aliased_list()
        stream.expect(")")
    elif (stream.at("ROLLUP") or stream.at("CUBE")) and stream.peek(1).text == "(":
        clauses["grouping"] = stream.next().upper
        stream.expect("(")
        clauses["group_by"] = parser.aliased_list()
        stream.expect(")")
    else:
        clauses["group_by"] = parser.aliased_list()


def _ordering(parser: ExpressionParser, clauses: dict[str, object]) -> None:
    stream = parser.stream
    if stream.accept("ORDER"):
        stream.expect("BY")
        if stream.at("ALL") and stream.peek(1).text not in (",", "(", "."):
            stream.next()
            clauses["order_by_all"] = True
            if not stream.accept("ASC") and stream.at("DESC"):
                raise not_implemented("ORDER BY ALL DESC")
        else:
            clauses["order_by"] = parser.order_items()
        if stream.at("WITH", "FILL"):
            raise not_implemented("ORDER BY … WITH FILL")
    while stream.accept("LIMIT"):
        _limit(parser, clauses)
    if stream.accept("OFFSET"):
        clauses["offset"] = parser.expression()
        if not stream.accept("ROW"):
            stream.accept("ROWS")
    if stream.accept("FETCH"):
        if not stream.accept("FIRST"):
            stream.expect("NEXT")
        clauses["limit"] = Literal(1, "1") if stream.peek().upper in ("ROW", "ROWS") else parser.expression()
        if not stream.accept("ROW"):
            stream.expect("ROWS")
        if stream.accept("WITH"):
            stream.expect("TIES")
            clauses["with_ties"] = True
        else:
            stream.expect("ONLY")
    if stream.accept("SETTINGS"):
        check_inner_settings(setting_list(stream))


def _limit(parser: ExpressionParser, clauses: dict[str, object]) -> None:
    stream = parser.stream
    limit = parser.expression()
    offset = None
    if stream.accept(","):
        offset, limit = limit, parser.expression()
    elif stream.accept("OFFSET"):
        offset = parser.expression()
    if stream.accept("BY"):
        if "limit_by" in clauses:
            stream.fail("one LIMIT BY")
        clauses["limit_by"] = LimitBy(limit, offset, parser.aliased_list())
        return
    if "limit" in clauses:
        stream.fail("one LIMIT")
    clauses["limit"], clauses["offset"] = limit, offset
    if stream.accept("WITH"):
        stream.expect("TIES")
        clauses["with_ties"] = True


# FROM -----------------------------------------------------------------------------------------------------------------


def _from(parser: ExpressionParser) -> Node:
    stream = parser.stream
    source = _joined(parser, _table(parser))
    while stream.accept(","):
        source = _joined(parser, Join(source, _table(parser), "CROSS"))
    return source


def _joined(parser: ExpressionParser, source: Node) -> Node:
    stream = parser.stream
    while True:
        array_join = 2 if stream.at("LEFT", "ARRAY", "JOIN") or stream.at("INNER", "ARRAY", "JOIN") else 1
        if stream.at("ARRAY", "JOIN") or array_join == 2:
            left = stream.at("LEFT")
            for _ in range(array_join + 1):
                stream.next()
            source = ArrayJoin(source, parser.aliased_list(), left)
        elif stream.peek().kind == "word" and stream.peek().upper in _JOIN_WORDS:
            source = _join(parser, source)
        else:
            return source


def _join(parser: ExpressionParser, left: Node) -> Node:
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
    right = _table(parser)
    on: Node | None = None
    using: tuple[str, ...] = ()
    if stream.accept("ON"):
        on = parser.expression()
    elif stream.accept("USING"):
        using = tuple(_using(parser))
    elif kind != "CROSS":
        stream.fail("ON", "USING")
    return Join(left, right, kind, strictness, on, using)


def _using(parser: ExpressionParser) -> list[str]:
    stream = parser.stream
    bracketed = stream.accept("(")
    names = [stream.identifier("a column name")]
    while stream.accept(","):
        names.append(stream.identifier("a column name"))
    if bracketed:
        stream.expect(")")
    return names


def _table(parser: ExpressionParser) -> Node:
    stream = parser.stream
    if stream.accept("("):
        if at_query(stream, ("SELECT", "WITH", "FROM")):
            with stream.guard.nested(_TABLE_LEVELS):
                query = parse_query_stream(stream)
            stream.expect(")")
            return SubqueryTable(query, _table_alias(stream))
        with stream.guard.nested(BRACKET_LEVELS):
            source = _from(parser)
        stream.expect(")")
        return source
    name = stream.identifier("a table, a table function or a subquery in brackets")
    if stream.accept("("):
        args: tuple[Node, ...] = ()
        if stream.at("SELECT") or stream.at("WITH"):
            args = (Subquery(parse_query_stream(stream)),)
        elif not stream.at(")"):
            args = parser.aliased_list()
        stream.expect(")")
        return TableFunction(name, args, _table_alias(stream))
    database = None
    if stream.accept("."):
        database, name = name, stream.identifier("a table name")
    alias = _table_alias(stream)
    final = stream.accept("FINAL")
    alias = alias or _table_alias(stream)
    sample, offset = _sample(stream) if stream.accept("SAMPLE") else ("", "")
    return NamedTable(database, name, alias, final, sample, offset)


def _sample(stream: TokenStream) -> tuple[str, str]:
    share = _ratio(stream)
    return share, _ratio(stream) if stream.accept("OFFSET") else ""


def _ratio(stream: TokenStream) -> str:
    if stream.peek().kind != "number":
        stream.fail("a share of the data (0.1, 1/10) or a number of rows")
    text = stream.next().text
    if stream.accept("/"):
        if stream.peek().kind != "number":
            stream.fail("a number")
        return f"{text}/{stream.next().text}"
    return text


def _table_alias(stream: TokenStream) -> str:
    if stream.accept("AS"):
        return stream.identifier("alias of the table")
    token = stream.peek()
    if token.kind == "quoted" or (token.kind == "word" and token.upper not in _AFTER_TABLE):
        return stream.next().value
    return ""
