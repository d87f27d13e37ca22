"""A query's tree as text again, for another server: every name quoted, every operator a call.

What is read from the text is the same tree. A bound parameter has become a literal before; one that has not is written
as it was.
"""

from __future__ import annotations

from typing import Any

from parts.errors import UserError
from sql.grammar.syntax_tree import (
    Alias,
    ArrayJoin,
    CommonTable,
    Function,
    Identifier,
    Join,
    Lambda,
    Literal,
    LiteralList,
    NamedTable,
    Node,
    OrderItem,
    Parameter,
    Query,
    Select,
    Star,
    Subquery,
    SubqueryTable,
    TableFunction,
    Union,
    WindowSpec,
)
from sql.grammar.tokens import quote_identifier, quote_string

_WITHOUT_CALL = {"and": "AND", "or": "OR", "in": "IN", "notIn": "NOT IN", "globalIn": "GLOBAL IN",
                 "globalNotIn": "GLOBAL NOT IN"}  # fmt: skip
"""Written between their operands: words of the grammar that are also functions."""
_BEHIND = {"isNull": "IS NULL", "isNotNull": "IS NOT NULL"}


def query_text(query: Query) -> str:
    if isinstance(query, Union):
        pieces = [f"({query_text(query.queries[0])})"]
        for operator, branch in zip(query.operators, query.queries[1:], strict=True):
            pieces.append(f"{operator} ({query_text(branch)})")
        return " ".join(pieces)
    assert isinstance(query, Select)
    return " ".join(filter(None, _clauses(query)))


def _clauses(select: Select) -> list[str]:
    with_items = [*map(_common_table, select.common_tables), *map(expression_text, select.with_aliases)]
    distinct = "DISTINCT " if select.distinct else ""
    if select.distinct_on:
        distinct = f"DISTINCT ON ({_list(select.distinct_on)}) "
    return [
        f"WITH {', '.join(with_items)}" if with_items else "",
        f"SELECT {distinct}{_list(select.expressions)}",
        f"FROM {_table(select.source)}" if select.source is not None else "",
        _clause("PREWHERE", select.prewhere),
        _clause("WHERE", select.where),
        _grouping(select),
        "WITH TOTALS" if select.totals else "",
        _clause("HAVING", select.having),
        f"WINDOW {', '.join(f'{quote_identifier(n)} AS {_window(w)}' for n, w in select.windows)}"
        if select.windows
        else "",
        _clause("QUALIFY", select.qualify),
        "ORDER BY ALL" if select.order_by_all else "",
        f"ORDER BY {', '.join(map(_order, select.order_by))}" if select.order_by else "",
        _limit_by(select),
        _clause("LIMIT", select.limit),
        "WITH TIES" if select.with_ties else "",
        _clause("OFFSET", select.offset),
    ]


def _clause(words: str, node: Node | None) -> str:
    return f"{words} {expression_text(node)}" if node is not None else ""


def _grouping(select: Select) -> str:
    if select.grouping == "ALL":
        return "GROUP BY ALL"
    if not select.group_by:
        return ""
    keys = _list(select.group_by)
    if select.grouping == "SETS":
        return f"GROUP BY GROUPING SETS ({keys})"
    return f"GROUP BY {select.grouping}({keys})" if select.grouping else f"GROUP BY {keys}"


def _limit_by(select: Select) -> str:
    by = select.limit_by
    if by is None:
        return ""
    offset = f" OFFSET {expression_text(by.offset)}" if by.offset is not None else ""
    return f"LIMIT {expression_text(by.limit)}{offset} BY {_list(by.expressions)}"


def _common_table(table: CommonTable) -> str:
    columns = f" ({', '.join(map(quote_identifier, table.columns))})" if table.columns else ""
    return f"{quote_identifier(table.name)}{columns} AS ({query_text(table.query)})"


# Tables ---------------------------------------------------------------------------------------------------------------


def _table(node: Node | None) -> str:
    match node:
        case NamedTable():
            return _named_table(node)
        case SubqueryTable(query=query, alias=alias):
            return f"({query_text(query)}){_alias(alias or node.table)}"
        case TableFunction(name, args, alias):
            inner = ", ".join(
                query_text(arg.query) if isinstance(arg, Subquery) else expression_text(arg) for arg in args
            )
            return f"{quote_identifier(name)}({inner}){_alias(alias)}"
        case Join():
            return _join(node)
        case ArrayJoin(source, expressions, left):
            before = f"{_table(source)} " if source is not None else ""
            return f"{before}{'LEFT ' if left else ''}ARRAY JOIN {_list(expressions)}"
    raise _unwritable(node)


def _named_table(node: NamedTable) -> str:
    database = f"{quote_identifier(node.database)}." if node.database is not None else ""
    text = f"{database}{quote_identifier(node.table)}{_alias(node.alias)}{' FINAL' if node.final else ''}"
    if node.sample is not None:
        text += f" SAMPLE {node.sample.numerator}/{node.sample.denominator}"
    if node.sample_offset is not None:
        text += f" OFFSET {node.sample_offset.numerator}/{node.sample_offset.denominator}"
    return text


