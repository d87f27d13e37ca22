"""Splits comparisons of tuples into comparisons of their elements, which may be keys."""

from __future__ import annotations

from sql.grammar.syntax_tree import Function, Literal, Node


def split_tuple_comparison(node: Node) -> Node:
    """Rewrites ``(a, b) = (c, d)`` and ``(a, b).1``; returns any other node as it is."""
    match node:
        case Function("tupleElement", (Function("tuple", elements), Literal(int(place)))) if 0 < place <= len(elements):
            return elements[place - 1]
        case Function("equals", (Function("tuple", left), Function("tuple", right))) if len(left) == len(right) > 0:
            return Function("and", tuple(Function("equals", pair) for pair in zip(left, right, strict=True)))
    return node
