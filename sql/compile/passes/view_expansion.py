"""Replaces views in a query by subqueries, before anything else looks at the tree.

Columns of a view are found by name, and have the types with which the view was created. A view with parameters, which
is called like a table function, has the columns and types of its query.
"""

from __future__ import annotations

from dataclasses import replace

from parts.common.errors import UserError
from sql.grammar.queries.query_parser import parse_query
from sql.grammar.queries.table_references import replace_tables
from sql.grammar.query_limits import QueryGuard, check_tree
from sql.grammar.syntax_tree import (
    Function,
    Identifier,
    Literal,
    NamedTable,
    Node,
    Parameter,
    Query,
    Select,
    SubqueryTable,
    TableFunction,
    transform,
)
from sql.relations import RelationCatalog, ViewRelation

_MAX_LEVELS = 100
"""The deepest nesting of views that read views."""


def expand_views(query: Query, catalog: RelationCatalog, guard: QueryGuard) -> Query:
    """Replaces all views of a query by subqueries.

    Raises 306 for views that refer to each other in a circle, 167 and 168 for trees that become too large.
    """
    expanded = _ViewExpander(catalog, guard).expand(query, 0)
    if expanded is not query:
        check_tree(expanded, guard)
    return expanded


class _ViewExpander:
    """The views of one query being expanded."""

    def __init__(self, catalog: RelationCatalog, guard: QueryGuard) -> None:
        self._catalog = catalog
        self._guard = guard

    def expand(self, query: Query, level: int) -> Query:
        """Returns the query without views; ``level`` counts the views around it. Raises ``UserError`` 306."""
        if level > _MAX_LEVELS:
            raise UserError("TOO_DEEP_RECURSION", f"Views that read views, more than {_MAX_LEVELS} levels deep")
        return replace_tables(query, lambda table: self._expand_table(table, level))

    def _expand_table(self, table: NamedTable | TableFunction, level: int) -> Node:
        """Returns the subquery of a view; other tables unchanged."""
        database, name = (table.database, table.table) if isinstance(table, NamedTable) else (None, table.name)
        if isinstance(table, TableFunction) and not all(map(_is_parameter, table.args)):
            return table
        try:
            relation = self._catalog.relation(database, name)
        except UserError:
            return table  # the compiler reports what is wrong
        if not isinstance(relation, ViewRelation):
            return table
        found = view_subquery(relation, table)
        check_tree(found.query, self._guard)  # checked at every level, before the tree is too large to build
        return replace(found, query=self.expand(found.query, level + 1))


def view_subquery(view: ViewRelation, table: NamedTable | TableFunction) -> SubqueryTable:
    """Returns the subquery that a view stands for; views that it reads are not expanded."""
    body, place = parse_query(view.query), (view.database, view.name)
    if not view.columns:  # the columns depend on the parameters
        return SubqueryTable(_fill_parameters(body, table), table.alias, *place)
    query = Select(tuple(Identifier((name,)) for name, _ in view.columns), source=SubqueryTable(body))
    return SubqueryTable(query, table.alias, *place, columns=view.columns)


def _is_parameter(argument: Node) -> bool:
    """Tells whether an argument is ``name = value``, as in the call of a view with parameters."""
    return isinstance(argument, Function) and argument.name == "equals" and isinstance(argument.args[0], Identifier)


def _fill_parameters(query: Query, table: NamedTable | TableFunction) -> Query:
    """Returns the view's query with its parameters filled in. Raises 456 for a missing one."""
    calls = [call for call in (table.args if isinstance(table, TableFunction) else ()) if isinstance(call, Function)]
    given = {call.args[0].parts[-1]: call.args[1] for call in calls if isinstance(call.args[0], Identifier)}

    def change(node: Node) -> Node:
        if not isinstance(node, Parameter):
            return node
        if node.name not in given:
            raise UserError("UNKNOWN_QUERY_PARAMETER", f"Substitution `{node.name}` is not set: call the view with it")
        return Function("CAST", (given[node.name], Literal(node.type)))

    changed = transform(query, change)
    assert isinstance(changed, Query)
    return changed
