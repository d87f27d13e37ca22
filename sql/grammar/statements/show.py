"""Parses SHOW. Where a system table has the answer it becomes a SELECT, as in ClickHouse."""

from __future__ import annotations

from itertools import product

from sql.grammar.common_clauses import parse_table_name
from sql.grammar.statements.create_index import build_show_index_query
from sql.grammar.statements.drop_table import refuse_other_objects
from sql.grammar.statements.link_group_statements import build_show_groups
from sql.grammar.statements.replication_links import at_link, build_show_links, parse_show_create_link
from sql.grammar.statements.statement import (
    SelectQuery,
    ShowCreateDatabase,
    ShowCreateTable,
    ShowDatabases,
    ShowProcesslist,
    ShowTables,
    Statement,
)
from sql.grammar.statements.statement_syntax import StatementSyntax
from sql.grammar.tokens import TokenStream, not_implemented, quote_string

_INDEXES = ("INDEX", "INDEXES", "INDICES", "KEYS")
_COLUMNS = """
    name AS field, type, if(startsWith(type, 'Nullable('), 'YES', 'NO') AS null,
    trim(concat(if(is_in_primary_key, 'PRI ', ''), if(is_in_sorting_key, 'SOR', ''))) AS key,
    nullIf(default_expression, '') AS default, '' AS extra
"""

_MERGES = """
    table, database, if(progress > 0, round(elapsed * (1 - progress) / progress, 2), NULL) AS estimate_complete,
    round(elapsed, 2) AS elapsed, round(progress * 100, 2) AS progress, is_mutation,
    formatReadableSize(total_size_bytes_compressed) AS size_compressed, '' AS memory_usage
"""
"""The memory of a single merge is not measured."""
_GRANTS = """
    concat('GRANT ALL ON *.* TO ', if(match(currentUser(), '^[A-Za-z_][A-Za-z0-9_]*$'), currentUser(),
    concat('`', currentUser(), '`')), ' WITH GRANT OPTION') AS GRANTS
"""
"""A user may do everything: that one is read-only is a matter of settings, which ClickHouse shows as little."""


def parse_show(stream: TokenStream) -> Statement:
    """Parses SHOW."""
    stream.next()
    if stream.accept("DATABASES") or stream.accept("SCHEMAS"):
        like, negated = _parse_like(stream)
        return ShowDatabases(like, negated)
    if stream.accept("TABLES"):
        database = _parse_database(stream)
        like, negated = _parse_like(stream)
        return ShowTables(database, like, negated)
    if stream.accept("FULL", "TABLES"):
        return _parse_full_tables(stream)
    if stream.accept("DICTIONARIES"):
        place = _parse_database_condition(stream)
        return SelectQuery(f"SELECT name FROM system.dictionaries WHERE {place} AND {_parse_condition(stream)}")
    if stream.accept("CLUSTERS"):
        condition = _parse_condition(stream, "cluster")
        return SelectQuery(f"SELECT DISTINCT cluster FROM system.clusters WHERE {condition} ORDER BY cluster")
    for kind in ("CURRENT", "ENABLED"):
        if stream.accept(kind, "ROLES"):
            return SelectQuery(f"SELECT * FROM system.{kind.lower()}_roles ORDER BY role_name")
    if stream.accept("REPLICATION", "LINK", "GROUPS"):
        return SelectQuery(build_show_groups(_parse_condition(stream)))
    if stream.accept("REPLICATION", "LINKS"):
        return SelectQuery(build_show_links(_parse_condition(stream)))
    if stream.accept("MERGES"):
        return _parse_show_merges(stream)
    if stream.accept("GRANTS"):
        return _parse_show_grants(stream)
    if stream.accept("PROCESSLIST"):
        return ShowProcesslist()
    if stream.accept("CREATE"):
        return _parse_show_create(stream)
    if stream.at("SETTINGS") or stream.at("CHANGED", "SETTINGS"):
        return _parse_show_settings(stream)
    if stream.accept("SETTING"):
        name = stream.identifier("setting name")
        return SelectQuery(f"SELECT value FROM system.settings WHERE name = {quote_string(name)}")
    if stream.accept("FUNCTIONS"):
        return SelectQuery(f"SELECT * FROM system.functions WHERE {_parse_condition(stream)} ORDER BY name")
    if stream.accept("ENGINES"):
        return SelectQuery("SELECT * FROM system.table_engines ORDER BY name")
    for extended, full, word in product(((), ("EXTENDED",)), ((), ("FULL",)), ("COLUMNS", "FIELDS")):
        if stream.accept(*extended, *full, word):
            return _parse_show_columns(stream, is_full=bool(full))
    if any(stream.accept(*extended, word) for word in _INDEXES for extended in ((), ("EXTENDED",))):
        database, table = _parse_table(stream)
        condition = stream.slice_until(_output_begins, "condition") if stream.accept("WHERE") else "1"
        return SelectQuery(build_show_index_query(database, table, condition))
    if stream.peek().kind == "word":
        raise not_implemented(f"SHOW {stream.peek().upper}")
    return stream.fail("DATABASES", "TABLES", "COLUMNS", "CREATE", "SETTINGS", "FUNCTIONS", "ENGINES", "PROCESSLIST")


