"""Compiles expression trees to typed DuckDB SQL: names, functions, special forms, subqueries.

:class:`ExpressionCompiler` compiles what is computed from the rows of FROM;
``grouping.group_by.GroupExpressionCompiler`` extends it for groups. As in ClickHouse an alias may be used anywhere in
its SELECT. A name means, in this order, a lambda's argument, an alias (unless its own expression is being expanded), a
column, a name of the surrounding query.
"""

from __future__ import annotations

from collections.abc import Callable

from parts.common.errors import UserError
from parts.types import DataType, TupleType, make_nullable, strip_nullable
from sql.aggregates.combinators import is_aggregate_call
from sql.aggregates.window_names import WINDOW_FUNCTIONS, canonical_window_function_name
from sql.compile.compiled_nodes import BoundNames, CompiledExpressionCache
from sql.compile.compiler_interfaces import StatementContext
from sql.compile.expressions import function_library as _library  # noqa: F401  (fills the function table)
from sql.compile.expressions.literal_lists import compile_list
from sql.compile.expressions.special_forms import SPECIAL_FORMS
from sql.compile.expressions.window_functions import compile_window
from sql.compile.heavy_expressions import ExpressionStages, is_heavy
from sql.compile.names.scope import EXPRESSIONS, Scope, SourceColumn, collect_aliases
from sql.functions.registry import Call, Environment, Rule, apply, find_rule, unknown_function_error
from sql.grammar.queries.query_parser import parse_expression
from sql.grammar.query_limits import QueryGuard
from sql.grammar.syntax_tree import (
    Alias,
    Function,
    Identifier,
    Lambda,
    Literal,
    LiteralList,
    Node,
    Parameter,
    Query,
    Star,
    StarColumn,
    Subquery,
    walk,
)
from sql.typing.casts.casts import cast_to
from sql.typing.duckdb.sql_fragments import EMPTY, Fragment, fragment
from sql.typing.typed_expressions import LambdaType, Typed, literal

_BRANCHES = frozenset(
    {"if", "multiIf", "caseWithExpression", "transform", "and", "or", "coalesce", "ifNull", "throwIf"}
)
"""Functions that do not compute all arguments for every row."""


_RANDOM = frozenset({"rand", "rand64", "randCanonical", "generateUUIDv4"})
"""Functions with a new value in every row; equal calls in a row have the same value."""


def is_window_call(node: Function) -> bool:
    """Tells whether a call has OVER or is of a function that exists only over a window."""
    return node.window is not None or canonical_window_function_name(node.name) in WINDOW_FUNCTIONS


def is_random(name: str) -> bool:
    """Tells whether a function has another value in every row."""
    rule = find_rule(name)
    return rule is not None and rule.name in _RANDOM


