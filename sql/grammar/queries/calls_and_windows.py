"""Parses names, calls, stars and windows.

One parser has three layers, because every bracket holds an expression again. ``primary_expressions.PrimaryParser`` adds
literals, brackets and special forms; ``expressions.ExpressionParser`` adds the operators.

Source: ClickHouse documentation, "Syntax" and "Window functions".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import inf
from typing import Any

from parts.common.errors import UserError
from sql.grammar.queries.time_units import find_time_unit
from sql.grammar.query_limits import CALL_LEVELS
from sql.grammar.syntax_tree import (
    Alias,
    Function,
    Identifier,
    Lambda,
    Literal,
    Node,
    OrderItem,
    Query,
    Star,
    Subquery,
    WindowSpec,
)
from sql.grammar.tokens import TokenStream, not_implemented
from sql.grammar.type_texts import type_text

_UNIT_FIRST = frozenset(
    {
        "DATEDIFF", "DATE_DIFF", "TIMESTAMPDIFF", "TIMESTAMP_DIFF", "DATEADD", "DATE_ADD", "TIMESTAMPADD",
        "TIMESTAMP_ADD", "DATESUB", "DATE_SUB", "TIMESTAMPSUB", "TIMESTAMP_SUB",
    }
)  # fmt: skip


class CallParser:
    """The lowest layer of the expression parser: names, calls, stars, windows.

    ``parse_query`` parses a subquery; ``query_parser`` passes it in, because the two modules need each other.
    """

    def __init__(self, stream: TokenStream, parse_query: Callable[[TokenStream], Query]) -> None:
        self.stream = stream
        self.parse_query = parse_query

    # What the layers above implement ----------------------------------------------------------------------------------

    def expression(self) -> Node:
        """Parses an expression."""
        raise NotImplementedError

    def sum_expression(self) -> Node:
        """Parses operands of ``+`` and ``-``, and everything that binds stronger."""
        raise NotImplementedError

    def concat_expression(self) -> Node:
        """Parses operands of ``||``, and everything that binds stronger."""
        raise NotImplementedError

    def with_alias(self, expression: Node) -> Node:
        """Returns the expression, as an ``Alias`` if an alias follows."""
        raise NotImplementedError

    def with_free_alias(self, expression: Node) -> Node:
        raise NotImplementedError

    def order_items(self) -> tuple[OrderItem, ...]:
        """Parses the items of ORDER BY."""
        raise NotImplementedError

    def parse_aliased(self) -> Node:
        """An expression, perhaps with AS and an alias."""
        return self.with_alias(self.expression())

    def parse_freely_aliased(self) -> Node:
        """An expression whose alias needs no AS: of the list of SELECT, and of some special forms."""
        return self.with_free_alias(self.expression())

    def parse_aliased_list(self) -> tuple[Node, ...]:
        """Parses one or more expressions with optional aliases, separated by commas."""
        items = [self.parse_aliased()]
        while self.stream.accept(","):
            items.append(self.parse_aliased())
        return tuple(items)

    def type_text(self) -> str:
        """Returns the text of a data type."""
        return type_text(self.stream)

    # Names and calls --------------------------------------------------------------------------------------------------

    def name(self) -> Node:
        """Parses a name, a call, or ``table.*``."""
        stream = self.stream
        token = stream.next()
        if stream.at("("):
            return self.function(token.value)
        parts = [token.value]
        while stream.at("."):
            following = stream.peek(1)
            if following.upper == "COLUMNS" and stream.peek(2).text == "(":
                raise not_implemented(f"COLUMNS of one table, {token.text}.COLUMNS(…),")
            if following.text == "*":
                stream.next()
                stream.next()
                return self.star(Star(tuple(parts)))
            if not following.is_identifier or stream.peek(2).text == "(":
                break
            stream.next()
            parts.append(stream.next().value)
        return Identifier(tuple(parts))

    def function(self, name: str) -> Node:
        """Parses a call behind its name."""
        with self.stream.guard.nested(1, CALL_LEVELS):
            return self._call(name)

    def _call(self, name: str) -> Node:
        stream = self.stream
        args, distinct = self._arguments(name)
        params = None
        if stream.at("("):
            params = args
            args, distinct = self._arguments(name)
        nulls = ""
        for word in ("IGNORE", "RESPECT"):
            if stream.accept(word, "NULLS"):
                nulls = word
        condition = None
        if stream.accept("FILTER"):
            stream.expect("(")
            stream.expect("WHERE")
            condition = self.expression()
            stream.expect(")")
        window: WindowSpec | str | None = None
        if stream.accept("OVER"):
            window = self.parse_window() if stream.at("(") else stream.identifier("the name of a window")
        return Function(name, args, params, distinct, condition, window, nulls)

    def _arguments(self, name: str) -> tuple[tuple[Node, ...], bool]:
        stream = self.stream
        stream.expect("(")
        distinct = stream.at("DISTINCT") and stream.peek(1).text not in (",", ")") and stream.accept("DISTINCT")
        if stream.at("ALL") and stream.peek(1).kind in ("word", "quoted", "number") and not distinct:
            stream.next()  # ALL is the default
        if stream.accept(")"):
            return (), False
        if stream.at("SELECT") or stream.at("WITH"):
            args: tuple[Node, ...] = (Subquery(self.parse_query(stream)),)
        elif name.upper() in _UNIT_FIRST and find_time_unit(stream.peek().text) and stream.peek(1).text == ",":
            args = (Literal(stream.next().text.lower()),)
            stream.expect(",")
            args += self.parse_aliased_list()
        else:
            args = _merge_lambda_parameters(self.parse_aliased_list())
        stream.expect(")")
        return args, distinct

    def columns(self) -> Node:
        """Parses ``COLUMNS('pattern')`` or ``COLUMNS(names)`` with its modifiers."""
        stream = self.stream
        stream.next()
        stream.expect("(")
        if stream.peek().kind == "string":
            star = Star(pattern=stream.next().value)
        else:
            star = Star(columns=self.parse_aliased_list())
        stream.expect(")")
        return self.star(star)

    def star(self, star: Star) -> Node:
        """Adds the modifiers EXCEPT, REPLACE and APPLY to a star."""
        stream = self.stream
        modifiers: list[tuple[str, object]] = []
        while True:
            if stream.at("EXCEPT") and stream.peek(1).upper not in ("SELECT", "ALL", "DISTINCT"):
                stream.next()
                modifiers.append(self._except())
            elif stream.accept("REPLACE"):
                kind = "replace strict" if stream.accept("STRICT") else "replace"
                changes = tuple(self._in_brackets(self.parse_aliased_list) or (self.parse_aliased(),))
                names = [change.name for change in changes if isinstance(change, Alias)]
                if len(set(names)) < len(names):
                    raise UserError("ILLEGAL_TYPE_OF_ARGUMENT", "REPLACE changes a column of the asterisk twice")
                modifiers.append((kind, changes))
            elif stream.accept("APPLY"):
                modifiers.append(("apply", self._in_brackets(self._apply_function) or self.expression()))
            elif stream.at("LIKE") or stream.at("ILIKE"):
                raise not_implemented(f"* {stream.peek().upper} (COLUMNS with a regular expression is)")
            else:
                break
        return replace(star, modifiers=tuple(modifiers))

    def _except(self) -> tuple[str, object]:
        """Parses what follows EXCEPT; returns the modifier's kind and its pattern or names."""
        stream = self.stream
        kind = "except strict" if stream.accept("STRICT") else "except"
        bracketed = stream.at("(")
        if stream.peek(bracketed).kind == "string":
            pattern = self._in_brackets(lambda: stream.next().value) or stream.next().value
            return "except matching", pattern
        return kind, tuple(self.names())

    def _in_brackets(self, read: Callable[[], Any]) -> Any:
        """Reads something in brackets; returns ``None`` where no bracket begins."""
        if not self.stream.accept("("):
            return None
        found = read()
        self.stream.expect(")")
        return found

    def _apply_function(self) -> Node:
        """Parses the function or lambda of APPLY. ClickHouse ignores the prefix of names that may follow."""
        change = self.expression()
        if self.stream.accept(","):
            self.stream.string("a prefix of column names")
        return change

    def names(self) -> list[str]:
        """Parses a column name, or several in brackets."""
        stream = self.stream
        if not stream.accept("("):
            return [stream.identifier("a column name")]
        names = [stream.identifier("a column name")]
        while stream.accept(","):
            names.append(stream.identifier("a column name"))
        stream.expect(")")
        return names

    def parse_window(self) -> WindowSpec:
        """Parses a window in brackets: its base, PARTITION BY, ORDER BY and frame."""
        stream = self.stream
        stream.expect("(")
        base = ""
        if stream.peek().is_identifier and stream.peek().upper not in ("PARTITION", "ORDER", "ROWS", "RANGE", "GROUPS"):
            base = stream.next().value
        partition_by: tuple[Node, ...] = ()
        order_by: tuple[OrderItem, ...] = ()
        if stream.accept("PARTITION"):
            stream.expect("BY")
            partition_by = self.parse_aliased_list()
        if stream.accept("ORDER"):
            stream.expect("BY")
            order_by = self.order_items()
        frame = self._frame()
        stream.expect(")")
        return WindowSpec(partition_by, order_by, frame, base)

    def _frame(self) -> str:
        stream = self.stream
        mode = stream.peek().upper
        if mode == "GROUPS":
            raise not_implemented("A window frame of GROUPS")
        if mode not in ("ROWS", "RANGE"):
            if not stream.at(")"):
                stream.fail("ROWS", "RANGE", ")")
            return ""
        stream.next()
        if stream.accept("BETWEEN"):
            first = self._frame_bound()
            stream.expect("AND")
            last = self._frame_bound()
        else:
            first, last = self._frame_bound(), "CURRENT ROW"
        frame = f"{mode} BETWEEN {first} AND {last}"
        places = _frame_position(first), _frame_position(last)
        if places[0] > places[1] or places[0] == inf or places[1] == -inf:
            raise UserError("BAD_ARGUMENTS", f"Window frame '{frame}' is invalid: it ends before it begins")
        return frame

    def _frame_bound(self) -> str:
        stream = self.stream
        if stream.accept("CURRENT", "ROW"):
            return "CURRENT ROW"
        count = "UNBOUNDED"
        if not stream.accept("UNBOUNDED"):
            if stream.peek().kind != "number":
                stream.fail("UNBOUNDED", "CURRENT ROW", "a number of rows")
            count = stream.next().text
            if not count.isdigit() or int(count) >= 1 << 31:
                raise UserError(
                    "BAD_ARGUMENTS", f"The offset of a window frame must be a nonnegative 32-bit integer, not {count}"
                )
        side = stream.peek().upper
        if side not in ("PRECEDING", "FOLLOWING"):
            stream.fail("PRECEDING", "FOLLOWING")
        stream.next()
        return f"{count} {side}"


def _merge_lambda_parameters(args: tuple[Node, ...]) -> tuple[Node, ...]:
    """Gives the first lambda the names before it as parameters: ``f(x, y -> …)`` is ``f((x, y) -> …)``."""
    names: list[str] = []
    for place, arg in enumerate(args):
        if isinstance(arg, Lambda):
            return (Lambda((*names, *arg.parameters), arg.body), *args[place + 1 :])
        if not isinstance(arg, Identifier) or len(arg.parts) != 1:
            break
        names.append(arg.parts[0])
    return args


def _frame_position(bound: str) -> float:
    """Returns a frame bound's position relative to the current row."""
    count, _, side = bound.partition(" ")
    if count == "CURRENT":
        return 0
    distance = inf if count == "UNBOUNDED" else int(count)
    return -distance if side == "PRECEDING" else distance
