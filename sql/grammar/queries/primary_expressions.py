"""Parses the operands of operators: literals, brackets and special forms.

``expressions.ExpressionParser`` adds the operators. Source: ClickHouse documentation, "Syntax".
"""

from __future__ import annotations

import math
import re
from dataclasses import replace

from sql.grammar.number_literals import parse_number
from sql.grammar.queries.calls_and_windows import CallParser
from sql.grammar.queries.literal_lists import parse_literal_list
from sql.grammar.queries.time_units import find_time_unit
from sql.grammar.queries.tuple_lists import parse_tuple_list
from sql.grammar.query_limits import BRACKET_LEVELS, CALL_LEVELS, MAX_LEVELS
from sql.grammar.syntax_tree import Alias, Function, Literal, Node, Parameter, Star, Subquery
from sql.grammar.tokens import TokenStream, not_implemented

_COUNT = re.compile(r"[+-]?[0-9]+")
_TRIM = {"BOTH": "trimBoth", "LEADING": "trimLeft", "TRAILING": "trimRight"}


class PrimaryParser(CallParser):
    """The middle layer of the expression parser: everything that begins an expression."""

    def parse_primary(self) -> Node:
        """Parses an operand: a literal, bracket, special form, name or call."""
        stream = self.stream
        token = stream.peek()
        if token.kind == "number":
            return self.number(stream.next().text)
        if token.kind == "string":
            return Literal(stream.next().value)
        if token.kind == "mark":
            return self._mark_primary(token.text)
        if token.kind == "word":
            special = self._special(token.upper)
            if special is not None:
                return special
        if token.is_identifier:
            return self.name()
        return stream.fail("an expression")

    def number(self, text: str) -> Literal:
        """Returns the number as a literal; before ``::`` its text, which the cast converts."""
        return Literal(text) if self.stream.at("::") else parse_number(text)

    def _mark_primary(self, text: str) -> Node:
        stream = self.stream
        if text == "(":
            return self._brackets()
        if text == "[":
            with stream.guard.nested(1, CALL_LEVELS):
                return self._array()
        if text == "*":
            stream.next()
            return self.star(Star())
        if text == "{":
            stream.next()
            name = stream.identifier("the name of a query parameter")
            stream.expect(":")
            type_ = self.type_text()
            stream.expect("}")
            return Parameter(name, type_)
        if text == "@" and stream.peek(1).text == "@":
            return self._global_variable()
        return stream.fail("an expression")

    def _global_variable(self) -> Node:
        """``@@name``, ``@@session.name``: what clients for MySQL ask."""
        stream = self.stream
        stream.expect("@")
        stream.expect("@")
        name = self._variable_name()
        if stream.accept("."):
            name = self._variable_name()
        return Alias(Function("globalVariable", (Literal(name),)), f"@@{name}")

    def _variable_name(self) -> str:
        if self.stream.peek().kind != "word":
            return self.stream.fail("the name of a variable")
        return self.stream.next().value

    def _array(self) -> Node:
        stream = self.stream
        stream.expect("[")
        listed = parse_literal_list(stream, "]")
        if listed is not None:
            return replace(listed, is_array=True)
        items: tuple[Node, ...] = () if stream.at("]") else self.parse_aliased_list()
        stream.expect("]")
        return Function("array", items)

    def _brackets(self) -> Node:
        with self.stream.guard.nested(BRACKET_LEVELS):
            return self._bracketed()

    def _bracketed(self) -> Node:
        stream = self.stream
        stream.expect("(")
        if is_at_query(stream, ("SELECT", "WITH")):
            query = self.parse_query(stream)
            stream.expect(")")
            return Subquery(query)
        listed = parse_literal_list(stream, ")") or parse_tuple_list(stream)
        if listed is not None:
            return listed
        if stream.accept(")"):
            return Function("tuple")
        first = self.parse_aliased()
        if not stream.at(","):
            stream.expect(")")
            return first
        items = [first]
        while stream.accept(","):
            if stream.at(")"):
                break
            items.append(self.parse_aliased())
        stream.expect(")")
        return Function("tuple", tuple(items))

    def _special(self, word: str) -> Node | None:
        stream = self.stream
        following = stream.peek(1)
        if word in ("NULL", "TRUE", "FALSE") and following.text not in ("(", "."):
            stream.next()
            return Literal({"NULL": None, "TRUE": True, "FALSE": False}[word])
        if word in ("INF", "NAN", "INFINITY") and following.text not in ("(", "."):
            stream.next()
            return Literal(
                math.nan if word.lower() == "nan" else math.inf
            )  # always the same object, so that equal trees compare equal
        if word == "CASE":
            return self._case()
        if word == "INTERVAL" and following.text not in (",", ")", "."):
            return self._interval()
        if word in ("DATE", "TIMESTAMP") and following.kind == "string":
            stream.next()
            return Function("toDate" if word == "DATE" else "toDateTime", (Literal(stream.next().value),))
        if following.text != "(":
            return None
        if word == "EXISTS" and stream.peek(2).upper in ("SELECT", "WITH"):
            stream.next()
            return Function("exists", (self._brackets(),))
        if word == "COLUMNS":
            return self.columns()
        reader = {"CAST": self._cast, "EXTRACT": self._extract, "TRIM": self._trim, "POSITION": self._position,
                  "SUBSTRING": self._substring, "SUBSTR": self._substring}.get(word)  # fmt: skip
        return reader() if reader else None

    def _case(self) -> Node:
        with self.stream.guard.nested(1, CALL_LEVELS):
            return self._case_arms()

    def _case_arms(self) -> Node:
        stream = self.stream
        stream.expect("CASE")
        subject = None if stream.at("WHEN") else self.parse_freely_aliased()
        parts: list[Node] = []
        while stream.accept("WHEN"):
            parts.append(self.parse_freely_aliased())
            stream.expect("THEN")
            parts.append(self.parse_freely_aliased())
        if not parts:
            stream.fail("WHEN")
        otherwise = self.parse_freely_aliased() if stream.accept("ELSE") else Literal(None)
        stream.expect("END")
        if subject is not None:
            return Function("caseWithExpression", (subject, *parts, otherwise))
        return Function("multiIf", (*parts, otherwise))

    def _interval(self) -> Node:
        stream = self.stream
        stream.expect("INTERVAL")
        if stream.peek().kind == "string":
            text = stream.peek().value.split()
            if len(text) > 2 or stream.peek(2).upper == "TO":
                raise not_implemented("INTERVAL of several units")
            if not text or not _COUNT.fullmatch(text[0]):
                stream.fail("a whole number before the unit, as in INTERVAL '5 DAY'")
            if len(text) == 2 and (unit := find_time_unit(text[1])) is not None:
                stream.next()
                return Function(f"toInterval{unit}", (parse_number(text[0]),))
            if len(text) > 1:
                stream.fail("a unit of time (SECOND, MINUTE, HOUR, DAY, WEEK, MONTH, QUARTER, YEAR)")
            stream_value: Node = parse_number(stream.next().value)
        else:
            stream_value = self.sum_expression()
            if stream.at("AS"):
                stream_value = self.with_free_alias(stream_value)
        unit = find_time_unit(stream.peek().text)
        if unit is None:
            stream.fail("a unit of time (SECOND, MINUTE, HOUR, DAY, WEEK, MONTH, QUARTER, YEAR)")
        stream.next()
        return Function(f"toInterval{unit}", (stream_value,))

    def _cast(self) -> Node:
        stream = self.stream
        stream.next()
        stream.expect("(")
        value = self.expression()
        if not stream.at("AS") or stream.peek(2).upper in ("AS", ","):
            value = self.with_free_alias(value)
        if stream.accept("AS"):
            type_: Node = Literal(self.type_text())
        else:
            stream.expect(",")
            type_ = self.parse_freely_aliased()
        stream.expect(")")
        return Function("CAST", (value, type_))

    def _extract(self) -> Node | None:
        stream = self.stream
        unit = find_time_unit(stream.peek(2).text)
        if stream.peek(3).upper != "FROM":
            return None
        if unit is None:
            raise not_implemented(f"EXTRACT of {stream.peek(2).text}")
        for _ in range(4):
            stream.next()
        value = self.parse_freely_aliased()
        stream.expect(")")
        return Function("toDayOfMonth" if unit == "Day" else f"to{unit}", (value,))

    def _trim(self) -> Node | None:
        stream = self.stream
        side = stream.peek(2).upper
        if side not in _TRIM:
            return None
        for _ in range(3):
            stream.next()
        characters = self.parse_freely_aliased()
        stream.expect("FROM")
        value = self.parse_freely_aliased()
        stream.expect(")")
        return Function(_TRIM[side], (value, characters))

    def _position(self) -> Node | None:
        stream = self.stream
        if not self._first_argument_ends_with("IN"):
            return None
        stream.next()
        stream.expect("(")
        needle = self.with_free_alias(self.concat_expression())
        stream.expect("IN")
        haystack = self.parse_freely_aliased()
        stream.expect(")")
        return Function("position", (haystack, needle))

    def _substring(self) -> Node | None:
        stream = self.stream
        if not self._first_argument_ends_with("FROM"):
            return None
        stream.next()
        stream.expect("(")
        args = [self.parse_freely_aliased()]
        stream.expect("FROM")
        args.append(self.parse_freely_aliased())
        if stream.accept("FOR"):
            args.append(self.parse_freely_aliased())
        stream.expect(")")
        return Function("substring", tuple(args))

    def _first_argument_ends_with(self, word: str) -> bool:
        """Looks ahead whether the first argument ends with the word.

        Parsing it twice instead would double the work at every level of nesting.
        """
        stream = self.stream
        start = stream.position
        stream.next()
        stream.expect("(")
        while not (stream.peek().kind == "end" or stream.at(",") or stream.at(")") or stream.at(word)):
            if stream.peek().text in ("]", "}", ";"):
                break
            stream.skip_group()
        found = stream.at(word)
        stream.position = start
        return found


def is_at_query(stream: TokenStream, words: tuple[str, ...]) -> bool:
    """Returns whether a query begins behind the bracket just read, perhaps in more brackets.

    ``((SELECT 1) UNION ALL …)`` is a query, ``((SELECT 1) + 1)`` is an expression: what follows each bracket tells.
    """
    opened: list[int] = []
    start = stream.position
    while stream.at("(") and len(opened) < MAX_LEVELS:
        opened.append(stream.position)
        stream.next()
    found = stream.peek().upper in words
    for position in opened:
        if not found:
            break
        stream.position = position
        stream.skip_group()
        found = stream.peek().upper in ("UNION", "INTERSECT", "EXCEPT", ")")
    stream.position = start
    return found
