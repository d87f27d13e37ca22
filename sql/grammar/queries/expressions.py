"""Parses ClickHouse's expressions by operator precedence.

From weak to strong: ``? :``, OR, AND, NOT, comparisons (with IN, LIKE, BETWEEN, IS NULL), ``||``, ``+ -``, ``* / %``,
unary minus, then ``[]``, ``.`` and ``::``. Every operator becomes a call of its function; special forms (CASE, CAST,
EXTRACT, INTERVAL, ``substring(s FROM 1 FOR 2)``) become plain calls too.

Source: ClickHouse documentation, "Operators".
"""

from __future__ import annotations

from sql.grammar.number_literals import parse_number
from sql.grammar.queries.primary_expressions import PrimaryParser
from sql.grammar.query_limits import CALL_LEVELS
from sql.grammar.syntax_tree import Alias, Function, Identifier, Lambda, Literal, Node, OrderItem, Star
from sql.grammar.tokens import not_implemented


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


COMPARISONS = {
    "=": "equals", "==": "equals", "!=": "notEquals", "<>": "notEquals", "<": "less", ">": "greater",
    "<=": "lessOrEquals", ">=": "greaterOrEquals", "<=>": "isNotDistinctFrom",
}  # fmt: skip
_SUMS = {"+": "plus", "-": "minus"}
_PRODUCTS = {"*": "multiply", "/": "divide", "%": "modulo"}
# Words that end an expression and so can never be an alias given without AS.
_RESERVED = _words(
    "FROM WHERE PREWHERE GROUP HAVING ORDER LIMIT OFFSET UNION INTERSECT EXCEPT SETTINGS FORMAT INTO WINDOW "
    "QUALIFY AS ON USING JOIN INNER LEFT RIGHT FULL CROSS ANY ALL SEMI ANTI ASOF ARRAY GLOBAL FINAL SAMPLE AND OR "
    "NOT IN LIKE ILIKE BETWEEN IS THEN ELSE END WHEN ASC DESC NULLS WITH DIV MOD REGEXP FETCH BY COLLATE REPLACE "
    "APPLY OVER FILTER IGNORE RESPECT FOR PASTE TO STEP INTERPOLATE PARALLEL"
)


