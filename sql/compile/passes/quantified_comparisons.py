"""``x = ANY (SELECT …)`` is ``x IN``, ``x != ALL (SELECT …)`` is ``x NOT IN``; the others need min or max and are
refused."""

from __future__ import annotations

from collections.abc import Mapping

from sql.grammar.syntax_tree import Function, Node, Query, transform

_SETS = {("equals", "_any"): "in", ("notEquals", "_all"): "notIn"}


def rewrite(query: Query, given: Mapping[str, str]) -> Query:
    result = transform(query, _change)
    assert isinstance(result, Query)
    return result


def _change(node: Node) -> Node:
    if isinstance(node, Function) and len(node.args) == 2 and isinstance(node.args[1], Function):
        name = _SETS.get((node.name, node.args[1].name))
        if name is not None:
            return Function(name, (node.args[0], node.args[1].args[0]))
    return node
