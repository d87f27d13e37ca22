"""Plans of queries, and a cache of plans by text.

A plan is cached only if nothing else went into it than its text, the database, the settings, the time zone and the
definitions of its tables and views: no clock, no data. Every query looks up the tables and views anew
(``sql.run.table_lookups``).
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from parts.common.lru_cache import LruCache
from parts.table.table_description import TableDescription
from parts.types import ArrayType, DataType, LowCardinalityType, NullableType, StringType
from sql.compile.compiled_query import CompiledQuery, Scan
from sql.compile.grouping.scan_grouping import drop_unused_columns
from sql.compile.macros_and_kernels import check_macro_weight
from sql.compile.scan_columns import move_values_to_scans
from sql.compile.shards.shard_conditions import push_conditions_to_shards
from sql.compile.short_string_codes import FIRST_ROWS, drop_encoded_strings
from sql.functions import memory_guards
from sql.functions.registry import canonical_function_name
from sql.grammar.syntax_tree import (
    Alias,
    CommonTable,
    Function,
    Identifier,
    Join,
    Literal,
    NamedTable,
    Node,
    OrderItem,
    Query,
    Select,
    Star,
    Subquery,
    SubqueryTable,
    walk,
)
from sql.pruning.index_analysis import IndexAnalysis, analyse_scan
from sql.relations import ArrowRelation, PartsRelation, RelationCatalog, is_parts_relation
from sql.run.block_expressions import DUCKDB_EVALUATOR
from sql.run.scans.read_limits import check_index_use
from sql.run.scans.scan_streams import scan_sql
from sql.run.simple_aggregates import SimpleAggregate, find_simple_aggregates
from sql.run.stored_row_results import StoredRowResult, find_stored_row_result
from sql.run.table_lookups import TableLookups, TableName, find_cacheable_definition
from sql.run.trivial_count import is_trivial_count
from sql.settings.supported_settings import (
    DEFAULT_SETTINGS,
    Settings,
)
from sql.typing.duckdb.engine_types import duckdb_output_type
from sql.typing.duckdb.sql_fragments import EMPTY, Fragment, fragment, join_fragments, leaf

_MOST_PLANS = 256
_LONGEST_KEY = 12_000
"""Characters of a key. The settings take some 2,000."""
_NODES = (Alias, Function, Identifier, Literal, NamedTable, OrderItem, Select, Star)
_NODES_OF_SEVERAL_TABLES = (*_NODES, CommonTable, Join, Subquery, SubqueryTable)
_FUNCTIONS = frozenset(
    {
        "equals", "notEquals", "less", "lessOrEquals", "greater", "greaterOrEquals", "and", "or", "not", "xor",
        "in", "notIn", "like", "notLike", "ilike", "startsWith", "endsWith", "tuple", "isNull", "isNotNull",
        "plus", "minus", "multiply", "divide", "intDiv", "modulo", "negate", "abs", "round", "floor", "ceil",
        "if", "multiIf", "coalesce", "ifNull", "nullIf", "greatest", "least", "length", "lower", "upper",
        "empty", "notEmpty", "substring", "position", "toString", "toInt8", "toInt16", "toInt32", "toInt64",
        "toUInt8", "toUInt16", "toUInt32", "toUInt64", "toFloat32", "toFloat64", "toDate", "toDateTime",
        "toYear", "toMonth", "toDayOfMonth", "toDayOfWeek", "toHour", "toMinute", "toSecond", "toYYYYMM",
        "toStartOfYear", "toStartOfMonth", "toMonday", "toStartOfDay", "toStartOfHour", "toStartOfMinute",
        "toUnixTimestamp", "count", "sum", "min", "max", "avg", "any", "anyLast", "uniqExact", "uniq",
        "toIntervalSecond", "toIntervalMinute", "toIntervalHour", "toIntervalDay", "toIntervalWeek",
        "toIntervalMonth", "toIntervalQuarter", "toIntervalYear", "exists",
        "argMin", "argMax", "quantile", "median", "countIf", "sumIf", "minIf", "maxIf", "avgIf",
    }
)  # fmt: skip
_KEPT_FUNCTIONS = _FUNCTIONS | {"CAST"}
"""Functions of cached plans. Every mutation's query has CAST; short plans lack it, as its type cannot be bound."""


