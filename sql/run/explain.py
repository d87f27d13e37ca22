"""Writes EXPLAIN PLAN, SYNTAX and AST as lines of text in ClickHouse's style.

With ``indexes = 1`` PLAN shows what each index pruned.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from parts.common.errors import UserError
from sql.compile.compiled_query import CompiledQuery, Scan
from sql.compile.query_compiler import QueryCompiler
from sql.grammar.password_hiding import hide_passwords
from sql.grammar.queries.query_parser import parse_query
from sql.grammar.syntax_tree import Function, Identifier, Join, Literal, Node, Query, Select, Union, children, walk
from sql.grammar.tokens import TokenStream
from sql.pruning.index_analysis import IndexAnalysis, IndexUse, analyse_scan
from sql.relations import PartsRelation, is_parts_relation
from sql.run.block_expressions import DUCKDB_EVALUATOR

_KEYWORD_TEXT = """
select distinct from where prewhere group by having order limit offset union all as and or not in on using join inner
left right full cross any asof semi anti array with totals rollup cube asc desc nulls first last settings format case
when then else end between like ilike is null interval over partition rows range final sample window qualify
"""
_KEYWORDS = frozenset(_KEYWORD_TEXT.split())


def write_explain_lines(
    query: str, kind: str, options: Mapping[str, object], compiler: QueryCompiler, compiled: CompiledQuery
) -> list[str]:
    """Returns the lines of EXPLAIN. Raises ``UserError`` 48 for the kinds that Pando lacks."""
    name = kind.strip().upper() or "PLAN"
    if name == "PLAN":
        indexes = str(options.get("indexes", 0)) in ("1", "True", "true")
        return list(_plan(parse_query(query), compiler, indexes))
    if name == "SYNTAX":
        return _syntax(hide_passwords(query))
    if name == "AST":
        return list(_tree(parse_query(hide_passwords(query)), 0))
    raise UserError("NOT_IMPLEMENTED", f"EXPLAIN {name} is not supported (PLAN, SYNTAX and AST are)")


# PLAN -----------------------------------------------------------------------------------------------------------------


def _plan(query: Query, compiler: QueryCompiler, indexes: bool) -> Iterator[str]:
    depth = 0
    for step in _steps(query):
        yield "  " * depth + step
        depth += 1
    for scan in compiler.scans:
        relation = scan.source.relation
        name = f"{scan.source.database}.{scan.source.table}"
        if not is_parts_relation(relation):
            yield "  " * depth + f"ReadFromTable ({name})"
            continue
        yield "  " * depth + f"ReadFromMergeTree ({name})"
        if indexes:
            yield from ("  " * depth + line for line in _index_lines(scan, relation))


def _steps(query: Query) -> list[str]:
    if isinstance(query, Union):
        return [query.operators[0].split()[0].capitalize()]
    assert isinstance(query, Select)
    steps = ["Expression ((Project names + Projection))"]
    if query.limit is not None:
        steps.append("Limit (preliminary LIMIT)")
    if query.order_by or query.order_by_all:
        steps.append("Sorting (Sorting for ORDER BY)")
    if query.distinct:
        steps.append("Distinct (Preliminary DISTINCT)")
    if query.having is not None:
        steps.append("Filter (HAVING)")
    if query.group_by or any(isinstance(n, Function) and n.name == "count" for e in query.expressions for n in walk(e)):
        steps.append("Aggregating")
    if query.where is not None or query.prewhere is not None:
        steps.append("Filter (WHERE)")
    if isinstance(query.source, Join):
        steps.append("Join (JOIN FillRightFirst)")
    return steps


def _index_lines(scan: Scan, relation: PartsRelation) -> Iterator[str]:
    snapshot = relation.snapshot()
    try:
        analysis: IndexAnalysis = analyse_scan(scan, relation.description, DUCKDB_EVALUATOR)
        analysis.prune(snapshot.parts)
    finally:
        snapshot.release()
    if analysis.uses:
        yield "Indexes:"
    for use in analysis.uses:
        yield from _use_lines(use)


def _use_lines(use: IndexUse) -> Iterator[str]:
    yield f"  {use.kind}"
    if use.index is not None:
        yield f"    Name: {use.index.name}"
        yield f"    Description: {use.index.kind} GRANULARITY {use.index.granularity}"
        if use.index.kind == "minmax":
            yield f"    Condition: {use.condition}"
    elif use.condition != "true":
        yield "    Keys: "
        for key in use.keys:
            yield f"      {key}"
    if use.index is None:
        yield f"    Condition: {use.condition}"
    yield f"    Parts: {use.parts[0]}/{use.parts[1]}"
    yield f"    Granules: {use.granules[0]}/{use.granules[1]}"


# SYNTAX and AST -------------------------------------------------------------------------------------------------------

_NEW_LINE = frozenset({"FROM", "WHERE", "PREWHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "UNION", "SETTINGS"})


def _syntax(query: str) -> list[str]:
    """Writes the query with keywords in upper case and its main clauses on lines of their own."""
    stream = TokenStream(query)
    lines: list[str] = [""]
    depth = 0
    previous = ""
    while not stream.is_at_end():
        token = stream.next()
        text = token.text.upper() if token.kind == "word" and token.text.lower() in _KEYWORDS else token.text
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(text, 0)
        if depth == 0 and text in _NEW_LINE and token.kind == "word" and lines[-1]:
            lines.append(text)
        else:
            glued = not lines[-1] or text in (",", ")", "]", ".", "::", "(") or previous in ("(", "[", ".", "::")
            glued = glued and not (text == "(" and previous.upper() in ("IN", "AS", "FROM", "AND", "OR", ",", "JOIN"))
            lines[-1] += text if glued else f" {text}"
        previous = text
    return lines


def _tree(node: Node, depth: int) -> Iterator[str]:
    label = type(node).__name__
    if isinstance(node, Function):
        label = f"Function {node.name}"
    elif isinstance(node, Identifier):
        label = f"Identifier {'.'.join(node.parts)}"
    elif isinstance(node, Literal):
        label = f"Literal {node.value!r}"
    yield " " * depth + label
    for child in children(node):
        yield from _tree(child, depth + 1)
