"""Rewrites ``DATE_ADD(DAY, 3, d)`` and its variants as ``d + toIntervalDay(3)``."""

from __future__ import annotations

from collections.abc import Mapping

from sql.grammar.queries.time_units import find_time_unit_or_short
from sql.grammar.syntax_tree import Function, Literal, Node, Query, transform

_SIGNS = {
    "dateadd": "plus", "date_add": "plus", "timestampadd": "plus", "timestamp_add": "plus",
    "datesub": "minus", "date_sub": "minus", "timestampsub": "minus", "timestamp_sub": "minus",
}  # fmt: skip


def rewrite(query: Query, given: Mapping[str, str]) -> Query:
    """Rewrites all such calls of a query."""
    result = transform(query, rewrite_call)
    assert isinstance(result, Query)
    return result


def rewrite_call(node: Node) -> Node:
    """Rewrites one call; other nodes are returned unchanged."""
    if not isinstance(node, Function) or node.name.lower() not in _SIGNS:
        return node
    operator = _SIGNS[node.name.lower()]
    if len(node.args) == 2:
        return Function(operator, node.args)
    if len(node.args) == 3 and isinstance(node.args[0], Literal) and isinstance(node.args[0].value, str):
        unit = find_time_unit_or_short(node.args[0].value)
        if unit is not None:
            return Function(operator, (node.args[2], Function(f"toInterval{unit}", (node.args[1],))))
    return node