@dataclass(frozen=True, slots=True)
class ScanPlan:
    """A planned scan. ``description`` and ``analysis`` (unused) belong to a MergeTree table."""

    scan: Scan
    description: TableDescription | None = None
    analysis: IndexAnalysis | None = None

    def with_relation(self, relation: PartsRelation | ArrowRelation | None) -> ScanPlan:
        """Returns the same plan for another query's relation, without its conditions (``analysis`` has them)."""
        scan = copy.copy(self.scan)
        scan.source = replace(scan.source, relation=relation)
        scan.conditions = []
        return replace(self, scan=scan)


@dataclass(frozen=True, slots=True)
class Plan:
    """A planned query. ``sql`` reads the scans by their names.

    Queries share plans: nothing in one changes.
    """

    sql: str
    is_guarded: bool
    """The query checks its memory while it runs (``sql.functions.memory_guards``)."""
    columns: tuple[tuple[str, DataType], ...]
    scans: tuple[ScanPlan, ...]
    counts_rows: bool
    first_rows: int = 0
    """Rows of a scan that may be enough (LIMIT without ORDER BY), or that show long strings. 0: unknown."""
    stored_row_result: StoredRowResult | None = None
    """How the result is read from stored values, if nothing is to be computed."""
    simple_aggregates: tuple[SimpleAggregate, ...] = ()
    """The aggregates of the result's one row, if these are simple (``sql.run.simple_aggregates``)."""
    tables: tuple[tuple[TableName, object], ...] = ()
    """In a cached plan: all tables and views that were looked up for it, with their definitions."""

    def without_tables(self, tables: Mapping[TableName, object] | None = None) -> Plan:
        """Returns the plan for the cache: without relations, so that it does not hold a dropped table."""
        return replace(
            self,
            scans=tuple(planned.with_relation(None) for planned in self.scans),
            tables=tuple((tables or {}).items()),
        )


def make_plan(tree: Query, scans: list[Scan], compiled: CompiledQuery, settings: Settings = DEFAULT_SETTINGS) -> Plan:
    """Plans a compiled query: prunes columns, analyses indexes, and finds results that need no DuckDB."""
    sql = _final_sql(compiled)
    check_macro_weight(sql)
    planned = []
    for scan in scans:
        drop_encoded_strings(scan, sql)
        drop_unused_columns(scan, sql)
        relation = scan.source.relation
        if is_parts_relation(relation):
            description = relation.description
            analysis = analyse_scan(scan, description, DUCKDB_EVALUATOR, settings)
            check_index_use(analysis, scan, description, settings)
            planned.append(ScanPlan(scan, description, analysis))
        else:
            push_conditions_to_shards(scan)
            planned.append(ScanPlan(scan))
    sql = move_values_to_scans(sql, scans)
    is_coded = any(scan.coded and not scan.parts for scan in scans)
    first_rows = FIRST_ROWS if is_coded else _first_rows(tree)
    text = sql.render({scan.source.number: scan_sql(scan) for scan in scans})
    plan = Plan(text, memory_guards.is_guarded(sql), compiled.columns, tuple(planned), False, first_rows)
    if any(scan.final for scan in scans):
        return plan  # the query sees other rows than the parts have
    return replace(
        plan,
        counts_rows=is_trivial_count(tree, scans),
        stored_row_result=find_stored_row_result(tree, scans, compiled),
        simple_aggregates=find_simple_aggregates(tree, scans, compiled),
    )


def _first_rows(tree: Query) -> int:
    if not isinstance(tree, Select) or tree.order_by or tree.order_by_all or tree.group_by or tree.distinct:
        return 0
    counts = (tree.limit, tree.offset or Literal(0))
    if not all(isinstance(count, Literal) and type(count.value) is int for count in counts):
        return 0
    return sum(count.value for count in counts if isinstance(count, Literal) and type(count.value) is int)


def _final_sql(compiled: CompiledQuery) -> Fragment:
    """Returns the statement with columns cast so that their Arrow form is (nearly) the storage form."""
    casts = [duckdb_output_type(type_) for _, type_ in compiled.columns]
    room = _row_size_column(compiled) if memory_guards.is_guarded(compiled.sql) else EMPTY
    if not any(casts) and not room:
        return compiled.sql
    columns = [
        f"CAST(c{position} AS {cast}) AS c{position}" if cast else f"c{position}" for position, cast in enumerate(casts)
    ]
    return fragment("SELECT {}{} FROM ({})", ", ".join(columns), room, compiled.sql)


