"""Prunes by the text of a condition, without a query."""

from __future__ import annotations

from parts.table.table_description import TableDescription
from sql.compile.compiled_query import Scan
from sql.compile.expressions.expressions import ExpressionCompiler
from sql.compile.names.scope import Scope, table_source
from sql.functions.registry import Environment
from sql.grammar.queries.query_parser import parse_expression
from sql.grammar.syntax_tree import conjuncts
from sql.pruning.index_analysis import IndexAnalysis, build_index_analysis
from sql.run.block_expressions import DUCKDB_EVALUATOR


def analyse_condition(where: str, description: TableDescription, zone: str = "UTC") -> IndexAnalysis:
    """Builds the conditions on a table's indexes. Raises ``UserError`` for what is no expression."""
    source = table_source(description.schema)
    scan = Scan(source)
    environment = Environment(zone)
    compiler = ExpressionCompiler(Scope([source]), environment)
    if where.strip():
        scan.conditions.extend((term, compiler) for term in conjuncts(parse_expression(where)))
    return build_index_analysis(scan, description, environment, DUCKDB_EVALUATOR)
