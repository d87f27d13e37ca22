"""Rewrites ``x = ANY (SELECT …)`` as ``x IN`` and ``x != ALL (SELECT …)`` as ``x NOT IN``.

The other quantified comparisons are not supported, and are refused later.
"""

from __future__ import annotations

from collections.abc import Mapping

from sql.grammar.syntax_tree import Function, Node, Query, transform

_SETS = {("equals", "_any"): "in", ("notEquals", "_all"): "notIn"}


def rewrite(query: Query, given: Mapping[str, str]) -> Query:
    """Rewrites all such comparisons of a query."""
    result = transform(query, _rewrite_node)
    assert isinstance(result, Query)
    return result


def _rewrite_node(node: Node) -> Node:
    if isinstance(node, Function) and len(node.args) == 2 and isinstance(node.args[1], Function):
        name = _SETS.get((node.name, node.args[1].name))
        if name is not None:
            return Function(name, (node.args[0], node.args[1].args[0]))
    return node
