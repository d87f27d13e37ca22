"""Compiles one SELECT: its clauses in ClickHouse's order of evaluation, as nested DuckDB stages."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from functools import lru_cache

from parts.common.errors import UserError
from parts.types import NothingType
from sql.aggregates.combinators import is_aggregate_call
from sql.compile.compiled_query import CompiledQuery, Scan
from sql.compile.compiler_interfaces import StatementContext
from sql.compile.expressions.constant_numbers import evaluate_row_count
from sql.compile.expressions.expressions import ExpressionCompiler, expression_contains
from sql.compile.expressions.index_tokenizers import add_index_tokenizers
from sql.compile.expressions.order_by import compile_order_terms
from sql.compile.from_clause.condition_pushdown import SelectPushdownTarget, push_conditions
from sql.compile.from_clause.from_clause import FromClause
from sql.compile.grouping.group_by import GroupExpressionCompiler, has_aggregates, joins_array
from sql.compile.grouping.scan_grouping import group_in_scan
from sql.compile.grouping.two_step_grouping import group_in_two_steps
from sql.compile.heavy_expressions import ExpressionStages
from sql.compile.names.column_names import result_column_name
from sql.compile.names.column_stars import expand_stars, expand_stars_in_calls
from sql.compile.names.scope import ExpressionContext, Scope, collect_aliases, open_inner_scope
from sql.grammar.syntax_tree import Function, Identifier, LimitBy, Literal, Node, OrderItem, Select, conjuncts
from sql.grammar.tokens import not_implemented
from sql.typing.column_kernels.float_bits import distinct_by_bits, floats_to_bits, has_floats
from sql.typing.duckdb.sql_fragments import EMPTY, Fragment, fragment, function_call, join_fragments, leaf
from sql.typing.typed_expressions import Typed, is_query_only_type

_SUBQUERY = re.compile(r"_subquery(?<!\w_subquery)\b")
"""Begins with plain text, which is found ten times as fast as a word boundary."""


class SelectCompiler:
    """The compiler of one SELECT.

    ``outer`` is the surrounding expression of a subquery; ``scope`` the surrounding scope of a subquery in FROM.
    """

    def __init__(
        self, query: StatementContext, select: Select, outer: ExpressionContext | None, scope: Scope | None
    ) -> None:
        self.query = query
        self.select = select
        self.scope = open_inner_scope(outer, scope)
        for table in select.common_tables:
            visible = Scope(common_tables=dict(self.scope.common_tables), inherited=dict(self.scope.inherited))
            self.scope.common_tables[table.name] = (table, visible)
        self.scope.inherited.update((alias.name, alias.expression) for alias in select.with_aliases)
        self.rows = ExpressionCompiler(self.scope, query.environment, query)
        self.before_where = ExpressionStages(query.next_number)
        self.after_where = ExpressionStages(query.next_number, self.before_where)
        self.first_scan = len(query.scans)

    def compile(self) -> CompiledQuery:
        """Compiles the SELECT. Raises ``UserError`` for whatever is wrong with it."""
        select = self.select
        if select.totals:
            raise not_implemented("GROUP BY … WITH TOTALS")
        self.scope.aliases = self._aliases(())
        source = FromClause(self.query, self.scope, self.rows)
        from_sql = source.compile(select.source)
        select = self.select = add_index_tokenizers(expand_stars_in_calls(select, self.scope), self.scope)
        outputs = expand_stars(select.expressions, self.scope)
        if not outputs:
            raise UserError(
                "EMPTY_LIST_OF_COLUMNS_QUERIED", "Empty list of columns: what stands for some stands for none"
            )
        self.scope.aliases = self._aliases(outputs)
        self.rows.compiled.clear()
        if select.having is not None and not self._is_grouped():  # HAVING without groups is one more WHERE
            terms = tuple(node for node in (select.where, select.having) if node is not None)
            select = self.select = replace(select, where=Function("and", terms), having=None)
        self.rows.windows = dict(select.windows)
        self.rows.allow_array_join = True
        self.rows.stages = self.before_where
        where = self._where(source)
        self.rows.stages = self.after_where
        current = self._compile_grouping(outputs)
        current.allow_windows = True
        values = [self._compile_output(node, current) for node in outputs]
        names = _number_subqueries([self._output_name(node) for node in outputs])
        having = [current.condition(select.having)] if select.having is not None else []
        tail = _ResultClauses(self, current, outputs, values)
        rows_sql = self._rows_sql(from_sql, where)
        if isinstance(current, GroupExpressionCompiler):
            rows_sql = self._group_sql(current, rows_sql)
        sql = tail.build(rows_sql, having)
        columns = tuple((name, value.type) for name, value in zip(names, values, strict=True))
        order = self._plain_columns([value for value, _ in tail.ordered_by])
        items = (item for _, item in tail.ordered_by)
        plain_order = tuple(zip(order, items, strict=False))
        types = [value.type for value in values]
        origin = SelectPushdownTarget(
            select, outputs, types, types, self.scope, self._own_scans(), self.query, current is not self.rows
        )
        return CompiledQuery(sql, columns, self._plain_columns(values), plain_order, (origin,))

    def _own_scans(self) -> list[Scan]:
        return [scan for scan in self.query.scans[self.first_scan :] if scan.source in self.scope.sources]

    def _plain_columns(self, values: list[Typed]) -> tuple[str, ...]:
        if len(self.scope.sources) != 1 or any(value.sql.parts for value in values):
            return ()
        # toLowCardinality and similar functions change only the type.
        named = {(column.sql, column.type): column.name for column in self.scope.sources[0].columns.values()}
        plain = tuple(named[value.sql, value.type] for value in values if (value.sql, value.type) in named)
        return plain if len(plain) == len(values) else ()

    def _output_name(self, node: Node) -> str:
        """Names an output; a qualified column keeps its qualifier if the bare name is another column."""
        name = result_column_name(node)
        if isinstance(node, Identifier) and len(node.parts) > 1 and len(self.scope.sources) > 1:
            qualified, bare = self.scope.find_column(node.parts), self.scope.find_column(node.parts[-1:])
            if qualified is not None and bare is not None:
                owners = [source for source in self.scope.sources if node.parts[-1] in source.columns]
                if qualified[0] is not bare[0] or (len(self.scope.sources) > 2 and len(owners) > 1):
                    return ".".join(node.parts)
        if isinstance(node, Identifier) and len(node.parts) > 1:
            found = self.scope.find_column(node.parts)
            if found is None or found[2]:  # a path into a tuple
                return ".".join(node.parts)
            if "." in found[1].name:  # a column of a Nested structure
                return found[1].name
        return name

    def _aliases(self, outputs: tuple[Node, ...] | list[Node]) -> dict[str, Node]:
        select = self.select
        roots: list[Node] = [*select.with_aliases, *(outputs or select.expressions)]
        roots += [node for node in (select.prewhere, select.where, select.having, select.qualify) if node is not None]
        roots += [*select.group_by, *(item.expression for item in select.order_by)]
        return {**self.scope.inherited, **collect_aliases(roots)}

    def _where(self, source: FromClause) -> list[Fragment]:
        filters = [term for node in (self.select.prewhere, self.select.where) for term in conjuncts(node)]
        if self.select.prewhere is not None:
            source.check_prewhere()
            if expression_contains(
                self.select.prewhere, joins_array, self.scope
            ):  # PREWHERE chooses rows before they are read
                raise UserError("ILLEGAL_PREWHERE", "arrayJoin is not allowed in PREWHERE: use WHERE")
        for scan in self._own_scans():
            if scan.source.prunable:
                scan.conditions.extend((term, self.rows) for term in filters)
        push_conditions(filters, self.scope, (), self.query)
        return [*source.filters, *(self.rows.condition(term) for term in filters)]

    def _compile_output(self, node: Node, current: ExpressionCompiler) -> Typed:
        value = current.compile(node).plain
        if value.apply is not None:
            raise UserError("BAD_ARGUMENTS", "A lambda is not allowed as a column of the result")
        if is_query_only_type(value.type):
            raise not_implemented(f"A column of type {value.type} in a result")
        if isinstance(value.type, NothingType):
            raise UserError("ILLEGAL_TYPE_OF_ARGUMENT", "Invalid projection column with type Nothing")
        return value

    # Rows and groups --------------------------------------------------------------------------------------------------

    def _rows_sql(self, from_sql: Fragment, where: list[Fragment]) -> Fragment:
        """Returns FROM and WHERE, with the stages of moved expressions."""
        before, after = self.before_where, self.after_where
        from_sql = before.over(from_sql)
        text = fragment(" FROM {}", from_sql) if from_sql else EMPTY
        if where:
            text = fragment("{} WHERE {}", text, join_fragments(" AND ", where))
        if not after.has_columns:
            return text
        source = fragment("(SELECT {}{})", "*" if from_sql else "1 AS one", text) if text else EMPTY
        return fragment(" FROM {}", after.over(source))

    def _compile_grouping(self, outputs: list[Node]) -> ExpressionCompiler:
        """Returns the compiler for SELECT: of groups if the query has any, else of rows."""
        select = self.select
        if select.grouping == "ALL":
            keys = [node for node in outputs if not expression_contains(node, is_aggregate_call, self.scope)]
            grouped = True
        else:
            keys = list(select.group_by)
            grouped = bool(keys)
        if not grouped and not has_aggregates(select, self.rows):
            return self.rows
        if select.grouping == "SETS":
            raise not_implemented("GROUP BY GROUPING SETS")
        keys = [self._positional(key, outputs) for key in keys]
        compiled = [self.rows.compile(key).plain for key in keys]
        if select is self.query.outermost:
            self.query.short_strings.begin(select, self.query.scans)
        number = self.query.next_number()
        rollup = select.grouping in ("ROLLUP", "CUBE")
        groups = GroupExpressionCompiler(self.rows, compiled, number, grouped=grouped and not rollup, rollup=rollup)
        groups.remember_subquery_keys(keys, compiled)
        groups.allow_array_join = True
        return groups

    def _is_grouped(self) -> bool:
        select = self.select
        return bool(select.group_by or select.grouping) or has_aggregates(select, self.rows)

    def _positional(self, node: Node, outputs: list[Node]) -> Node:
        """Returns the output that ``GROUP BY 1`` or ``ORDER BY 1`` means; other nodes unchanged."""
        if isinstance(node, Literal) and type(node.value) is int:
            if not 1 <= node.value <= len(outputs):
                raise UserError(
                    "BAD_ARGUMENTS", f"Positional argument out of bounds: {node.value} (expected 1 to {len(outputs)})"
                )
            return outputs[node.value - 1]
        return node

    def _group_sql(self, current: GroupExpressionCompiler, rows_sql: Fragment) -> Fragment:
        assert current.stages is not None
        return fragment(" FROM {}", current.stages.over(fragment("({})", self._grouped_subquery(current, rows_sql))))

    @property
    def _may_group_in_scan(self) -> bool:
        stages = (self.before_where, self.after_where)
        return self.select is self.query.grouped_in_scan and not any(layer.has_columns for layer in stages)

    def _grouped_subquery(self, current: GroupExpressionCompiler, rows_sql: Fragment) -> Fragment:
        """Returns the grouped subquery, in the fastest of its three forms."""
        in_scan = group_in_scan(self.select, current, self.query.scans) if self._may_group_in_scan else None
        in_two = group_in_two_steps(current, rows_sql) if self.select.grouping not in ("ROLLUP", "CUBE") else None
        if in_two is not None and in_scan is None:
            return in_two
        named = [fragment("{} AS {}", key, name) for key, name in current.key_columns]
        columns = join_fragments(", ", [*named, *(in_scan or current.aggregate_sql)]) or fragment("1 AS one")
        grouping = self.select.grouping if self.select.grouping in ("ROLLUP", "CUBE") else ""
        group = EMPTY
        if named:
            keys = join_fragments(", ", [key for key, _ in current.key_columns])
            group = fragment(" GROUP BY {}", function_call(grouping, keys) if grouping else keys)
            if grouping:  # without rows DuckDB returns the total, ClickHouse nothing
                group = fragment("{} HAVING count(*) > 0", group)
        elif self.scope.correlated:
            # A correlated subquery without rows is NULL, whatever it aggregates.
            group = fragment(" HAVING count(*) > 0")
        return fragment("SELECT {}{}{}", columns, rows_sql, group)


def _number_subqueries(names: list[str]) -> list[str]:
    """Names unnamed subqueries ``_subquery_1``, ``_subquery_2``, … in order."""
    counter = itertools.count(1)
    return [_SUBQUERY.sub(lambda _: f"_subquery_{next(counter)}", name) for name in names]


@lru_cache(256)
def _column_template(count: int) -> str:
    """Returns the template of a result's columns."""
    return ", ".join(f"{{}} AS c{position}" for position in range(count))


