"""Finds and replaces the tables that a query names. Names of its CTEs (``WITH … AS``) are not tables."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

from sql.grammar.syntax_tree import (
    Alias,
    ArrayJoin,
    Function,
    Identifier,
    Join,
    NamedTable,
    Node,
    Query,
    Select,
    SubqueryTable,
    TableFunction,
    Union,
)

_SETS = frozenset({"in", "notIn"})

Change = Callable[[NamedTable | TableFunction], Node]


def replace_tables(query: Query, change: Change, *, sets: Callable[[Identifier], Node] | None = None) -> Query:
    """Returns the query with ``change`` applied to every table and table function of a FROM.

    ``sets``, if given, is applied to the names behind IN.
    """
    changed = _replace(query, change, sets, frozenset(), frozenset())
    assert isinstance(changed, Query)
    return changed


def _replace(
    value: Any,
    change: Change,
    sets: Callable[[Identifier], Node] | None,
    own: frozenset[str],
    aliases: frozenset[str],
) -> Any:
    if type(value) is tuple:
        items = tuple([_replace(item, change, sets, own, aliases) for item in value])
        return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
    if not isinstance(value, Node):
        return value
    if isinstance(value, NamedTable):
        return value if value.database is None and value.table in own else change(value)
    if isinstance(value, Select):
        own = own | {table.name for table in value.common_tables}
        aliases = aliases | {alias.name for alias in value.with_aliases}
        aliases |= {item.name for item in value.expressions if isinstance(item, Alias)}
    updates = {}
    for field in dataclasses.fields(value):
        old = getattr(value, field.name)
        new = _replace(old, change, sets, own, aliases)
        if new is not old:
            updates[field.name] = new
    node = dataclasses.replace(value, **updates) if updates else value
    if isinstance(node, TableFunction):
        return change(node)
    if sets is not None and isinstance(node, Function) and node.name in _SETS and len(node.args) == 2:
        right = node.args[1]
        if isinstance(right, Identifier) and not (len(right.parts) == 1 and right.parts[0] in own | aliases):
            return dataclasses.replace(node, args=(node.args[0], sets(right)))
    return node


def qualify_tables(query: Query, database: str, has_table: Callable[[str], bool]) -> Query:
    """Returns the query with the database written before every table that names none.

    A name behind IN gets it only where such a table exists.
    """

    def named(table: NamedTable | TableFunction) -> Node:
        if isinstance(table, TableFunction) or table.database is not None:
            return table
        return dataclasses.replace(table, database=database)

    def of_set(name: Identifier) -> Node:
        return Identifier((database, *name.parts)) if len(name.parts) == 1 and has_table(name.parts[0]) else name

    return replace_tables(query, named, sets=of_set)


def find_first_table(query: Query) -> NamedTable | None:
    """Returns the leftmost table of FROM, through subqueries.

    A materialized view reads the inserted blocks of this table.
    """
    node: Node | None = query
    common: dict[str, Query] = {}
    while node is not None:
        match node:
            case NamedTable(database, table):
                if database is not None or table not in common:
                    return node
                node = common.pop(table)
            case Select():
                common |= {table.name: table.query for table in node.common_tables}
                node = node.source
            case Union(queries):
                node = queries[0]
            case SubqueryTable(inner):
                node = inner
            case Join(left):
                node = left
            case ArrayJoin(source):
                node = source
            case _:
                return None
    return None


def list_tables(query: Query) -> Iterator[NamedTable]:
    """Yields every table that the query names."""
    found: list[NamedTable] = []

    def note(table: NamedTable | TableFunction) -> Node:
        if isinstance(table, NamedTable):
            found.append(table)
        return table

    replace_tables(query, note)
    yield from found
