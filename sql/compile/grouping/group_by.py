"""GROUP BY: collects the aggregates that a SELECT needs, and compiles expressions over groups.

The grouped query is a subquery that computes keys ``k<n>`` and aggregates ``a<n>``. Everything after it (SELECT,
HAVING, ORDER BY, windows) is compiled by :class:`GroupExpressionCompiler`. It replaces a key, found by its SQL over the
rows, and an aggregate, found by its call, by these columns.
"""

from __future__ import annotations

from parts.common.errors import UserError
from parts.types import LowCardinalityType
from sql.aggregates.combinators import is_aggregate_call
from sql.compile.compiled_nodes import CompiledExpressionCache
from sql.compile.compiler_interfaces import string_code
from sql.compile.expressions.aggregate_calls import compile_aggregate
from sql.compile.expressions.expressions import ExpressionCompiler, expression_contains
from sql.compile.heavy_expressions import ExpressionStages
from sql.compile.names.scope import SourceColumn
from sql.compile.short_string_codes import decode_string
from sql.grammar.syntax_tree import Alias, Function, Identifier, Lambda, Literal, Node, Select, Star, Subquery
from sql.typing.column_kernels.float_bits import bits_to_floats, floats_to_bits
from sql.typing.default_values import default_value
from sql.typing.duckdb.sql_fragments import Fragment, fragment, leaf
from sql.typing.typed_expressions import Typed


