"""CREATE INDEX and DROP INDEX: what SQL calls ALTER TABLE … ADD and DROP INDEX, and SHOW INDEX."""

from __future__ import annotations

from parts.common.errors import UserError
from sql.grammar.clause_types import IndexClause, TableRef
from sql.grammar.common_clauses import accept_if_exists, accept_if_not_exists, on_cluster, parse_table_name
from sql.grammar.statements.alter_commands import AddIndex, DropIndex
from sql.grammar.statements.statement import AlterTable, Statement
from sql.grammar.table_elements.indexes import parse_index_type
from sql.grammar.tokens import TokenStream, not_implemented, quote_string

_PRIMARY = """
    SELECT name AS table, 1 AS non_unique, 'PRIMARY' AS key_name, toUInt64(number) AS seq_in_index, pk_col,
        toNullable('A') AS collation, 0 AS cardinality, NULL AS sub_part, NULL AS packed, NULL AS null,
        'PRIMARY' AS index_type, '' AS comment, '' AS index_comment, 'YES' AS visible, '' AS expression
    FROM system.tables
    ARRAY JOIN splitByString(', ', primary_key) AS pk_col, arrayEnumerate(splitByString(', ', primary_key)) AS number
"""
_OTHERS = """
    SELECT table, 1, name, toUInt64(1), '', NULL, 0, NULL, NULL, NULL, upper(type), '', '', 'YES', expr
    FROM system.data_skipping_indices
"""


def parse_create_index(stream: TokenStream) -> Statement:
    """Parses CREATE INDEX, which is ALTER TABLE … ADD INDEX."""
    if stream.accept("UNIQUE"):
        raise not_implemented("CREATE UNIQUE INDEX")
    stream.expect("INDEX")
    exists = accept_if_not_exists(stream)
    name = stream.identifier("index name")
    table = _parse_on_table(stream)
    expression = _read_expression(stream)
    if not stream.at("TYPE"):
        raise UserError("INCORRECT_QUERY", f"CREATE INDEX {name} without TYPE is forbidden: name one, as TYPE minmax")
    type_, arguments, granularity = parse_index_type(stream, name)
    return AlterTable(table, (AddIndex(IndexClause(name, expression, type_, arguments, granularity), None, exists),))


def parse_drop_index(stream: TokenStream) -> Statement:
    """Parses DROP INDEX, which is ALTER TABLE … DROP INDEX."""
    stream.expect("INDEX")
    exists = accept_if_exists(stream)
    name = stream.identifier("index name")
    return AlterTable(_parse_on_table(stream), (DropIndex(name, exists),))


def _parse_on_table(stream: TokenStream) -> TableRef:
    stream.expect("ON")
    table = parse_table_name(stream)
    on_cluster(stream)
    return table


def _read_expression(stream: TokenStream) -> str:
    """Parses one expression, or ``(a, f(b) DESC)``, whose ASC and DESC are ignored."""
    if not stream.accept("("):
        return stream.slice_until(lambda inner: inner.at("TYPE"), "index expression")
    elements = [_read_element(stream)]
    while stream.accept(","):
        elements.append(_read_element(stream))
    stream.expect(")")
    return elements[0] if len(elements) == 1 else f"({', '.join(elements)})"


def _read_element(stream: TokenStream) -> str:
    text = stream.slice_until(lambda inner: any(inner.at(end) for end in (",", "ASC", "DESC")), "index expression")
    if not stream.accept("ASC"):
        stream.accept("DESC")
    return text


def build_show_index_query(database: str | None, table: str, condition: str) -> str:
    """Returns the SELECT that answers SHOW INDEX."""
    place = quote_string(database) if database is not None else "currentDatabase()"
    name = quote_string(table)
    return (
        f"SELECT * FROM ({_PRIMARY} WHERE database = {place} AND name = {name} UNION ALL "
        f"{_OTHERS} WHERE database = {place} AND table = {name}) WHERE {condition} "
        "ORDER BY index_type, expression, seq_in_index, key_name"
    )