def _alias(name: str) -> str:
    return f" AS {quote_identifier(name)}" if name else ""


def _join(node: Join) -> str:
    strictness = "" if node.kind == "CROSS" or node.strictness == "ALL" else f"{node.strictness} "
    kind = f"{'GLOBAL ' if node.is_global else ''}{node.kind}"
    text = f"{_table(node.left)} {kind} {strictness}JOIN {_table(node.right)}"
    if node.on is not None:
        return f"{text} ON {expression_text(node.on)}"
    return f"{text} USING ({', '.join(map(quote_identifier, node.using))})" if node.using else text


# Expressions ----------------------------------------------------------------------------------------------------------


def expression_text(node: Node) -> str:
    match node:
        case Literal(value, text):
            return _literal(value, text)
        case LiteralList(values, is_array) if node.is_of_tuples:
            rows = zip(*(column.to_pylist() for column in values.flatten()), strict=True)
            return _bracketed([f"({', '.join(_literal(cell) for cell in row)})" for row in rows], is_array)
        case LiteralList(values, is_array):
            return _bracketed([_literal(value) for value in values.to_pylist()], is_array)
        case Identifier(parts):
            return ".".join(map(quote_identifier, parts))
        case Alias(expression, name):
            return f"({expression_text(expression)}) AS {quote_identifier(name)}"
        case Lambda(parameters, body):
            return f"({', '.join(map(quote_identifier, parameters))}) -> {expression_text(body)}"
        case Parameter(name, type_):
            return f"{{{name}:{type_}}}"
        case Subquery(query):
            return f"({query_text(query)})"
        case Star():
            return _star(node)
        case Function():
            return _function(node)
    raise _unwritable(node)


def _function(node: Function) -> str:
    name, args = node.name, node.args
    is_plain = node.params is None and not (node.distinct or node.filter or node.window or node.nulls)
    if is_plain and name in _WITHOUT_CALL and len(args) >= 2:
        return f"({f' {_WITHOUT_CALL[name]} '.join(map(expression_text, args))})"
    if is_plain and name in _BEHIND and len(args) == 1:
        return f"({expression_text(args[0])} {_BEHIND[name]})"
    if is_plain and name == "exists":
        return f"exists{expression_text(args[0])}"
    if is_plain and name == "not":
        return f"(NOT {expression_text(args[0])})"
    params = f"({_list(node.params)})" if node.params is not None else ""
    text = f"{name}{params}({'DISTINCT ' if node.distinct else ''}{_list(args)})"
    if node.nulls:
        text += f" {node.nulls} NULLS"
    if node.filter is not None:
        text += f" FILTER (WHERE {expression_text(node.filter)})"
    if node.window is not None:
        text += f" OVER {_window(node.window)}"
    return text


def _window(window: WindowSpec | str) -> str:
    if isinstance(window, str):
        return quote_identifier(window)
    pieces = [quote_identifier(window.base)] if window.base else []
    if window.partition_by:
        pieces.append(f"PARTITION BY {_list(window.partition_by)}")
    if window.order_by:
        pieces.append(f"ORDER BY {', '.join(map(_order, window.order_by))}")
    if window.frame:
        pieces.append(window.frame)
    return f"({' '.join(pieces)})"


def _star(node: Star) -> str:
    before = "".join(f"{quote_identifier(part)}." for part in node.qualifier)
    text = f"{before}COLUMNS({quote_string(node.pattern)})" if node.pattern is not None else f"{before}*"
    for kind, value in node.modifiers:
        if kind == "except":
            text += f" EXCEPT ({', '.join(map(quote_identifier, value))})"
        elif kind == "replace":
            text += f" REPLACE ({_list(value)})"
        else:
            text += f" APPLY({value if isinstance(value, str) else expression_text(value)})"
    return text


def _order(item: OrderItem) -> str:
    nulls = "" if item.nulls_first is None else f" NULLS {'FIRST' if item.nulls_first else 'LAST'}"
    return f"{expression_text(item.expression)}{' DESC' if item.descending else ''}{nulls}"


def _literal(value: Any, text: str = "") -> str:
    if value is None or isinstance(value, bool):
        return "NULL" if value is None else str(value).lower()
    return quote_string(value) if isinstance(value, str) else text or repr(value)


def _bracketed(items: list[str], is_array: bool) -> str:
    return f"[{', '.join(items)}]" if is_array else f"({', '.join(items)})"


def _list(nodes: tuple[Node, ...]) -> str:
    return ", ".join(map(expression_text, nodes))


def _unwritable(node: object) -> UserError:
    return UserError("NOT_IMPLEMENTED", f"{type(node).__name__} cannot be sent to another server")
