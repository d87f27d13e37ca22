"""The syntax tree of a query: its nodes, and functions that walk and transform it.

Nodes are immutable and compare by structure. A pass returns a new tree, and equal expressions can be found with ``==``.
Operators are calls of ClickHouse's functions (``a + b`` is ``plus(a, b)``), so there is one function table.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from typing import Any


@dataclass(frozen=True, slots=True)
class Node:
    """Base class of everything in a query."""


@dataclass(frozen=True, slots=True)
class Identifier(Node):
    """A name: ``a``, ``t.a`` or ``db.t.a``. The scope decides what the parts are."""

    parts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Literal(Node):
    """A constant. ``value`` is an int, float, str, bool or ``None``; ``text`` is a number as written."""

    value: Any
    text: str = ""


@dataclass(frozen=True, slots=True)
class LiteralList(Node):
    """A long list of numbers, strings or tuples of them.

    It is an array if it was in square brackets, else a tuple.
    """

    values: Any = field(hash=False)
    """A ``pyarrow.Array`` of int64, uint64, float64, string, or a struct of int64 and string; without NULL."""
    is_array: bool = False

    @property
    def is_of_tuples(self) -> bool:
        """Returns whether the items are tuples."""
        return bool(self.values.type.num_fields)  # True for a struct; the client parses without importing pyarrow


@dataclass(frozen=True, slots=True)
class WindowSpec(Node):
    """The window of a call: ``(base PARTITION BY … ORDER BY … frame)``."""

    partition_by: tuple[Node, ...] = ()
    order_by: tuple[OrderItem, ...] = ()
    frame: str = ""
    """``ROWS BETWEEN … AND …`` in upper case, or ``""`` for the default."""
    base: str = ""
    """The named window it refines."""


@dataclass(frozen=True, slots=True)
class Function(Node):
    """A call ``name(params)(args)``; ``params`` is ``None`` without the first pair of brackets."""

    name: str
    args: tuple[Node, ...] = ()
    params: tuple[Node, ...] | None = None
    distinct: bool = False
    filter: Node | None = None
    window: WindowSpec | str | None = None
    nulls: str = ""
    """``IGNORE`` or ``RESPECT`` (NULLS)."""


@dataclass(frozen=True, slots=True)
class Lambda(Node):
    """``(parameters) -> body``."""

    parameters: tuple[str, ...]
    body: Node


@dataclass(frozen=True, slots=True)
class Alias(Node):
    """``expression AS name``."""

    expression: Node
    name: str


@dataclass(frozen=True, slots=True)
class Parameter(Node):
    """A query parameter ``{name:Type}``."""

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class Subquery(Node):
    """A query in brackets, as a value, as the set of IN, or in EXISTS."""

    query: Query


@dataclass(frozen=True, slots=True)
class Star(Node):
    """``*``, ``t.*``, ``COLUMNS('regexp')`` or ``COLUMNS(a, b)`` with its modifiers, applied in order."""

    qualifier: tuple[str, ...] = ()
    pattern: str | None = None
    modifiers: tuple[tuple[str, Any], ...] = ()
    """("except", (names,)), ("except matching", pattern), ("replace", (Alias,)), ("apply", function name or Lambda).
    STRICT makes them "except strict" and "replace strict"."""
    columns: tuple[Node, ...] = ()
    """``COLUMNS(a, b)``."""


@dataclass(frozen=True, slots=True)
class StarColumn(Node):
    """A column that an asterisk expanded to.

    ``source`` is the number of its source, ``shown`` its name in the result. ``merged`` says that USING merged it.
    """

    source: int
    name: str
    shown: str
    merged: bool = False


@dataclass(frozen=True, slots=True)
class OrderItem(Node):
    """An item of ORDER BY; ``nulls_first`` is ``None`` without NULLS FIRST or LAST."""

    expression: Node
    descending: bool = False
    nulls_first: bool | None = None


# Tables ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NamedTable(Node):
    """A table in FROM, with alias, FINAL and SAMPLE."""

    database: str | None
    table: str
    alias: str = ""
    final: bool = False
    sample: Fraction | None = None
    """SAMPLE: a share of the rows up to 1, a number of rows above."""
    sample_offset: Fraction | None = None


@dataclass(frozen=True, slots=True)
class TableFunction(Node):
    """A table function in FROM."""

    name: str
    args: tuple[Node, ...]
    alias: str = ""


@dataclass(frozen=True, slots=True)
class SubqueryTable(Node):
    """A subquery in FROM, or an expanded view.

    For a view ``columns`` are its names and types, and ``database`` and ``table`` its name.
    """

    query: Query
    alias: str = ""
    database: str | None = None
    table: str = ""
    columns: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class Join(Node):
    """A join. ``kind`` is INNER, LEFT, RIGHT, FULL or CROSS; ``strictness`` ALL, ANY, SEMI, ANTI or ASOF."""

    left: Node
    right: Node
    kind: str
    strictness: str = "ALL"
    on: Node | None = None
    using: tuple[str, ...] = ()
    is_global: bool = False


@dataclass(frozen=True, slots=True)
class ArrayJoin(Node):
    """``[LEFT] ARRAY JOIN expressions``."""

    source: Node | None
    expressions: tuple[Node, ...]
    left: bool


# Queries --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CommonTable(Node):
    """``name (columns) AS (query)`` of WITH."""

    name: str
    query: Query
    columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Query(Node):
    """A SELECT or a UNION."""


@dataclass(frozen=True, slots=True)
class LimitBy(Node):
    """``LIMIT limit OFFSET offset BY expressions``."""

    limit: Node
    offset: Node | None
    expressions: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Select(Query):
    """A SELECT with all its clauses."""

    expressions: tuple[Node, ...]
    common_tables: tuple[CommonTable, ...] = ()
    with_aliases: tuple[Alias, ...] = ()
    distinct: bool = False
    distinct_on: tuple[Node, ...] = ()
    source: Node | None = None
    prewhere: Node | None = None
    where: Node | None = None
    group_by: tuple[Node, ...] = ()
    grouping: str = ""
    """``""``, ``ROLLUP``, ``CUBE``, ``ALL`` (GROUP BY ALL) or ``SETS`` (each of group_by is then a tuple)."""
    totals: bool = False
    having: Node | None = None
    windows: tuple[tuple[str, WindowSpec], ...] = ()
    qualify: Node | None = None
    order_by: tuple[OrderItem, ...] = ()
    order_by_all: bool = False
    limit_by: LimitBy | None = None
    limit: Node | None = None
    offset: Node | None = None
    with_ties: bool = False


def has_only_clauses(select: Select, *clauses: str) -> bool:
    """Returns whether a SELECT has no clauses but its expressions and the ones named."""
    return all(getattr(select, name) == absent for name, absent in _absent_clauses() if name not in clauses)


@cache
def _absent_clauses() -> tuple[tuple[str, object], ...]:
    return tuple((entry.name, entry.default) for entry in dataclasses.fields(Select) if entry.name != "expressions")


@dataclass(frozen=True, slots=True)
class Union(Query):
    """Queries joined by set operators.

    ``operators[i]`` stands between ``queries[i]`` and ``queries[i + 1]``: UNION ALL, INTERSECT DISTINCT and so on.
    """

    queries: tuple[Query, ...]
    operators: tuple[str, ...]


# Walking --------------------------------------------------------------------------------------------------------------


_FIELD_NAMES: dict[type, tuple[str, ...]] = {}


def _list_fields(kind: type[Any]) -> tuple[str, ...]:
    names = _FIELD_NAMES.get(kind)
    if names is None:
        names = _FIELD_NAMES[kind] = tuple(entry.name for entry in dataclasses.fields(kind))
    return names


def children(node: Node) -> list[Node]:
    """Returns the nodes directly below, in order of the fields."""
    found: list[Node] = []
    for name in _list_fields(type(node)):
        _collect_nodes(getattr(node, name), found)
    return found


def _collect_nodes(value: Any, found: list[Node]) -> None:
    if isinstance(value, Node):
        found.append(value)
    elif type(value) is tuple:
        for item in value:
            _collect_nodes(item, found)


def walk(node: Node, *, into_queries: bool = True) -> Iterator[Node]:
    """Yields the node and everything below it, top down."""
    stack = [node]
    while stack:
        current = stack.pop()
        yield current
        below = [child for child in children(current) if into_queries or not isinstance(child, Query)]
        stack.extend(reversed(below))


def transform(node: Node, change: Callable[[Node], Node], *, into_queries: bool = True) -> Node:
    """Returns the tree with ``change`` applied to every node, bottom up; unchanged parts are shared."""
    if not into_queries and isinstance(node, Query):
        return node
    updates = {}
    for name in _list_fields(type(node)):
        value = getattr(node, name)
        if isinstance(value, Node) or type(value) is tuple:
            changed = _transform_value(value, change, into_queries)
            if changed is not value:
                updates[name] = changed
    return change(dataclasses.replace(node, **updates) if updates else node)


def _transform_value(value: Any, change: Callable[[Node], Node], into_queries: bool) -> Any:
    if isinstance(value, Node):
        return transform(value, change, into_queries=into_queries)
    if type(value) is tuple and value:
        items = tuple(
            [_transform_value(item, change, into_queries) for item in value]
        )  # a generator would use the C stack
        if any(map(operator.is_not, items, value)):
            return items
    return value


def conjuncts(node: Node | None) -> list[Node]:
    """Returns the terms of a chain of ANDs."""
    if node is None:
        return []
    if isinstance(node, Function) and node.name == "and":
        return [term for arg in node.args for term in conjuncts(arg)]
    if isinstance(node, Alias):
        return conjuncts(node.expression)
    return [node]
