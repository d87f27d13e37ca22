"""Rewrites ``GROUP BY (a, b)`` and ``ORDER BY (a, b)`` as ``a, b``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sql.grammar.syntax_tree import Function, Node, OrderItem, Query, Select, transform


def rewrite(query: Query, given: Mapping[str, str]) -> Query:
    """Rewrites all such clauses of a query."""
    result = transform(query, _rewrite_node)
    assert isinstance(result, Query)
    return result


def _rewrite_node(node: Node) -> Node:
    if not isinstance(node, Select):
        return node
    if node.grouping != "SETS" and any(_is_tuple(key) for key in node.group_by):
        node = replace(node, group_by=tuple(part for key in node.group_by for part in _split_tuple(key)))
    if any(_is_tuple(item.expression) for item in node.order_by):
        items = (
            OrderItem(part, item.descending, item.nulls_first)
            for item in node.order_by
            for part in _split_tuple(item.expression)
        )
        node = replace(node, order_by=tuple(items))
    return node


def _is_tuple(node: Node) -> bool:
    return isinstance(node, Function) and node.name == "tuple" and bool(node.args)


def _split_tuple(node: Node) -> tuple[Node, ...]:
    return node.args if isinstance(node, Function) and _is_tuple(node) else (node,)
