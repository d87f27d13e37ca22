"""The tree of a query: what ``queries`` makes and everything after it reads.

Nodes are immutable and compare by structure, so a pass returns a new tree and equal expressions can be found with
``==``. Operators are function calls under ClickHouse's function names (``a + b`` is ``plus(a, b)``): there is one
function table."""

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
    """Base of everything in a query."""


@dataclass(frozen=True, slots=True)
class Identifier(Node):
    """``a``, ``t.a``, ``db.t.a``: which it is depends on the scope."""

    parts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Literal(Node):
    """``value`` is a Python int, float, str, bool or ``None``; ``text`` is the number as written."""

    value: Any
    text: str = ""


@dataclass(frozen=True, slots=True)
class LiteralList(Node):
    """A long list of numbers, of strings or of tuples of them: an array if it was in square brackets, else a tuple."""

    values: Any = field(hash=False)
    """A ``pyarrow.Array`` of int64, uint64, float64, string, or a struct of int64 and string; without NULL."""
    is_array: bool = False

    @property
    def is_of_tuples(self) -> bool:
        return bool(self.values.type.num_fields)  # a struct: the client reads statements without pyarrow


@dataclass(frozen=True, slots=True)
class WindowSpec(Node):
    partition_by: tuple[Node, ...] = ()
    order_by: tuple[OrderItem, ...] = ()
    frame: str = ""
    """``ROWS BETWEEN … AND …`` in upper case, or ``""`` for the default."""
    base: str = ""
    """The named window it refines."""


@dataclass(frozen=True, slots=True)
class Function(Node):
    """``name(params)(args)``; ``params`` is ``None`` without the first pair of brackets."""

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
    parameters: tuple[str, ...]
    body: Node


@dataclass(frozen=True, slots=True)
class Alias(Node):
    expression: Node
    name: str


@dataclass(frozen=True, slots=True)
class Parameter(Node):
    """``{name:Type}``."""

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class Subquery(Node):
    """A query in brackets, as a value, a set or (in EXISTS) a question."""

    query: Query


@dataclass(frozen=True, slots=True)
class Star(Node):
    """``*``, ``t.*``, ``COLUMNS('regexp')`` or ``COLUMNS(a, b)`` with its modifiers, applied in order."""

    qualifier: tuple[str, ...] = ()
    pattern: str | None = None
    modifiers: tuple[tuple[str, Any], ...] = ()
    """("except", (names,)), ("except matching", pattern), ("replace", (Alias,)), ("apply", function name or Lambda);
    of the first and the third there is one that is " strict"."""
    columns: tuple[Node, ...] = ()
    """``COLUMNS(a, b)``."""


@dataclass(frozen=True, slots=True)
class StarColumn(Node):
    """A column that an asterisk stood for: of the source with this number; ``shown`` is its name in the result.
    ``merged``: what USING made of it."""

    source: int
    name: str
    shown: str
    merged: bool = False


@dataclass(frozen=True, slots=True)
class OrderItem(Node):
    expression: Node
    descending: bool = False
    nulls_first: bool | None = None


# Tables ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NamedTable(Node):
    database: str | None
    table: str
    alias: str = ""
    final: bool = False
    sample: Fraction | None = None
    """SAMPLE: a share of the rows up to 1, a number of rows above."""
    sample_offset: Fraction | None = None


@dataclass(frozen=True, slots=True)
class TableFunction(Node):
    name: str
    args: tuple[Node, ...]
    alias: str = ""


@dataclass(frozen=True, slots=True)
class SubqueryTable(Node):
    """``columns`` (names and types) are those of a view, ``database`` and ``table`` its name."""

    query: Query
    alias: str = ""
    database: str | None = None
    table: str = ""
    columns: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class Join(Node):
    """``kind`` is INNER, LEFT, RIGHT, FULL, CROSS; ``strictness`` ALL, ANY, SEMI, ANTI, ASOF."""

    left: Node
    right: Node
    kind: str
    strictness: str = "ALL"
    on: Node | None = None
    using: tuple[str, ...] = ()
    is_global: bool = False


@dataclass(frozen=True, slots=True)
class ArrayJoin(Node):
    source: Node | None
    expressions: tuple[Node, ...]
    left: bool


# Queries --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CommonTable(Node):
    name: str
    query: Query
    columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Query(Node):
    """A SELECT or a UNION."""


@dataclass(frozen=True, slots=True)
class LimitBy(Node):
    limit: Node
    offset: Node | None
    expressions: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Select(Query):
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
    """Whether a SELECT has no other clauses than those of these names, and its expressions."""
    return all(getattr(select, name) == absent for name, absent in _absent_clauses() if name not in clauses)


@cache
def _absent_clauses() -> tuple[tuple[str, object], ...]:
    return tuple((entry.name, entry.default) for entry in dataclasses.fields(Select) if entry.name != "expressions")


@dataclass(frozen=True, slots=True)
class Union(Query):
    """``operators[i]`` stands between ``queries[i]`` and ``queries[i + 1]``: UNION ALL, INTERSECT DISTINCT, ..."""

    queries: tuple[Query, ...]
    operators: tuple[str, ...]


# Walking --------------------------------------------------------------------------------------------------------------


_FIELD_NAMES: dict[type, tuple[str, ...]] = {}


def _fields(kind: type[Any]) -> tuple[str, ...]:
    names = _FIELD_NAMES.get(kind)
    if names is None:
        names = _FIELD_NAMES[kind] = tuple(entry.name for entry in dataclasses.fields(kind))
    return names


def children(node: Node) -> list[Node]:
    """The nodes directly below, in order of the fields."""
    found: list[Node] = []
    for name in _fields(type(node)):
        _gather(getattr(node, name), found)
    return found


def _gather(value: Any, found: list[Node]) -> None:
    if isinstance(value, Node):
        found.append(value)
    elif type(value) is tuple:
        for item in value:
            _gather(item, found)


def walk(node: Node, *, into_queries: bool = True) -> Iterator[Node]:
    """The node and everything below it, top down."""
    stack = [node]
    while stack:
        current = stack.pop()
        yield current
        below = [child for child in children(current) if into_queries or not isinstance(child, Query)]
        stack.extend(reversed(below))


def transform(node: Node, change: Callable[[Node], Node], *, into_queries: bool = True) -> Node:
    """The tree with ``change`` applied to every node, bottom up; unchanged parts are shared."""
    if not into_queries and isinstance(node, Query):
        return node
    updates = {}
    for name in _fields(type(node)):
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
    """The terms of a chain of ANDs."""
    if node is None:
        return []
    if isinstance(node, Function) and node.name == "and":
        return [term for arg in node.args for term in conjuncts(arg)]
    if isinstance(node, Alias):
        return conjuncts(node.expression)
    return [node]