class ExpressionParser(PrimaryParser):
    """The whole expression parser: adds operators, aliases and ORDER BY items."""

    # Lists and aliases ------------------------------------------------------------------------------------------------

    def with_alias(self, expression: Node) -> Node:
        return Alias(expression, self.stream.identifier("alias")) if self.stream.accept("AS") else expression

    def with_free_alias(self, expression: Node) -> Node:
        stream, aliased = self.stream, self.with_alias(expression)
        token = stream.peek()
        begins_frame = stream.peek(1).upper in ("BETWEEN", "UNBOUNDED", "CURRENT") or stream.peek(1).kind == "number"
        frame = token.upper in ("ROWS", "RANGE", "GROUPS") and begins_frame
        is_alias = token.kind == "quoted" or (token.kind == "word" and token.upper not in _RESERVED and not frame)
        return Alias(expression, stream.next().value) if aliased is expression and is_alias else aliased

    def order_items(self) -> tuple[OrderItem, ...]:
        """Parses the items of ORDER BY."""
        items = [self._order_item()]
        while self.stream.accept(","):
            items.append(self._order_item())
        return tuple(items)

    def _order_item(self) -> OrderItem:
        stream = self.stream
        expression = self.parse_aliased()
        descending = stream.accept("DESC") or stream.accept("DESCENDING")
        if not descending and not stream.accept("ASC"):
            stream.accept("ASCENDING")
        nulls_first = None
        if stream.accept("NULLS"):
            nulls_first = stream.accept("FIRST")
            if not nulls_first:
                stream.expect("LAST")
        if stream.at("COLLATE"):
            raise not_implemented("ORDER BY … COLLATE")
        return OrderItem(expression, descending, nulls_first)

    # Operators --------------------------------------------------------------------------------------------------------

    def expression(self) -> Node:
        """Parses an expression: ``? :``, a lambda, or operators."""
        stream = self.stream
        condition = self._or()
        if stream.accept("?"):
            with stream.guard.nested(1, CALL_LEVELS):
                then = self.expression()
                stream.expect(":")
                return Function("if", (condition, then, self.expression()))
        if stream.at("->"):
            return self._lambda(condition)
        return condition

    def _lambda(self, head: Node) -> Node:
        names = head.args if isinstance(head, Function) and head.name == "tuple" else (head,)
        parameters = []
        for name in names:
            if not isinstance(name, Identifier) or len(name.parts) != 1:
                self.stream.fail("an operator (the left of -> must be a name or a bracketed list of names)")
            parameters.append(name.parts[0])
        self.stream.expect("->")
        with self.stream.guard.nested(1, CALL_LEVELS):
            return Lambda(tuple(parameters), self.expression())

    def _or(self) -> Node:
        terms = [self._and()]
        while self.stream.accept("OR"):
            terms.append(self._and())
        return terms[0] if len(terms) == 1 else Function("or", tuple(terms))

    def _and(self) -> Node:
        terms = [self._not()]
        while self.stream.accept("AND"):
            terms.append(self._not())
        return terms[0] if len(terms) == 1 else Function("and", tuple(terms))

    def _not(self) -> Node:
        times = 0
        while self.stream.accept("NOT"):
            times += 1
        return self._repeated("not", times, self._comparison())

    def _repeated(self, name: str, times: int, value: Node) -> Node:
        """Wraps the value in ``times`` calls; checks the depth first, since others recurse into it."""
        if times == 0:
            return value
        with self.stream.guard.nested(0, times * CALL_LEVELS):
            for _ in range(times):
                value = Function(name, (value,))
        return value

    def _comparison(self) -> Node:
        left = self.concat_expression()
        while True:
            token = self.stream.peek()
            if token.kind == "mark" and token.text in COMPARISONS:
                self.stream.next()
                left = Function(COMPARISONS[token.text], (left, self._comparison_operand()))
                continue
            if token.text == "~" or self.stream.at("!", "~"):
                raise not_implemented("The operator ~ of regular expressions (the function match is)")
            if token.kind != "word":
                return left
            changed = self._word_comparison(left)
            if changed is None:
                return left
            left = changed

    def _comparison_operand(self) -> Node:
        for word in ("ANY", "ALL"):
            if self.stream.at(word, "("):
                self.stream.next()
                return Function(f"_{word.lower()}", (self._brackets(),))
        return self.concat_expression()

    def _word_comparison(self, left: Node) -> Node | None:
        stream = self.stream
        if stream.accept("IS"):
            negated = stream.accept("NOT")
            if stream.accept("DISTINCT", "FROM"):
                return Function("isNotDistinctFrom" if negated else "isDistinctFrom", (left, self.concat_expression()))
            for word, value in (("TRUE", True), ("FALSE", False)):
                if stream.accept(word):
                    return Function("isDistinctFrom" if negated else "isNotDistinctFrom", (left, Literal(value)))
            if not stream.accept("UNKNOWN"):
                stream.expect("NULL")
            return Function("isNotNull" if negated else "isNull", (left,))
        start = stream.position
        is_global = stream.accept("GLOBAL")
        negated = stream.accept("NOT")
        if stream.accept("IN"):
            name = "notIn" if negated else "in"
            return Function(f"global{name[0].upper()}{name[1:]}" if is_global else name, (left, self._unary()))
        if stream.accept("BETWEEN"):
            low = self.concat_expression()
            stream.expect("AND")
            high = self.concat_expression()
            if negated:
                return Function("or", (Function("less", (left, low)), Function("greater", (left, high))))
            return Function("and", (Function("greaterOrEquals", (left, low)), Function("lessOrEquals", (left, high))))
        for word, name, inverse in (("LIKE", "like", "notLike"), ("ILIKE", "ilike", "notILike")):
            if stream.accept(word):
                pattern = self.concat_expression()
                if stream.at("ESCAPE") and stream.peek(1).kind == "string":
                    raise not_implemented(f"{word} … ESCAPE")
                return Function(inverse if negated else name, (left, pattern))
        if stream.accept("REGEXP"):
            found = Function("match", (left, self.concat_expression()))
            return Function("not", (found,)) if negated else found
        stream.position = start
        return None

    def concat_expression(self) -> Node:
        """Parses operands of ``||``."""
        terms = [self.sum_expression()]
        while self.stream.accept("||"):
            terms.append(self.sum_expression())
        return terms[0] if len(terms) == 1 else Function("concat", tuple(terms))

    def sum_expression(self) -> Node:
        """Parses operands of ``+`` and ``-``."""
        left = self._product()
        while (token := self.stream.peek()).kind == "mark" and token.text in _SUMS:
            self.stream.next()
            left = Function(_SUMS[token.text], (left, self._product()))
        return left

    def _product(self) -> Node:
        left = self._unary()
        while True:
            token = self.stream.peek()
            if token.kind == "mark" and token.text in _PRODUCTS:
                name = _PRODUCTS[token.text]
            elif token.kind == "word" and token.upper in ("DIV", "MOD"):
                name = "intDiv" if token.upper == "DIV" else "modulo"
            else:
                return left
            self.stream.next()
            left = Function(name, (left, self._unary()))

    def _unary(self) -> Node:
        stream = self.stream
        times = 0
        while stream.at("-"):
            stream.next()
            if stream.peek().kind == "number":
                text = "-" + stream.next().text
                return self._repeated("negate", times, self._postfix(self.number(text)))
            if stream.peek().upper in ("INF", "INFINITY") and stream.peek(1).text not in ("(", "."):
                stream.next()
                return self._repeated("negate", times, Literal(float("-inf")))
            times += 1
        if stream.at("+") and stream.peek(1).kind == "number":
            stream.next()
        return self._repeated("negate", times, self._postfix(self.parse_primary()))

    def _postfix(self, value: Node) -> Node:
        stream = self.stream
        while (token := stream.peek()).kind in ("mark", "number"):
            if token.kind == "number":  # ``t.1`` comes as the name and the number ``.1``
                if not (token.text[0] == "." and token.text[1:].isdigit()) or isinstance(value, Literal):
                    break
                stream.next()
                value = Function("tupleElement", (value, parse_number(token.text[1:])))
            elif token.text == "[":
                stream.next()
                with stream.guard.nested(1, CALL_LEVELS):
                    value = Function("arrayElement", (value, self.parse_aliased()))
                stream.expect("]")
            elif token.text == "::":
                stream.next()
                value = Function("CAST", (value, Literal(self.type_text())))
            elif token.text == "." and not isinstance(value, (Literal, Star)):
                stream.next()
                key = stream.next()
                if key.text == "-" and stream.peek().kind == "number":
                    value = Function("tupleElement", (value, parse_number("-" + stream.next().text)))
                elif key.is_identifier:
                    value = Function("tupleElement", (value, Literal(key.value)))
                else:
                    stream.fail("the name or number of a tuple's element")
            else:
                break
        return value