def _parse_show_merges(stream: TokenStream) -> Statement:
    """``[[NOT] LIKE | ILIKE 'pattern'] [LIMIT n]``; the pattern is the table's."""
    is_like = stream.at("NOT") or stream.at("LIKE") or stream.at("ILIKE")
    condition = _parse_condition(stream, "table") if is_like else "1"
    limit = f" LIMIT {int(stream.next().text)}" if stream.accept("LIMIT") and stream.peek().text.isdecimal() else ""
    return SelectQuery(f"SELECT {_MERGES} FROM system.merges WHERE {condition} ORDER BY elapsed DESC{limit}")


def _parse_show_grants(stream: TokenStream) -> Statement:
    """``[FOR CURRENT_USER] [WITH IMPLICIT] [FINAL]``"""
    if stream.accept("FOR") and not stream.accept("CURRENT_USER"):
        raise not_implemented("SHOW GRANTS FOR another than CURRENT_USER")
    stream.accept("WITH", "IMPLICIT")
    stream.accept("FINAL")
    return SelectQuery(f"SELECT {_GRANTS}")


def _parse_show_create(stream: TokenStream) -> Statement:
    if stream.accept("DATABASE"):
        return ShowCreateDatabase(stream.identifier("database name"))
    if at_link(stream):
        return parse_show_create_link(stream)
    refuse_other_objects(stream, "SHOW CREATE")
    is_temporary = stream.at("TEMPORARY", "TABLE") and stream.accept("TEMPORARY")
    if (stream.at("TABLE") or stream.at("VIEW")) and stream.peek(1).is_identifier:
        stream.next()
    return ShowCreateTable(parse_table_name(stream), is_temporary)


def _parse_show_settings(stream: TokenStream) -> Statement:
    changed = stream.accept("CHANGED")
    stream.expect("SETTINGS")
    conditions = [_parse_condition(stream), *(["changed"] if changed else [])]
    return SelectQuery(f"SELECT name, type, value FROM system.settings WHERE {' AND '.join(conditions)}")


def _output_begins(stream: TokenStream) -> bool:
    return any(stream.at(word) for word in ("INTO", "FORMAT", "SETTINGS"))


def _parse_table(stream: TokenStream) -> tuple[str | None, str]:
    if not (stream.accept("FROM") or stream.accept("IN")):
        stream.fail("FROM")
    table = parse_table_name(stream)
    return _parse_database(stream) or table.database, table.table


def _parse_full_tables(stream: TokenStream) -> Statement:
    place = _parse_database_condition(stream)
    condition = _parse_condition(stream)
    return SelectQuery(f"SELECT name, engine FROM system.tables WHERE {place} AND {condition} ORDER BY name")


def _parse_database_condition(stream: TokenStream) -> str:
    """Returns ``[FROM | IN database]`` as a condition."""
    database = _parse_database(stream)
    return f"database = {quote_string(database) if database is not None else 'currentDatabase()'}"


def _parse_show_columns(stream: TokenStream, *, is_full: bool) -> Statement:
    database, table = _parse_table(stream)
    place = quote_string(database) if database is not None else "currentDatabase()"
    columns = f"{_COLUMNS}, NULL AS collation, comment, '' AS privileges" if is_full else _COLUMNS
    return SelectQuery(
        f"SELECT {columns} FROM system.columns WHERE database = {place} AND table = {quote_string(table)} "
        f"AND {_parse_condition(stream)} ORDER BY field"
    )


def _parse_database(stream: TokenStream) -> str | None:
    return stream.identifier("database name") if stream.accept("FROM") or stream.accept("IN") else None


def _parse_condition(stream: TokenStream, column: str = "name") -> str:
    """Returns ``[NOT] LIKE | ILIKE 'pattern'`` as a condition on ``column``."""
    negation = "NOT " if stream.accept("NOT") else ""
    for word in ("LIKE", "ILIKE"):
        if stream.accept(word):
            return f"{column} {negation}{word} {quote_string(stream.string('pattern'))}"
    if negation:
        stream.fail("LIKE", "ILIKE")
    for word in ("WHERE", "LIMIT"):
        if stream.at(word):
            raise not_implemented(f"SHOW … {word}")
    return "1"


def _parse_like(stream: TokenStream) -> tuple[str | None, bool]:
    for word in ("WHERE", "LIMIT", "ILIKE"):
        if stream.at(word) or stream.at("NOT", word):
            raise not_implemented(f"SHOW … {word}")
    negated = stream.accept("NOT")
    if negated or stream.at("LIKE"):
        stream.expect("LIKE")
        return stream.string("pattern"), negated
    return None, False


SYNTAX = (StatementSyntax(("SHOW",), parse_show),)
