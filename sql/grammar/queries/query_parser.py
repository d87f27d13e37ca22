"""Parses queries: SELECT with all its clauses, UNION and CTEs; ``from_clause`` parses FROM.

Source: ClickHouse documentation, "SELECT query".
"""

from __future__ import annotations

from dataclasses import replace

from parts.common.errors import UserError
from parts.common.lru_cache import LruCache
from sql.grammar.common_clauses import parse_settings_clause
from sql.grammar.queries.expressions import ExpressionParser
from sql.grammar.queries.from_clause import parse_from
from sql.grammar.query_limits import QUERY_LEVELS, QueryGuard, check_tree
from sql.grammar.syntax_tree import (
    Alias,
    CommonTable,
    Identifier,
    LimitBy,
    Literal,
    NamedTable,
    Node,
    Query,
    Select,
    Star,
    Union,
    WindowSpec,
    walk,
)
from sql.grammar.text_cache import TextKey, make_text_cache
from sql.grammar.tokens import TokenStream, not_implemented
from sql.settings.session_settings import check_inner_settings

_queries: LruCache[TextKey, Query] = make_text_cache(256)
_expressions: LruCache[TextKey, Node] = make_text_cache(1024)
_lists: LruCache[TextKey, tuple[Node, ...]] = make_text_cache(256)


def _make_parser(stream: TokenStream) -> ExpressionParser:
    return ExpressionParser(stream, parse_query_stream)


def parse_query(text: str, guard: QueryGuard | None = None) -> Query:
    """Parses the whole text as one query.

    Raises ``UserError`` 62 with the position, and 306, 167 and 168 past the limits.
    """
    guard = guard if guard is not None else QueryGuard(text=text)
    return _queries.get((text, guard.limits), lambda: _parse_whole_query(text, guard))


def _parse_whole_query(text: str, guard: QueryGuard) -> Query:
    stream = TokenStream(text, guard=guard)
    query = parse_query_stream(stream)
    stream.accept(";")
    if not stream.at_end():
        stream.fail("end of query")
    check_tree(query, guard)
    return query


def parse_expression(text: str) -> Node:
    """Parses the whole text as one expression (a key, a default, a condition)."""
    return _expressions.get((text, None), lambda: _parse_whole_expression(text))


def _parse_whole_expression(text: str) -> Node:
    stream = TokenStream(text)
    node = _make_parser(stream).aliased()
    if not stream.at_end():
        stream.fail("end of expression")
    check_tree(node, stream.guard)
    return node


def parse_expression_list(text: str) -> tuple[Node, ...]:
    """Parses ``a, b`` into its expressions; an empty text has none."""
    return _lists.get((text, None), lambda: _parse_whole_list(text))


def _parse_whole_list(text: str) -> tuple[Node, ...]:
    stream = TokenStream(text)
    if stream.at_end():
        return ()
    nodes = _make_parser(stream).aliased_list()
    if not stream.at_end():
        stream.fail("end of expression")
    for node in nodes:
        check_tree(node, stream.guard)
    return nodes


def parse_query_stream(stream: TokenStream) -> Query:
    """Parses a query from the stream's position on."""
    with stream.guard.nested(QUERY_LEVELS):
        return _parse_union(stream)


def _parse_union(stream: TokenStream) -> Query:
    queries = [_parse_intersection(stream)]
    operators: list[str] = []
    while word := next((word for word in ("UNION", "EXCEPT") if stream.accept(word)), ""):
        mode = _parse_set_mode(stream)
        if word == "UNION" and not mode:
            raise UserError(
                "BAD_ARGUMENTS", "Expected ALL or DISTINCT in SelectWithUnion query: write UNION ALL or UNION DISTINCT"
            )
        operators.append(f"{word} {mode}".strip())
        queries.append(_parse_intersection(stream))
    return _combine(queries, operators)


def _parse_intersection(stream: TokenStream) -> Query:
    """Parses operands of INTERSECT, which binds stronger than UNION and EXCEPT."""
    queries = [_parse_operand(stream)]
    operators: list[str] = []
    while stream.accept("INTERSECT"):
        operators.append(f"INTERSECT {_parse_set_mode(stream)}".strip())
        queries.append(_parse_operand(stream))
    return _combine(queries, operators)


def _parse_set_mode(stream: TokenStream) -> str:
    return next((mode for mode in ("DISTINCT", "ALL") if stream.accept(mode)), "")


def _combine(queries: list[Query], operators: list[str]) -> Query:
    return queries[0] if len(queries) == 1 else Union(tuple(queries), tuple(operators))


def _parse_operand(stream: TokenStream) -> Query:
    if stream.accept("("):
        query = parse_query_stream(stream)
        stream.expect(")")
        return query
    return _parse_select(stream)