class ExpressionCompiler:
    """The compiler of one SELECT's expressions.

    ``query`` compiles subqueries; keys and defaults have none.
    """

    def __init__(self, scope: Scope, environment: Environment, query: StatementContext | None = None) -> None:
        self.scope = scope
        self.environment = environment
        self.query = query
        self.guard = query.guard if query is not None else QueryGuard()
        self.names = BoundNames()
        self.compiled = CompiledExpressionCache(self.names, self.guard)
        self.allow_array_join = False
        self.array_joins: dict[Fragment, tuple[Fragment, DataType]] = {}
        self.stages: ExpressionStages | None = None
        """Takes expressions that are too heavy, once the names of FROM are known."""
        self.windows: dict[str, object] = {}
        self.allow_windows = False

    # Dispatch ---------------------------------------------------------------------------------------------------------

    def compile(self, node: Node) -> Typed:
        """Compiles an expression. Raises ``UserError`` 42, 43, 46, 47, 48, …."""
        if isinstance(node, (Function, Subquery)):
            return self.compiled.node(node, self._compile)
        return self._compile(node)

    def _compile(self, node: Node) -> Typed:
        match node:
            case LiteralList():
                return compile_list(self, node)
            case Literal(value, written):
                return literal(value, written)
            case Identifier(parts):
                return self._compile_identifier(parts)
            case StarColumn(number, name, _, merged):
                source = next(source for source in self.scope.sources if source.number == number)
                column = source.columns[name]
                return self.column(source, (merged and column.merged) or column)
            case Alias(expression, name):
                return self._compile_aliased(name, expression)
            case Function():
                return self.function(node)
            case Lambda():
                return self._compile_lambda(node)
            case Subquery(query):
                return self._compile_scalar_subquery(query)
            case Star():
                raise UserError("SYNTAX_ERROR", "An asterisk can only stand in SELECT or in count(*)")
            case Parameter(name):
                raise UserError("UNKNOWN_QUERY_PARAMETER", f"Query parameter `{name}` was not set: pass param_{name}")
        raise UserError("NOT_IMPLEMENTED", f"{type(node).__name__} is not supported in an expression")

    def condition(self, node: Node) -> Fragment:
        """Compiles a filter as a BOOLEAN. Raises ``UserError`` 59."""
        value = self.compile(node)
        bare = strip_nullable(value.type)
        if bare.is_composite or bare.name in ("String", "Date", "DateTime"):
            raise UserError(
                "ILLEGAL_TYPE_OF_COLUMN_FOR_FILTER",
                f"Illegal type {value.type} of a filter: it must be UInt8 or another number",
            )
        return value.condition

    # Names ------------------------------------------------------------------------------------------------------------

    def _compile_identifier(self, parts: tuple[str, ...]) -> Typed:
        found = self.resolve(parts)
        if found is None:
            raise self._unknown_error(parts)
        return found

    def resolve(self, parts: tuple[str, ...]) -> Typed | None:
        """Returns what a name means here, or ``None``."""
        self.names.looked_up[-1].add(parts[0])
        for names in reversed(self.names.lambdas):
            if parts[0] in names:
                return self._follow_path(names[parts[0]], parts[1:])
        name = parts[0]
        if name in self.scope.aliases and name not in self.names.expanding and not self._is_qualified(parts):
            return self._follow_path(self._compile_alias(name), parts[1:])
        column = self.scope.find_column(parts)
        if column is not None:
            source, found, rest = column
            return self._follow_path(self.column(source, found), rest)
        if self.scope.outer is not None:
            around = self.scope.outer.scope
            expression = around.aliases.get(name)
            if (
                expression is not None
                and name not in self.names.expanding
                and not expression_contains(expression, _needs_surrounding_query, around)
            ):
                return self._follow_path(self._compile_aliased(name, expression), parts[1:])
            found_outside = self.scope.outer.resolve(parts)
            if found_outside is not None and not found_outside.is_constant:
                self.scope.correlated = True
            return found_outside
        return None

    def _is_qualified(self, parts: tuple[str, ...]) -> bool:
        """Tells whether ``a.b`` starts with a table, which wins over an alias ``a``."""
        return len(parts) > 1 and bool(self.scope.named(parts[:1]))

    def column(self, source: object, column: SourceColumn) -> Typed:
        """Returns a reference to a column; an ALIAS column is its expression."""
        definition = column.definition
        if definition is not None and definition.default_kind in EXPRESSIONS:
            tree = parse_expression(definition.default_expression)
            scope = Scope([source], aliases=collect_aliases([tree]))  # type: ignore[list-item]
            value = ExpressionCompiler(scope, self.environment, self.query).compile(tree)
            return apply_cast(value, definition.type, self.environment)
        source.used[column.name] = None  # type: ignore[attr-defined]
        return column.typed

    def _compile_alias(self, name: str) -> Typed:
        return self._compile_aliased(name, self.scope.aliases[name])

    def _compile_aliased(self, name: str, expression: Node) -> Typed:
        if name in self.names.expanding:
            return self.compile(expression)

        def expanded(node: Node) -> Typed:
            self.names.expanding.append(name)
            try:
                return self.compile(node)
            finally:
                self.names.expanding.pop()

        return self.compiled.alias(expression, expanded)

    def _follow_path(self, value: Typed, path: tuple[str, ...]) -> Typed:
        for name in path:
            value = self.call("tupleElement", (value, literal(name)))
        return value

    def _unknown_error(self, parts: tuple[str, ...]) -> UserError:
        import difflib

        name = ".".join(parts)
        known = [column for source in self.scope.sources for column in source.columns] + list(self.scope.aliases)
        close = difflib.get_close_matches(parts[-1], known, n=2)
        hint = f". Maybe you meant: {close}" if close else (f" (columns: {', '.join(known[:20])})" if known else "")
        return UserError("UNKNOWN_IDENTIFIER", f"Unknown expression identifier `{name}`{hint}")

    # Functions --------------------------------------------------------------------------------------------------------

    def function(self, node: Function) -> Typed:
        """Compiles a call of a function, special form, aggregate or window function."""
        name = node.name
        if is_window_call(node):
            return self.window_function(node)
        special = SPECIAL_FORMS.get(name)
        if special is not None:
            return special(self, node)
        rule = find_rule(name)
        if rule is None:
            if is_aggregate_call(node):
                return self.aggregate(node)
            raise unknown_function_error(name)
        if node.params is not None:
            raise UserError("BAD_ARGUMENTS", f"Function {name} takes no parameters in a first pair of brackets")
        if node.distinct or node.filter is not None:
            raise UserError(
                "BAD_ARGUMENTS", f"Function {name} is not an aggregate function: DISTINCT and FILTER do not apply"
            )
        is_branch = rule.name in _BRANCHES
        self.names.branches += is_branch
        try:
            args = tuple([self.compile(arg) for arg in node.args])
        except UserError as error:
            taken = self._find_taken_branch(rule, node) if error.name == "UNKNOWN_IDENTIFIER" else None
            if taken is None:
                raise
            return self.compile(taken)
        finally:
            self.names.branches -= is_branch
        value = self.apply(rule, args, node)
        if self.stages is None or is_branch:
            return value
        if rule.name in _RANDOM and not self.names.lambdas and not self.scope.correlated:
            return self.stages.column(value, may_add=True)
        may_add = not self.names.branches and not self.names.lambdas and not self.scope.correlated
        if not (may_add or self.stages.has_any_columns) or not is_heavy(value):
            return value
        return self.apply(rule, tuple([self.stages.column(arg, may_add=may_add) for arg in args]), node)

    def _find_taken_branch(self, rule: Rule, node: Function) -> Node | None:
        """Returns the branch that an ``if`` with a constant condition takes.

        The other branch may contain unknown names. Returns ``None`` for other calls.
        """
        if rule.name != "if" or len(node.args) != 3:
            return None
        condition, then, otherwise = node.args
        value = self.compile(condition)
        if not value.is_constant:
            return None
        known = value.value if value.is_literal else self.need_query().constant(value)
        return then if known else otherwise

    def apply(self, rule: Rule, args: tuple[Typed, ...], node: Function | None = None) -> Typed:
        """Applies a rule to compiled arguments."""
        return apply(rule, Call(rule.name, args, self.environment, node=node))

    def call(self, name: str, args: tuple[Typed, ...]) -> Typed:
        """Compiles a call of the named function."""
        rule = find_rule(name)
        assert rule is not None, name
        return self.apply(rule, args)

    def aggregate(self, node: Function) -> Typed:
        """Raises error 184: over rows there are no aggregates. Subclasses compile them."""
        raise UserError(
            "ILLEGAL_AGGREGATION",
            f"Aggregate function {node.name} is found where only rows are known (WHERE, PREWHERE, JOIN ON, a key or "
            f"another aggregate function)",
        )

    def window_function(self, node: Function) -> Typed:
        """Compiles a window function. Raises ``UserError`` 184 where none is allowed."""
        if not self.allow_windows:
            raise UserError(
                "ILLEGAL_AGGREGATION", f"Window function {node.name} is only allowed in SELECT and ORDER BY"
            )
        return compile_window(self, node)

    def _compile_lambda(self, node: Lambda) -> Typed:
        def apply_to(arguments: list[Typed]) -> Typed:
            if len(arguments) != len(node.parameters):
                raise UserError(
                    "NUMBER_OF_ARGUMENTS_DOESNT_MATCH",
                    f"The lambda takes {len(node.parameters)} arguments, but {len(arguments)} arrays are given",
                )
            self.names.lambdas.append(dict(zip(node.parameters, arguments, strict=True)))
            try:
                return self.compile(node.body)
            finally:
                self.names.lambdas.pop()

        return Typed(EMPTY, LambdaType(), apply=apply_to)

    # Subqueries -------------------------------------------------------------------------------------------------------

    def need_query(self) -> StatementContext:
        """Returns the statement. Raises ``UserError`` 48 where subqueries are not allowed."""
        if self.query is None:
            raise UserError("NOT_IMPLEMENTED", "A subquery is not supported here (keys, defaults and constraints)")
        return self.query

    def _compile_scalar_subquery(self, query: Query) -> Typed:
        return self.move_out_of_lambdas(self._compile_subquery(query))

    def move_out_of_lambdas(self, value: Typed) -> Typed:
        """Moves a subquery's value out of a lambda, where DuckDB allows none, to a column."""
        if not self.names.lambdas or self.stages is None:
            return value
        return self.stages.column(value, may_add=True)

    def _compile_subquery(self, query: Query) -> Typed:
        compiled = self.need_query().nested(query, self)
        types = tuple(type_ for _, type_ in compiled.columns)
        if len(types) == 1:
            return Typed(fragment("({})", compiled.sql), make_nullable(types[0]))
        fields = ", ".join(f'"{position}" := c{position - 1}' for position in range(1, len(types) + 1))
        type_ = TupleType(tuple((None, inner) for inner in types))
        return Typed(fragment("(SELECT struct_pack({}) FROM ({}))", fields, compiled.sql), type_)


def apply_cast(value: Typed, type_: DataType, environment: Environment) -> Typed:
    """Casts a value to a type unless it has it already."""
    if value.type == type_:
        return value
    return Typed(cast_to(value, type_, environment.zone), type_, is_constant=value.is_constant)


def _needs_surrounding_query(node: Node) -> bool:
    """Tells whether only the surrounding query can compute the node.

    Its other aliases are expanded here, where columns of this query's tables come first.
    """
    return (
        isinstance(node, Subquery) or is_aggregate_call(node) or (isinstance(node, Function) and is_window_call(node))
    )


def expression_contains(node: Node, found: Callable[[Node], bool], scope: Scope) -> bool:
    """Tells whether ``found(node)`` holds anywhere in the expression and the aliases it uses.

    Subqueries are not searched.
    """
    seen: set[str] = set()
    roots = [node]
    while roots:
        for part in walk(roots.pop(), into_queries=False):
            if found(part):
                return True
            if isinstance(part, Identifier) and len(part.parts) == 1 and part.parts[0] not in seen:
                seen.add(part.parts[0])
                target = scope.aliases.get(part.parts[0])
                if target is not None:
                    roots.append(target)
    return False
