"""Compiles TTL clauses of a table and its columns to the rules of ``parts.table.ttl_rules``."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parts.common.errors import UserError
from parts.format.codecs import parse_codec
from parts.table.table_description import Column, Key, TableSchema
from parts.table.ttl_rules import NEVER, RuleKind, TableTtl, TtlGrouping, TtlRule
from parts.types import DataType, Date32Type, DateTime64Type, DateTimeType, DateType, StringType, parse_type
from sql.aggregates.combinators import is_aggregate_call
from sql.compile.expressions.expressions import is_random
from sql.definitions.column_defaults import cast_block
from sql.grammar.queries.query_parser import parse_expression
from sql.grammar.statements.statement import CreateTable
from sql.grammar.syntax_tree import Function, Identifier, walk
from sql.grammar.table_elements.ttl import TtlClause, parse_stored_ttl
from sql.grammar.tokens import quote_identifier
from sql.relations import UNKNOWN_POSITIONS, StreamedRelation, TablePositions
from sql.run.block_expressions import CompiledExpression, compile_expressions
from sql.run.query_engine import QueryEngine

_CLOCKS = frozenset({"now", "now64", "today", "yesterday", "currenttimestamp", "current_timestamp", "curdate"})

_ONE_ROW = pa.table({"_row": pa.nulls(1, pa.uint8())})


def build_ttl(create: CreateTable, schema: TableSchema, keys: Mapping[str, Key]) -> TableTtl:
    """Checks and compiles a table's TTL; ``keys`` has ``sorting``, ``primary`` and ``partition``.

    Raises ``UserError`` 450, 36, 44, 47, 16 and others.
    """
    clauses = parse_stored_ttl(create.ttl) if create.ttl else ()
    if create.is_replicated:
        of_columns = [clause.ttl for clause in create.columns if clause.ttl]
        for text in (*of_columns, *(text for clause in clauses for text in clause.expressions)):
            _check_repeatable(text, _CLOCKS)
    table = [_table_rule(clause, schema, keys) for clause in clauses]
    if sum(rule.kind is RuleKind.ROWS for rule in table) > 1:
        raise _bad_ttl_error("More than one DELETE TTL expression without WHERE expression is not allowed")
    columns = [_column_rule(clause.name, clause.ttl, schema, keys) for clause in create.columns if clause.ttl]
    rules = [*table, *(rule for rule in columns if schema.column(rule.column).is_stored)]
    order = list(RuleKind)
    return TableTtl(tuple(sorted(rules, key=lambda rule: order.index(rule.kind))), create.ttl)


def _bad_ttl_error(message: str) -> UserError:
    return UserError("BAD_TTL_EXPRESSION", message)


def _table_rule(clause: TtlClause, schema: TableSchema, keys: Mapping[str, Key]) -> TtlRule:
    time = _compile_time(clause.expression, schema)
    rule = TtlRule(RuleKind.ROWS, clause.text, clause.expression, time.columns, _compile_seconds(time))
    if clause.where:
        where = _compile_condition(clause.where, schema)
        columns = tuple(dict.fromkeys((*time.columns, *where.columns)))
        return replace(rule, kind=RuleKind.ROWS_WHERE, columns=columns, times=_restrict_times(rule.times, where))
    if clause.group_by:
        return replace(rule, kind=RuleKind.GROUP_BY, grouping=_build_grouping(clause, schema, keys["primary"]))
    if clause.recompress:
        parse_codec(clause.recompress, StringType())  # it must be one for columns of any type
        return replace(rule, kind=RuleKind.RECOMPRESS, codec=clause.recompress)
    return rule


def _column_rule(name: str, text: str, schema: TableSchema, keys: Mapping[str, Key]) -> TtlRule:
    if any(name in key.columns for key in keys.values()):
        raise UserError("ILLEGAL_COLUMN", f"Trying to set TTL for key column {name}")
    time = _compile_time(text, schema)
    default = schema.column(name).default
    what = f"{quote_identifier(name)} TTL {text}"
    return TtlRule(RuleKind.COLUMN, what, text, time.columns, _compile_seconds(time), column=name, default=default)


# Times ----------------------------------------------------------------------------------------------------------------


def _compile_time(text: str, schema: TableSchema) -> CompiledExpression:
    _check_repeatable(text)
    (compiled,) = compile_expressions([text], _widen_times(schema.stored))
    if not isinstance(compiled.type, DateType | Date32Type | DateTimeType | DateTime64Type):
        raise _bad_ttl_error(
            "TTL expression result column should have Date, Date32, DateTime or DateTime64 type, but has "
            f"{compiled.type.name}"
        )
    return compiled


def _widen_times(schema: TableSchema) -> TableSchema:
    """Returns the schema with dates as ``Date32`` and times as ``DateTime64``, which Arrow holds alike.

    A time past the range of the column's own type would wrap around to the past: ``TTL d + INTERVAL 100 YEAR`` is meant
    to keep rows.
    """

    def wider(column: Column) -> Column:
        if isinstance(column.type, DateType):
            return replace(column, type=Date32Type())
        if isinstance(column.type, DateTimeType):
            return replace(column, type=DateTime64Type(0, column.type.timezone))
        return column

    return TableSchema(tuple(map(wider, schema.columns)))


def check_ttl_reads_columns(ttl: TableTtl) -> None:
    """Raises 36 for a TTL that is the same in every row.

    An old table may have such a TTL, a new one only if a setting allows it.
    """
    for rule in ttl.rules:
        if not rule.columns:
            raise UserError(
                "BAD_ARGUMENTS",
                f"TTL expression {rule.expression} does not depend on any of the columns of the table; "
                "allow_suspicious_ttl_expressions = 1 takes it",
            )


def _check_repeatable(text: str, clocks: Collection[str] = ()) -> None:
    """Raises 36 for an expression whose value for a row could differ each time it is computed.

    Only the current time is allowed; it is the time when the definition was read. ``clocks`` refuses it too, for
    replicas, which read the definition at different times.
    """
    for node in walk(parse_expression(text)):
        if isinstance(node, Function) and (is_random(node.name) or node.name.lower() in clocks):
            raise UserError(
                "BAD_ARGUMENTS",
                f"TTL expression cannot contain non-deterministic functions, but contains function {node.name}",
            )


def _compile_seconds(time: CompiledExpression) -> Callable[[pa.Table], np.ndarray]:
    def times(block: pa.Table) -> np.ndarray:
        values = time.evaluate(block if time.columns else _ONE_ROW).to_numpy()
        seconds = values.astype("datetime64[s]").astype(np.int64)
        return seconds if time.columns else np.repeat(seconds, block.num_rows)

    return times


def _compile_condition(text: str, schema: TableSchema) -> CompiledExpression:
    _check_repeatable(text)
    (compiled,) = compile_expressions([text], schema.stored)
    arrow = compiled.type.arrow
    if not (pa.types.is_integer(arrow) or pa.types.is_boolean(arrow)):
        raise UserError(
            "ILLEGAL_TYPE_OF_COLUMN_FOR_FILTER", f"TTL … WHERE {text} is of type {compiled.type.name}, not a condition"
        )
    return compiled


def _restrict_times(
    times: Callable[[pa.Table], np.ndarray], where: CompiledExpression
) -> Callable[[pa.Table], np.ndarray]:
    def chosen(block: pa.Table) -> np.ndarray:
        found = where.evaluate(block)
        is_chosen = pc.fill_null(found.cast(pa.bool_()), False).to_numpy()
        return np.where(is_chosen, times(block), NEVER)

    return chosen


# GROUP BY -------------------------------------------------------------------------------------------------------------


def _build_grouping(clause: TtlClause, schema: TableSchema, primary: Key) -> TtlGrouping:
    keys = tuple(item.text for item in compile_expressions(clause.group_by, schema.stored))
    if keys != primary.expressions[: len(keys)]:
        raise _bad_ttl_error("TTL Expression GROUP BY key should be a prefix of primary key")
    names = [name for name, _ in clause.assigned]
    for name, text in clause.assigned:
        if name not in schema.stored:
            raise UserError("NO_SUCH_COLUMN_IN_TABLE", f"There is no physical column {name} in table")
        if names.count(name) > 1:
            raise _bad_ttl_error("Multiple aggregations set for one column in TTL Expression")
        _check_repeatable(text)
        if not any(is_aggregate_call(node) for node in walk(parse_expression(text))):
            raise _bad_ttl_error(
                f"Invalid expression for assignment of column {name}. Should contain an aggregate function"
            )
    assignment = _Assignment(clause, schema)
    return TtlGrouping(len(keys), assignment.columns, assignment)


class _Block:
    """A catalog and relation of one block, which has any name.

    Implements ``sql.relations.ArrowRelation`` and ``RelationCatalog``.
    """

    def __init__(self, schema: TableSchema, block: pa.Table) -> None:
        self.schema = schema
        self._block = block

    def read(self, columns: Sequence[str]) -> pa.Table:
        """Returns the block."""
        return self._block

    def relation(self, database: str | None, table: str) -> _Block:
        """Returns this relation."""
        return self

    def find_file(self, path: str, format: str = "", structure: str = "") -> StreamedRelation:
        """Never called: TTL has no table functions."""
        raise AssertionError("TTL reads no files")

    def find_function_tables(self, function: object) -> object:
        """Never called: TTL has no table functions."""
        raise AssertionError("TTL reads no files")

    @property
    def positions(self) -> TablePositions:
        """None: TTL takes no functions whose values change."""
        return UNKNOWN_POSITIONS


class _Assignment:
    """Computes ``SET column = value, …`` for groups of rows, as a query over them."""

    def __init__(self, clause: TtlClause, schema: TableSchema) -> None:
        values = [value for _, value in clause.assigned]
        nodes = [node for text in (*values, *clause.group_by) for node in walk(parse_expression(text))]
        names = {node.parts[0] for node in nodes if isinstance(node, Identifier)}
        self._targets = [schema.column(name) for name, _ in clause.assigned]
        self.columns = tuple(name for name in schema.stored.names if name in names)
        self._group = "_group"
        while self._group in names:
            self._group += "_"
        read = (schema.column(name) for name in self.columns)
        self._schema = TableSchema((*read, Column(self._group, parse_type("UInt64"))))
        keys = ", ".join([self._group, *clause.group_by])
        self._query = f"SELECT {', '.join(values)} FROM rows GROUP BY {keys} ORDER BY {self._group}"
        self._engine = QueryEngine()
        if values:
            self._engine.describe(self._query, catalog=_Block(self._schema, self._schema.arrow.empty_table()))

    def __call__(self, block: pa.Table, groups: np.ndarray) -> dict[str, pa.ChunkedArray]:
        if not self._targets:
            return {}
        rows = block.append_column(self._schema.arrow.field(self._group), pa.array(groups.astype(np.uint64)))
        result = self._engine.select(self._query, catalog=_Block(self._schema, rows))
        types = [type_ for _, type_ in result.columns]
        found = cast_block(result.read_all(), types, self._targets)
        return {column.name: _to_storage(found.column(column.name), column.type) for column in self._targets}


def _to_storage(values: pa.ChunkedArray, type_: DataType) -> pa.ChunkedArray:
    return values if values.type == type_.arrow else values.cast(type_.arrow)