def _parse_select(stream: TokenStream) -> Select:
    parser = _make_parser(stream)
    tables, aliases = _parse_with(parser)
    early_source = None
    if stream.accept("FROM"):
        early_source = parse_from(parser)
    clauses: dict[str, object] = {"common_tables": tables, "with_aliases": aliases, "source": early_source}
    if early_source is None or stream.at("SELECT"):
        stream.expect("SELECT")
        _parse_select_list(parser, clauses)
    else:
        clauses["expressions"] = (Star(),)
    if stream.accept("FROM"):
        clauses["source"] = parse_from(parser)
    _parse_filters(parser, clauses)
    _parse_ordering(parser, clauses)
    select = Select(**clauses)  # type: ignore[arg-type]
    return replace(select, source=_ONE) if select.source is None and _reads_one(select) else select


_ONE, _DUMMY = NamedTable("system", "one"), Identifier(("dummy",))


def _reads_one(select: Select) -> bool:
    """Returns whether a SELECT without FROM uses columns, and so reads ``system.one``."""
    if any(isinstance(node, Star) for node in select.expressions):
        return True
    return any(node == _DUMMY for node in walk(select, into_queries=False))


def _parse_select_list(parser: ExpressionParser, clauses: dict[str, object]) -> None:
    stream = parser.stream
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
        clauses["with_ties"] = stream.accept("WITH", "TIES")
    expressions = [parser.freely_aliased()]
    while stream.accept(",") and not _list_ends(stream):
        expressions.append(parser.freely_aliased())
    clauses["expressions"] = tuple(expressions)


def _list_ends(stream: TokenStream) -> bool:
    """Returns whether the SELECT list ends behind a trailing comma; FROM may also be a column's name."""
    return stream.at_end() or (stream.at("FROM") and stream.peek(1).upper not in ("FROM", ",", ""))


def _parse_with(parser: ExpressionParser) -> tuple[tuple[CommonTable, ...], tuple[Alias, ...]]:
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
            stream.accept("MATERIALIZED")
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
    found = stream.accept("AS", "(") or stream.accept("AS", "MATERIALIZED", "(")
    while found and stream.accept("("):
        pass
    found = found and stream.peek().upper in ("SELECT", "WITH", "FROM")
    stream.position = start
    return found


def _parse_filters(parser: ExpressionParser, clauses: dict[str, object]) -> None:
    stream = parser.stream
    if stream.accept("PREWHERE"):
        clauses["prewhere"] = parser.aliased()
    if stream.accept("WHERE"):
        clauses["where"] = parser.aliased()
    if stream.accept("GROUP"):
        stream.expect("BY")
        _parse_group_by(parser, clauses)
    while stream.accept("WITH"):
        _parse_with_modifier(stream, clauses)
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


def _parse_with_modifier(stream: TokenStream, clauses: dict[str, object]) -> None:
    if stream.accept("TOTALS"):
        clauses["totals"] = True
    elif stream.at("ROLLUP") or stream.at("CUBE"):
        clauses["grouping"] = stream.next().upper
    else:
        stream.fail("TOTALS", "ROLLUP", "CUBE")


def _parse_group_by(parser: ExpressionParser, clauses: dict[str, object]) -> None:
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


def _parse_ordering(parser: ExpressionParser, clauses: dict[str, object]) -> None:
    stream = parser.stream
    if stream.accept("ORDER"):
        stream.expect("BY")
        if stream.at("ALL") and stream.peek(1).text not in (",", "(", "."):
            stream.next()
            clauses["order_by_all"] = True
            if not stream.accept("ASC") and stream.at("DESC"):
                raise not_implemented("ORDER BY ALL DESC")
            if stream.at("NULLS"):
                raise not_implemented("ORDER BY ALL NULLS")
        else:
            clauses["order_by"] = parser.order_items()
        if stream.at("WITH", "FILL"):
            raise not_implemented("ORDER BY … WITH FILL")
    while stream.accept("LIMIT"):
        _parse_limit(parser, clauses)
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
        check_inner_settings(parse_settings_clause(stream))


def _parse_limit(parser: ExpressionParser, clauses: dict[str, object]) -> None:
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
        if stream.at("ALL") and stream.peek(1).text not in (",", "(", "."):
            raise not_implemented("LIMIT BY ALL")
        clauses["limit_by"] = LimitBy(limit, offset, parser.aliased_list())
        return
    if "limit" in clauses:
        stream.fail("one LIMIT")
    clauses["limit"], clauses["offset"] = limit, offset
    if stream.accept("WITH"):
        stream.expect("TIES")
        clauses["with_ties"] = True