class GroupExpressionCompiler(ExpressionCompiler):
    """The compiler of expressions over the columns of the grouped subquery.

    ``rows`` compiles the arguments of aggregates.
    """

    def __init__(
        self, rows: ExpressionCompiler, keys: list[Typed], number: int, *, grouped: bool, rollup: bool
    ) -> None:
        super().__init__(rows.scope, rows.environment, rows.query)
        self.rows = rows
        self.number = number
        self.is_grouped = grouped
        self._rollup = rollup
        self.keys: dict[Fragment, Typed] = {}
        self.key_columns: list[tuple[Fragment, Fragment]] = []
        """Each key's SQL over the rows, and its name."""
        self.aggregates: dict[Fragment, Typed] = {}
        self.aggregate_sql: list[Fragment] = []
        self.stages = ExpressionStages(rows.need_query().next_number)
        self.calls: list[tuple[Function, Typed]] = []
        """The aggregates of ``aggregate_sql``: their calls, and their values over the rows."""
        self._arguments: dict[int, list[Typed]] = {}
        self.names = rows.names
        self.compiled = CompiledExpressionCache(self.names, self.guard)
        self._needs_groups: dict[int, tuple[Node, bool]] = {}
        self._subquery_keys: list[tuple[Node, Typed]] = []
        self.windows = rows.windows
        self.allow_windows = rows.allow_windows
        # DuckDB is fastest when it groups by a single dictionary.
        codable = len(keys) > 1 or not all(isinstance(key.type, LowCardinalityType) for key in keys)
        for key in keys:
            self._add_key(key, codable)

    def _add_key(self, key: Typed, codable: bool) -> None:
        """Adds a key; a string key may be replaced by its code."""
        if key.number in self.keys:
            return
        name = leaf(f'"k{self.number}_{len(self.key_columns)}"')
        reference = bits_to_floats(name, key.type)
        if self._rollup and not key.type.is_nullable:
            # In ClickHouse a rolled up key has its type's default, not NULL.
            reference = fragment("coalesce({}, {})", reference, default_value(key.type))
        code = string_code(self.rows, key.sql) if codable else None
        if code is not None:
            reference = decode_string(name)
        self.key_columns.append((code or floats_to_bits(key.number, key.type), name))
        self.keys[key.number] = Typed(reference, key.type)

    def remember_subquery_keys(self, nodes: list[Node], keys: list[Typed]) -> None:
        """Remembers keys that contain a subquery by their tree.

        Compiled again, such a key would be other SQL.
        """
        for node, key in zip(nodes, keys, strict=True):
            expression = self.scope.aliases.get(node.parts[0], node) if isinstance(node, Identifier) else node
            if isinstance(expression, Alias):
                expression = expression.expression
            if isinstance(expression, Function) and expression_contains(expression, _is_subquery, self.scope):
                self._subquery_keys.append((expression, Typed(self.keys[key.number].sql, key.type)))

    def _compile(self, node: Node) -> Typed:
        for known_node, key in self._subquery_keys:
            if known_node == node:
                return key
        if isinstance(node, (Lambda, Star)) or (isinstance(node, Function) and node.window is not None):
            return super()._compile(node)
        if is_aggregate_call(node):
            return self.aggregate(node)  # type: ignore[arg-type]
        if not isinstance(node, Subquery) and not self._has_groups(node):
            known = self._from_rows(node)
            if known is not None:
                return known
        return super()._compile(node)

    def _has_groups(self, node: Node) -> bool:
        """Tells whether a node can only be computed from groups; the answer is cached."""
        known = self._needs_groups.get(id(node))
        if known is None:
            known = self._needs_groups[id(node)] = (node, expression_contains(node, _needs_groups, self.scope))
        return known[1]

    def _from_rows(self, node: Node) -> Typed | None:
        """Returns the key that an expression equals, or the expression if it is constant."""
        self.rows.allow_array_join = False  # a new one would multiply the rows of groups, not their results
        try:
            value = self.rows.compile(node)
        except UserError:
            if self.names.lambdas or self.scope.outer is not None or expression_contains(node, joins_array, self.scope):
                return None  # a lambda's argument, or a name of the surrounding query
            raise
        finally:
            self.rows.allow_array_join = True
        known = self.keys.get(value.number)
        if known is not None:  # equal SQL is an equal value, but not always of an equal type (toInt8 of an Enum8)
            return Typed(known.sql, value.type)
        if value.is_constant or isinstance(node, Literal):
            return value
        return None

    def column(self, source: object, column: SourceColumn) -> Typed:
        """Returns the key that a column is. Raises ``UserError`` 215 if it is none."""
        value = self.rows.column(source, column)
        if value.number in self.keys:
            return self.keys[value.number]
        raise UserError(
            "NOT_AN_AGGREGATE",
            f"Column '{column.name}' is not under aggregate function and not in GROUP BY keys: add it to GROUP BY or "
            f"wrap it in any()",
        )

    def arguments(self, node: Function) -> list[Typed]:
        """Returns the compiled arguments of one of ``calls``.

        In ``sum(a) AS a`` the inner ``a`` is the column.
        """
        return self._arguments[id(node)]

    def aggregate_column(self, position: int) -> Fragment:
        """Returns the column of the aggregate at ``position``."""
        return leaf(f'"a{self.number}_{position}"')

    def aggregate(self, node: Function) -> Typed:
        """Compiles an aggregate; equal ones share a column of the grouped subquery."""
        value = compile_aggregate(self.rows, node, empty_possible=not self.is_grouped)
        known = self.aggregates.get(value.sql)
        if known is None:
            name = self.aggregate_column(len(self.aggregate_sql))
            self.aggregate_sql.append(fragment("{} AS {}", value.number, name))
            self.calls.append((node, value))
            self._arguments[id(node)] = [self.rows.compile(arg).plain for arg in node.args if not isinstance(arg, Star)]
            known = Typed(name, value.type)
            self.aggregates[value.sql] = known
        return Typed(known.sql, value.type)


def joins_array(node: Node) -> bool:
    """Tells whether a node is a call of ``arrayJoin``."""
    return isinstance(node, Function) and node.name == "arrayJoin"


def _is_subquery(node: Node) -> bool:
    return isinstance(node, Subquery)


def _needs_groups(node: Node) -> bool:
    return (
        is_aggregate_call(node)
        or isinstance(node, Subquery)
        or (isinstance(node, Function) and node.window is not None)
    )


def has_aggregates(select: Select, rows: ExpressionCompiler) -> bool:
    """Tells whether the SELECT has aggregates outside WHERE (``SELECT count() FROM t``)."""
    roots = [*select.expressions, *(item.expression for item in select.order_by)]
    if select.having is not None:
        roots.append(select.having)
    return any(expression_contains(root, is_aggregate_call, rows.scope) for root in roots if root is not None)