class _ResultClauses:
    """The clauses over rows or groups: SELECT list, DISTINCT, LIMIT BY, ORDER BY, LIMIT."""

    def __init__(
        self, owner: SelectCompiler, current: ExpressionCompiler, outputs: list[Node], values: list[Typed]
    ) -> None:
        self.owner = owner
        self.select = owner.select
        self.current = current
        self.outputs = outputs
        self.values = values
        self.order: list[Fragment] = []
        self.ordered_by: list[tuple[Typed, OrderItem]] = []
        self._hidden: list[Fragment] = []
        self._compile_order()
        self._compile_limits()
        self._qualify = EMPTY if self.select.qualify is None else current.condition(self.select.qualify)

    def _compile_order(self) -> None:
        items = self.select.order_by
        if self.select.order_by_all:
            items = tuple(OrderItem(Literal(position)) for position in range(1, len(self.outputs) + 1))
        for item in items:
            node = self.owner._positional(item.expression, self.outputs)
            value = self.current.compile(node).plain
            if value.is_constant and value.is_literal:
                continue
            self.order.extend(compile_order_terms(self._reference_to(value), value.type, item))
            self.ordered_by.append((value, item))

    def _reference_to(self, value: Typed) -> str:
        """Returns the name of the result column with this value, or of a hidden one."""
        for position, known in enumerate(self.values):
            if known.sql == value.sql:
                return f"c{position}"
        if self.select.distinct:
            raise not_implemented("ORDER BY an expression that is not selected, together with DISTINCT,")
        if value.number not in self._hidden:
            self._hidden.append(value.number)
        return f"h{self._hidden.index(value.number)}"

    def _compile_limits(self) -> None:
        compiler, select = self.current, self.select
        self.limit = None if select.limit is None else evaluate_row_count(select.limit, compiler, "LIMIT")
        self.offset = 0 if select.offset is None else evaluate_row_count(select.offset, compiler, "OFFSET")
        self.limit_by: tuple[list[Fragment], int, int] | None = None
        if select.limit_by is not None or select.distinct_on:
            by = select.limit_by or LimitBy(Literal(1), None, select.distinct_on)
            keys = [self.owner._positional(node, self.outputs) for node in by.expressions]
            values = [self.current.compile(node).plain for node in keys]
            texts = [floats_to_bits(leaf(self._reference_to(value)), value.type) for value in values]
            count = evaluate_row_count(by.limit, compiler, "LIMIT BY")
            skip = 0 if by.offset is None else evaluate_row_count(by.offset, compiler, "OFFSET of LIMIT BY")
            self.limit_by = (texts, count, skip)

    def build(self, rows_sql: Fragment, having: list[Fragment]) -> Fragment:
        """Returns the whole SELECT over the SQL of its rows or groups."""
        columns = [fragment(_column_template(len(self.values)), *(value.number for value in self.values))]
        columns += [fragment("{} AS h{}", value, position) for position, value in enumerate(self._hidden)]
        is_by_bits = self.select.distinct and any(has_floats(value.type) for value in self.values)
        distinct = "DISTINCT " if self.select.distinct and not is_by_bits else ""
        sql = fragment("SELECT {}{}{}", distinct, join_fragments(", ", columns), rows_sql)
        if having:
            sql = fragment("{} WHERE {}", sql, join_fragments(" AND ", having))
        if self._qualify:
            sql = fragment("{} QUALIFY {}", sql, self._qualify)
        if is_by_bits:
            sql = distinct_by_bits(sql, [value.type for value in self.values])
        visible = ", ".join(f"c{position}" for position in range(len(self.values)))
        order = fragment(" ORDER BY {}", join_fragments(", ", self.order)) if self.order else EMPTY
        if self.limit_by is not None:
            sql = self._with_limit_by(sql, order)
        if self.select.with_ties and self.limit is not None:
            if not self.order:
                raise UserError("BAD_ARGUMENTS", "LIMIT WITH TIES needs ORDER BY")
            over = fragment(" OVER (ORDER BY {})", join_fragments(", ", self.order))
            sql = fragment("SELECT *, rank(){over} AS tie, row_number(){over} AS nth FROM ({})", sql, over=over)
            bounds = f"tie <= {self.limit + self.offset} AND nth > {self.offset}"
            return fragment("SELECT {} FROM ({}) WHERE {}{}", visible, sql, bounds, order)
        limit = "" if self.limit is None else f" LIMIT {self.limit}"
        limit += f" OFFSET {self.offset}" if self.offset else ""
        if not self._hidden and self.limit_by is None:
            return fragment("{}{}{}", sql, order, limit)
        return fragment("SELECT {} FROM ({}){}{}", visible, sql, order, limit)

    def _with_limit_by(self, sql: Fragment, order: Fragment) -> Fragment:
        assert self.limit_by is not None
        keys, count, skip = self.limit_by
        window = fragment("PARTITION BY {}{}", join_fragments(", ", keys), order)
        numbered = fragment("SELECT *, row_number() OVER ({}) AS nth FROM ({})", window, sql)
        return fragment("SELECT * EXCLUDE (nth) FROM ({}) WHERE nth > {} AND nth <= {}", numbered, skip, skip + count)
