"""Prunes by the text of a condition, without a query."""

from __future__ import annotations

from parts.table.table_description import TableDescription, TableSchema
from sql.compile.compiled_query import Scan
from sql.compile.expressions.expressions import ExpressionCompiler
from sql.compile.names.scope import Scope, table_source
from sql.functions.registry import Environment
from sql.grammar.queries.query_parser import parse_expression
from sql.grammar.syntax_tree import conjuncts
from sql.pruning.index_analysis import IndexAnalysis, build_index_analysis
from sql.pruning.row_prefilter import RowPrefilter, build_row_prefilter
from sql.run.block_expressions import DUCKDB_EVALUATOR


def analyse_condition(where: str, description: TableDescription, zone: str = "UTC") -> IndexAnalysis:
    """Builds the conditions on a table's indexes. Raises ``UserError`` for what is no expression."""
    environment = Environment(zone)
    return build_index_analysis(
        _make_scan(where, description.schema, environment), description, environment, DUCKDB_EVALUATOR
    )


def build_quick_filter(where: str, schema: TableSchema, zone: str = "UTC") -> RowPrefilter | None:
    """Builds a filter that leaves out most of the rows for which the condition is not true, and is quick.

    ``None`` if there is none.
    """
    environment = Environment(zone)
    return build_row_prefilter(_make_scan(where, schema, environment), schema, (), environment, DUCKDB_EVALUATOR)


def _make_scan(where: str, schema: TableSchema, environment: Environment) -> Scan:
    source = table_source(schema)
    scan = Scan(source)
    compiler = ExpressionCompiler(Scope([source]), environment)
    if where.strip():
        scan.conditions.extend((term, compiler) for term in conjuncts(parse_expression(where)))
    return scan