def _row_size_column(compiled: CompiledQuery) -> Fragment:
    """Returns one more column: a bound on the bytes of a vector of rows with long values.

    It is a column, because a condition would be evaluated below a join that repeats the value. The executor drops it.
    """
    sizes = [_value_size(leaf(f"c{position}"), type_) for position, (_, type_) in enumerate(compiled.columns)]
    given = [fragment("coalesce({}, 0)", size) for size in sizes if size is not None]
    return fragment(", {} AS room", memory_guards.guarded_size(join_fragments(" + ", given))) if given else EMPTY


def _value_size(value: Fragment, type_: DataType) -> Fragment | None:
    """Returns the bytes of a value that may be long."""
    match type_:
        case NullableType(inner) | LowCardinalityType(inner):
            return _value_size(value, inner)
        case StringType():
            return fragment("strlen({})", value)
        case ArrayType(inner):
            size = _value_size(fragment("w"), inner)
            if size is None:
                return fragment("CAST(len({}) * 16 AS BIGINT)", value)
            longer = fragment("coalesce(list_sum(list_transform({}, lambda w: {})), 0)", value, size)
            return fragment("CAST(len({}) * 16 + {} AS BIGINT)", value, longer)
    return None


# Keeping --------------------------------------------------------------------------------------------------------------


def depends_on_text_alone(tree: Query, plan: Plan, functions: frozenset[str] = _FUNCTIONS) -> bool:
    """Returns whether the plan depends on nothing but the query's text and its tables' definitions."""
    if not plan.scans:
        return False
    # The expression of an ALIAS column may be anything.
    columns = (column for planned in plan.scans for column in planned.scan.definitions.values())
    return has_only_cacheable_nodes(tree, _NODES_OF_SEVERAL_TABLES, functions) and all(
        column.default_kind != "ALIAS" for column in columns
    )


def has_only_cacheable_nodes(
    tree: Query, nodes: tuple[type[Node], ...] = _NODES, functions: frozenset[str] = _FUNCTIONS
) -> bool:
    """Returns whether nothing in the query but its tables can mean something else the next time."""
    for node in walk(tree):
        if not isinstance(node, nodes):
            return False
        if isinstance(node, Function) and canonical_function_name(node.name) not in functions:
            return False
        if isinstance(node, NamedTable) and node.sample is not None:
            return False
        if isinstance(node, Function) and node.name in ("in", "notIn") and isinstance(node.args[-1], Identifier):
            return False  # perhaps a view
    return True


class PlanCache:
    """Plans by text; the least recently used is dropped first. Any thread may use it."""

    def __init__(self, most: int = _MOST_PLANS) -> None:
        self._plans: LruCache[tuple[str, ...], Plan] = LruCache(most)

    def find(self, key: tuple[str, ...], catalog: RelationCatalog) -> Plan | None:
        """Returns the plan over the tables as they are now. Raises the catalog's error when one is gone."""
        plan = self._plans.find(key)
        if plan is None:
            return None
        relations: dict[tuple[str, str], Any] = {}
        for name, definition in plan.tables:
            relation = catalog.relation(*name)
            if find_cacheable_definition(relation) != definition:
                self._plans.drop(key)
                return None
            relations[name[0] or key[1], name[1]] = relation
        scans = [
            planned.with_relation(relations[planned.scan.source.database or key[1], planned.scan.source.table])
            for planned in plan.scans
        ]
        return replace(plan, scans=tuple(scans))

    def keep(self, key: tuple[str, ...], tree: Query, plan: Plan, lookups: TableLookups) -> None:
        """Keeps the plan if its text and the definitions of its tables alone decide it."""
        if sum(map(len, key)) > _LONGEST_KEY or not depends_on_text_alone(tree, plan, _KEPT_FUNCTIONS):
            return
        tables = lookups.definitions()
        if tables is None or len({(name[0] or key[1], name[1]) for name in tables}) < len(tables):
            return  # a table of the session and a stored one of the same name
        self._plans.keep(key, plan.without_tables(tables))


def make_plan_key(
    query: str, database: str, zone: str, settings: Settings, parameters: Mapping[str, str] | None
) -> tuple[str, ...]:
    """Returns the cache key of a query: all that a cached plan may depend on."""
    given = (text for pair in sorted((parameters or {}).items()) for text in pair)
    return (query, database, zone, repr(settings), *given)
