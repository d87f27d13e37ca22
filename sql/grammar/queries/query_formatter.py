"""Formats a query or expression tree as text that parses to the same tree.

The text is as ClickHouse keeps it in definitions. Operators stand between their operands, with brackets where an
operand is an operator too. INTERVAL becomes its function. The text has the lines of SHOW CREATE, or is one line as
``system.tables`` shows it. Queries for another server are one line, with every name quoted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

from parts.common.errors import UserError
from sql.grammar.queries.query_parser import parse_expression, parse_query
from sql.grammar.syntax_tree import (
    Alias,
    ArrayJoin,
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
from sql.grammar.tokens import quote_identifier, quote_identifier_if_needed, quote_string

_INFIX_OPERATORS = {
    "plus": "+", "minus": "-", "multiply": "*", "divide": "/", "modulo": "%", "equals": "=", "notEquals": "!=",
    "less": "<", "greater": ">", "lessOrEquals": "<=", "greaterOrEquals": ">=", "like": "LIKE", "notLike": "NOT LIKE",
    "ilike": "ILIKE", "notILike": "NOT ILIKE", "in": "IN", "notIn": "NOT IN", "and": "AND", "or": "OR",
    "isNotDistinctFrom": "<=>", "isDistinctFrom": "IS DISTINCT FROM", "globalIn": "GLOBAL IN",
    "globalNotIn": "GLOBAL NOT IN",
}  # fmt: skip
_CHAINED = ("and", "or")
_PREFIX_OPERATORS = {"not": "NOT ", "negate": "-"}
_POSTFIX_OPERATORS = {"isNull": " IS NULL", "isNotNull": " IS NOT NULL"}
_SETS = ("in", "notIn", "globalIn", "globalNotIn")
_ELEMENTS = ("arrayElement", "tupleElement")
_QUANTIFIED = {"_any": "ANY", "_all": "ALL"}
_INDENT = "    "


def format_view_query(query: Query, *, one_line: bool = False) -> str:
    """Formats the query of a view's definition.

    Raises 48 (NOT_IMPLEMENTED) for a query whose text would not parse to the same tree, since the kept text is what
    runs.
    """
    text = _Writer(one_line, quote_identifier_if_needed).query(query, 0)
    if not one_line and parse_query(text) != query:
        raise UserError("NOT_IMPLEMENTED", "A view of this query is not supported: its text cannot be kept")
    return text


def format_query(query: Query) -> str:
    """Formats a query for another server. An unbound parameter is written as it was."""
    return _Writer(True, quote_identifier).query(query, 0)


def format_expression(node: Node) -> str:
    """Formats an expression for another server."""
    return _Writer(True, quote_identifier).text(node, 0)


def normalize_expression(text: str) -> str:
    """Returns a definition's expression in normal form.

    An expression that cannot be formatted keeps its text, with blanks collapsed. Raises ``UserError`` 62
    (SYNTAX_ERROR).
    """
    node = parse_expression(text)
    try:
        return _Writer(True, quote_identifier_if_needed).text(node, 0)
    except UserError:
        return " ".join(text.split()) if "'" not in text else text.strip()


class _Writer:
    """Writes trees as text; ``name`` quotes a name."""

    def __init__(self, one_line: bool, name: Callable[[str], str]) -> None:
        self._one_line = one_line
        self._name = name

    def _line(self, indent: int, between: str = " ") -> str:
        """Returns a line break with indentation, or ``between`` when writing one line."""
        return between if self._one_line else "\n" + _INDENT * indent

    # Queries ----------------------------------------------------------------------------------------------------------

    def query(self, query: Query, indent: int) -> str:
        """Returns the text of a query."""
        if isinstance(query, Union):
            return self._union(query, indent)
        assert isinstance(query, Select)
        return self._line(indent).join(self._clauses(query, indent))

    def _union(self, union: Union, indent: int) -> str:
        texts = [self._operand(query, indent) for query in union.queries]
        for position, operator in enumerate(union.operators, 1):
            texts[position] = operator + self._line(indent) + texts[position]
        return self._line(indent).join(texts)

    def _operand(self, query: Query, indent: int) -> str:
        return self._bracketed(query, indent) if isinstance(query, Union) else self.query(query, indent)

    def _bracketed(self, query: Query, indent: int) -> str:
        return f"({self._line(indent + 1, '')}{self.query(query, indent + 1)}{self._line(indent, '')})"

    def _clauses(self, select: Select, indent: int) -> list[str]:
        clauses = [*self._with(select, indent), "SELECT" + self._distinct(select, indent)]
        clauses[-1] += self._items(select.expressions, indent)
        if select.source is not None:
            begin = "" if isinstance(select.source, ArrayJoin) and select.source.source is None else "FROM "
            clauses.append(begin + self._table(select.source, indent))
            if clauses[-1].startswith("FROM \n"):
                clauses[-1] = "FROM" + clauses[-1].removeprefix("FROM ")
        for word, condition in (("PREWHERE", select.prewhere), ("WHERE", select.where)):
            clauses += [f"{word} {self.text(condition, indent)}"] if condition is not None else []
        clauses += self._groups(select, indent)
        if select.having is not None:
            clauses.append(f"HAVING {self.text(select.having, indent)}")
        if select.windows:
            named = [f"{self._name(name)} AS {self._window(spec, indent)}" for name, spec in select.windows]
            clauses.append(f"WINDOW {', '.join(named)}")
        if select.qualify is not None:
            clauses.append(f"QUALIFY {self.text(select.qualify, indent)}")
        if select.order_by or select.order_by_all:
            clauses.append("ORDER BY" + (" ALL" if select.order_by_all else self._items(select.order_by, indent)))
        return clauses + self._limits(select, indent)

    def _with(self, select: Select, indent: int) -> list[str]:
        items = [self.text(alias, indent + 1) for alias in select.with_aliases]
        for table in select.common_tables:
            columns = f" ({', '.join(map(self._name, table.columns))})" if table.columns else ""
            head = f"{self._name(table.name)}{columns} AS{self._line(indent + 1)}"
            items.append(head + self._bracketed(table.query, indent + 1))
        if not items:
            return []
        return [f"WITH{self._line(indent + 1)}" + f",{self._line(indent + 1)}".join(items)]

    def _distinct(self, select: Select, indent: int) -> str:
        on = f" ON ({self._list(select.distinct_on, indent)})" if select.distinct_on else ""
        return f" DISTINCT{on}" if select.distinct else ""

    def _items(self, nodes: Sequence[Node], indent: int) -> str:
        """Writes one item behind its clause, several on lines of their own."""
        texts = [self.text(node, indent + 1) for node in nodes]
        return f" {texts[0]}" if len(texts) == 1 else self._line(indent + 1) + f",{self._line(indent + 1)}".join(texts)

    def _groups(self, select: Select, indent: int) -> list[str]:
        text = ""
        if select.grouping == "ALL":
            text = "GROUP BY ALL"
        elif select.grouping == "SETS":
            line = self._line(indent + 2, "")
            sets = [f"{line}({self._list(_list_members(item), indent)})" for item in select.group_by]
            text = f"GROUP BY{self._line(indent + 1)}GROUPING SETS ({','.join(sets)})"
        elif select.group_by:
            text = "GROUP BY" + self._items(select.group_by, indent)
            text += f"{self._line(indent + 1)}WITH {select.grouping}" if select.grouping else ""
        text += f"{self._line(indent + 1)}WITH TOTALS" if select.totals else ""
        return [text] if text else []

    def _limits(self, select: Select, indent: int) -> list[str]:
        clauses = []
        if (by := select.limit_by) is not None:
            offset = f"{self.text(by.offset, indent)}, " if by.offset is not None else ""
            clauses.append(f"LIMIT {offset}{self.text(by.limit, indent)} BY{self._items(by.expressions, indent)}")
        offset = self.text(select.offset, indent) if select.offset is not None else ""
        if select.limit is not None:
            limit = f"{offset}, {self.text(select.limit, indent)}" if offset else self.text(select.limit, indent)
            clauses.append(f"LIMIT {limit}{' WITH TIES' if select.with_ties else ''}")
        elif offset:
            clauses.append(f"OFFSET {offset}")
        return clauses

    # Tables -----------------------------------------------------------------------------------------------------------

    def _table(self, node: Node, indent: int) -> str:
        match node:
            case NamedTable(database, table, alias, final, sample, offset):
                text = self._name(table)
                text = text if database is None else f"{self._name(database)}.{text}"
                text += f" AS {self._name(alias)}" if alias else ""
                text += f"{self._line(indent)}FINAL" if final else ""
                text += f"{self._line(indent)}SAMPLE {_format_ratio(sample)}" if sample is not None else ""
                return text + (f" OFFSET {_format_ratio(offset)}" if offset is not None else "")
            case SubqueryTable(query):
                text = self._line(indent, "") + self._bracketed(query, indent)
                alias = node.alias or node.table  # ``table`` is the name of an expanded view
                return text + (f" AS {self._name(alias)}" if alias else "")
            case TableFunction(name, args, alias):
                match args:
                    case (Subquery(query),):
                        inner = self._bracketed(query, indent)
                    case _:
                        inner = f"({self._list(args, indent)})"
                text = f"{quote_identifier_if_needed(name)}{inner}"
                return text + (f" AS {self._name(alias)}" if alias else "")
            case Join():
                return self._join(node, indent)
            case ArrayJoin(source, expressions, left):
                head = "" if source is None else self._table(source, indent) + self._line(indent)
                return f"{head}{'LEFT ' if left else ''}ARRAY JOIN{self._items(expressions, indent)}"
        raise _unformattable_error(node)

    def _join(self, join: Join, indent: int) -> str:
        left, right = self._table(join.left, indent), self._table(join.right, indent)
        if isinstance(join.right, Join | ArrayJoin):
            right = f"({right})"
        if join.kind == "CROSS":
            return f"{left}, {right.lstrip()}"
        strictness = "" if join.strictness == "ALL" else f"{join.strictness} "
        kind = f"{'GLOBAL ' if join.is_global else ''}{strictness}{join.kind}"
        text = f"{left}{self._line(indent)}{kind} JOIN {right.lstrip() if self._one_line else right}"
        text = text.replace("JOIN \n", "JOIN\n")
        if join.using:
            return f"{text} USING ({', '.join(map(self._name, join.using))})"
        return text if join.on is None else f"{text} ON {self.text(join.on, indent)}"

    # Expressions ------------------------------------------------------------------------------------------------------

    def text(self, node: Node, indent: int) -> str:
        """Returns the text of an expression. Raises 48 (NOT_IMPLEMENTED) for a node without text."""
        match node:
            case Literal():
                return _format_literal(node)
            case LiteralList():
                return _format_literal_list(node)
            case Identifier(parts):
                return ".".join(map(self._name, parts))
            case Alias(expression, name):
                return f"{self.text(expression, indent)} AS {self._name(name)}"
            case Lambda(parameters, body):
                names = ", ".join(map(self._name, parameters))
                return f"{names if len(parameters) == 1 else f'({names})'} -> {self._operand_text(body, indent)}"
            case Parameter(name, type_):
                return f"{{{name}:{type_}}}"
            case Subquery(query):
                return self._bracketed(query, indent)
            case Star():
                return self._star(node, indent)
            case OrderItem(expression, descending, nulls_first):
                nulls = "" if nulls_first is None else f" NULLS {'FIRST' if nulls_first else 'LAST'}"
                return f"{self.text(expression, indent)} {'DESC' if descending else 'ASC'}{nulls}"
            case Function():
                return self._function(node, indent)
        raise _unformattable_error(node)

    def _list(self, nodes: Sequence[Node], indent: int) -> str:
        return ", ".join([self.text(node, indent) for node in nodes])

    def _operand_text(self, node: Node, indent: int) -> str:
        text = self.text(node, indent)
        is_element = isinstance(node, Function) and node.name in _ELEMENTS and _is_plain_call(node)
        return f"({text})" if isinstance(node, Alias | Lambda) or is_element or _is_operator(node) else text

    def _function(self, node: Function, indent: int) -> str:
        name, args = node.name, node.args
        if _is_operator(node):
            return self._operator(name, args, indent)
        if name in _QUANTIFIED and len(args) == 1 and isinstance(args[0], Subquery):
            return f"{_QUANTIFIED[name]}{self.text(args[0], indent)}"
        if _is_plain_call(node):
            if name == "tuple" and len(args) > 1:
                return f"({self._list(args, indent)})"
            if name == "array":
                return f"[{self._list(args, indent)}]"
            if name == "arrayElement" and len(args) == 2:
                return f"{self._operand_text(args[0], indent)}[{self.text(args[1], indent)}]"
            if name == "tupleElement" and len(args) == 2 and isinstance(args[1], Literal) and args[1].text.isdigit():
                return f"{self._operand_text(args[0], indent)}.{args[1].text}"
        params = "" if node.params is None else f"({self._list(node.params, indent)})"
        distinct = "DISTINCT " if node.distinct else ""
        text = f"{quote_identifier_if_needed(name)}{params}({distinct}{self._list(args, indent)})"
        text += f" {node.nulls} NULLS" if node.nulls else ""
        text += f" FILTER (WHERE {self.text(node.filter, indent)})" if node.filter is not None else ""
        if node.window is None:
            return text
        of = self._name(node.window) if isinstance(node.window, str) else self._window(node.window, indent)
        return f"{text} OVER {of}"

    def _operator(self, name: str, args: Sequence[Node], indent: int) -> str:
        if name in _PREFIX_OPERATORS:
            return _PREFIX_OPERATORS[name] + self._operand_text(args[0], indent)
        if name in _POSTFIX_OPERATORS:
            return self._operand_text(args[0], indent) + _POSTFIX_OPERATORS[name]
        texts = [self._operand_text(arg, indent) for arg in args]
        if name in _SETS and isinstance(args[1], Literal | Identifier | Parameter):
            texts[1] = f"({texts[1]})"
        return f" {_INFIX_OPERATORS[name]} ".join(texts)

    def _window(self, window: WindowSpec, indent: int) -> str:
        pieces = [self._name(window.base)] if window.base else []
        if window.partition_by:
            pieces.append(f"PARTITION BY {self._list(window.partition_by, indent)}")
        if window.order_by:
            pieces.append(f"ORDER BY {self._list(window.order_by, indent)}")
        return f"({' '.join([*pieces, *([window.frame] if window.frame else [])])})"

    def _star(self, star: Star, indent: int) -> str:
        text = "*" if star.pattern is None else f"COLUMNS({quote_string(star.pattern)})"
        text = ".".join([*map(self._name, star.qualifier), text])
        for kind, value in star.modifiers:
            if kind == "except":
                names = ", ".join(map(self._name, value))
                text += f" EXCEPT {names if len(value) == 1 else f'({names})'}"
            elif kind == "replace":
                text += f" REPLACE ({self._list(value, indent)})"
            else:
                text += f" APPLY({self.text(value, indent)})"
        return text


def _unformattable_error(node: object) -> UserError:
    return UserError("NOT_IMPLEMENTED", f"{type(node).__name__} cannot be written as text")


def _is_plain_call(node: Function) -> bool:
    return not (node.params is not None or node.distinct or node.filter or node.window or node.nulls)


def _is_operator(node: Node) -> bool:
    if not isinstance(node, Function) or not _is_plain_call(node):
        return False
    count = len(node.args)
    if node.name in _PREFIX_OPERATORS:
        return count == 1 and not (node.name == "negate" and isinstance(node.args[0], Literal | LiteralList))
    if node.name in _POSTFIX_OPERATORS:
        return count == 1
    return node.name in _INFIX_OPERATORS and (count == 2 or (node.name in _CHAINED and count > 2))


def _list_members(node: Node) -> Sequence[Node]:
    return node.args if isinstance(node, Function) and node.name == "tuple" else (node,)


def _format_ratio(ratio: Fraction) -> str:
    return str(ratio.numerator) if ratio.denominator == 1 else f"{ratio.numerator} / {ratio.denominator}"


def _format_literal(node: Literal) -> str:
    value = node.value
    if value is None or isinstance(value, bool):
        return "NULL" if value is None else str(value).lower()
    return quote_string(value) if isinstance(value, str) else node.text or str(value)


def _format_literal_list(node: LiteralList) -> str:
    if node.is_of_tuples:
        rows = zip(*(column.to_pylist() for column in node.values.flatten()), strict=True)
        texts = [f"({', '.join([_format_literal(Literal(value)) for value in row])})" for row in rows]
    else:
        texts = [_format_literal(Literal(value)) for value in node.values.to_pylist()]
    inner = ", ".join(texts)
    return f"[{inner}]" if node.is_array else f"({inner})"
