"""Finds the values that WHERE allows a column: ``path = 'x'`` or ``path IN ('x', 'y')``.

It serves tables that can be read by key only (``system.zookeeper``).
"""

from __future__ import annotations

from collections.abc import Callable

from sql.compile.compiled_query import Scan
from sql.compile.expressions.literal_lists import list_members
from sql.compile.names.scope import ExpressionContext
from sql.grammar.syntax_tree import Function, Identifier, Literal, LiteralList, Node
from sql.typing.typed_expressions import Typed


def find_allowed_values(scan: Scan, column: str, fold: Callable[[Typed], object]) -> list[str] | None:
    """Returns the allowed values; ``None`` when no conjunct limits the column to constants.

    ``fold`` computes constant expressions.
    """
    for term, around in scan.conditions:

        def constant(node: Node, around: ExpressionContext = around) -> Node:
            if isinstance(node, Function):
                value = around.compile(node)
                return Literal(fold(value)) if value.is_constant else node
            return node

        values = _find_values(term, column, constant)
        if values is not None:
            return values
    return None


def _find_values(term: object, column: str, constant: Callable[[Node], Node]) -> list[str] | None:
    if not isinstance(term, Function) or term.name not in ("equals", "in") or len(term.args) != 2:
        return None
    left, right = term.args
    if term.name == "equals" and not isinstance(left, Identifier):
        left, right = right, left
    if not isinstance(left, Identifier) or left.parts[-1] != column:
        return None
    items: tuple[Node, ...] = right.args if isinstance(right, Function) and right.name == "tuple" else (right,)
    if isinstance(right, LiteralList):
        items = list_members(right)
    items = tuple(constant(item) for item in items)
    if not all(isinstance(item, Literal) and isinstance(item.value, str) for item in items):
        return None
    return [str(item.value) for item in items if isinstance(item, Literal)]
