"""Parses the short statements.

They are DROP, RENAME, EXCHANGE, TRUNCATE, EXISTS, DESCRIBE, USE, SET, CHECK and KILL.
"""

from __future__ import annotations

from parts.common.errors import UserError
from sql.grammar.clause_types import (
    SettingLiteral,
    TableRef,
)
from sql.grammar.common_clauses import (
    accept_if_exists,
    on_cluster,
    parse_parameter_value,
    parse_setting_literal,
    parse_table_name,
    slice_query,
)
from sql.grammar.statements.create_index import parse_drop_index
from sql.grammar.statements.replication_links import at_link, parse_drop_link
from sql.grammar.statements.statement import (
    CheckTable,
    DescribeQuery,
    DescribeTable,
    DropDatabase,
    DropTable,
    ExchangeTables,
    ExistsDatabase,
    ExistsTable,
    KillMutation,
    KillQuery,
    RenameTables,
    SetSettings,
    Statement,
    TruncateTable,
    Use,
)
from sql.grammar.statements.statement_syntax import StatementSyntax
from sql.grammar.statements.system_statements import parse_partition_clause
from sql.grammar.tokens import TokenStream, not_implemented

_OTHER_OBJECTS = frozenset(
    {
        "DICTIONARY",
        "FUNCTION",
        "USER",
        "ROLE",
        "ROW",
        "POLICY",
        "QUOTA",
        "PROFILE",
        "NAMED",
        "INDEX",
        "WORKLOAD",
        "RESOURCE",
        "ALL",
        "TABLES",
        "LIVE",
        "WINDOW",
    }
)


def at_view(stream: TokenStream) -> bool:
    """Returns whether VIEW or MATERIALIZED VIEW comes next."""
    return stream.at("VIEW") or stream.at("MATERIALIZED", "VIEW")


def refuse_other_objects(stream: TokenStream, verb: str) -> None:
    """Raises 48 (NOT_IMPLEMENTED) for objects that Pando lacks: dictionaries, users and so on."""
    token = stream.peek()
    if token.kind == "word" and token.upper in _OTHER_OBJECTS and stream.peek(1).is_identifier:
        raise not_implemented(f"{verb} {token.upper}")


def parse_drop(stream: TokenStream) -> Statement:
    """Parses DROP and DETACH of tables, views and databases."""
    verb = stream.next().upper
    detach = verb == "DETACH"
    if stream.accept("DATABASE"):
        exists = accept_if_exists(stream)
        name = stream.identifier("database name")
        on_cluster(stream)
        if detach and stream.at("PERMANENTLY"):
            raise not_implemented("DETACH PERMANENTLY of a database")
        _accept_sync(stream)
        return DropDatabase(name, exists, detach)
    if not detach and at_link(stream):
        return parse_drop_link(stream)
    if not detach and stream.at("INDEX"):
        return parse_drop_index(stream)
    refuse_other_objects(stream, verb)
    is_view = stream.accept("VIEW")
    is_temporary = stream.accept("TEMPORARY")
    if not is_view:
        stream.expect("TABLE")
    exists = accept_if_exists(stream)
    if stream.at("IF", "EMPTY"):
        raise not_implemented(f"{verb} TABLE IF EMPTY")
    table = parse_table_name(stream)
    others: list[TableRef] = []
    while stream.accept(","):
        others.append(parse_table_name(stream))
    on_cluster(stream)
    permanently = detach and stream.accept("PERMANENTLY")
    return DropTable(table, exists, detach, _accept_sync(stream), tuple(others), is_temporary, is_view, permanently)


def _accept_sync(stream: TokenStream) -> bool:
    return stream.accept("SYNC") or stream.accept("NO", "DELAY")


def parse_rename(stream: TokenStream) -> Statement:
    """Parses RENAME TABLE."""
    stream.next()
    if stream.at("DATABASE"):
        raise not_implemented("RENAME DATABASE")
    refuse_other_objects(stream, "RENAME")
    stream.expect("TABLE")
    pairs: list[tuple[TableRef, TableRef]] = []
    optional: set[int] = set()
    while not pairs or stream.accept(","):
        if accept_if_exists(stream):
            optional.add(len(pairs))
        pairs.append(_parse_pair(stream, "TO"))
    on_cluster(stream)
    return RenameTables(tuple(pairs), frozenset(optional))


def parse_exchange(stream: TokenStream) -> Statement:
    """Parses EXCHANGE TABLES."""
    stream.next()
    if stream.at("DICTIONARIES"):
        raise not_implemented("EXCHANGE DICTIONARIES")
    stream.expect("TABLES")
    pairs = [_parse_pair(stream, "AND")]
    while stream.accept(","):
        pairs.append(_parse_pair(stream, "AND"))
    on_cluster(stream)
    return ExchangeTables(tuple(pairs))


def _parse_pair(stream: TokenStream, between: str) -> tuple[TableRef, TableRef]:
    first = parse_table_name(stream)
    stream.expect(between)
    return first, parse_table_name(stream)


def parse_truncate(stream: TokenStream) -> Statement:
    """Parses TRUNCATE TABLE."""
    stream.next()
    if stream.at("DATABASE") or stream.at("ALL", "TABLES"):
        raise not_implemented("TRUNCATE DATABASE")
    refuse_other_objects(stream, "TRUNCATE")
    stream.accept("TEMPORARY")
    stream.accept("TABLE")
    exists = accept_if_exists(stream)
    table = parse_table_name(stream)
    on_cluster(stream)
    _accept_sync(stream)
    return TruncateTable(table, exists)


def parse_exists(stream: TokenStream) -> Statement:
    """Parses EXISTS of a table, view or database."""
    stream.next()
    if stream.at("DATABASE") and stream.peek(1).is_identifier and stream.peek(1).upper not in ("FORMAT", "INTO"):
        stream.next()
        return ExistsDatabase(stream.identifier("database name"))
    refuse_other_objects(stream, "EXISTS")
    is_temporary = stream.at("TEMPORARY") and stream.peek(1).is_identifier and stream.accept("TEMPORARY")
    is_view = stream.at("VIEW") and stream.peek(1).is_identifier
    if is_view or (stream.at("TABLE") and stream.peek(1).is_identifier):
        stream.next()
    return ExistsTable(parse_table_name(stream), is_temporary, is_view)


def parse_describe(stream: TokenStream) -> Statement:
    """Parses DESCRIBE of a query, a table or a table function."""
    stream.next()
    stream.accept("TABLE")
    if stream.at("SELECT") or stream.at("WITH"):
        return DescribeQuery(slice_query(stream))
    if stream.at("("):
        text = slice_query(stream)
        return DescribeQuery(text[1:-1].strip() if text.endswith(")") else text)
    start = stream.peek().start
    table = parse_table_name(stream)
    if not stream.at("("):
        return DescribeTable(table)
    stream.skip_group()  # a table function
    return DescribeQuery(f"SELECT * FROM {stream.text[start : stream.position]}")


def parse_use(stream: TokenStream) -> Statement:
    """Parses USE."""
    stream.next()
    if stream.at("DATABASE") and stream.peek(1).is_identifier:
        stream.next()
    return Use(stream.identifier("database name"))


def parse_set(stream: TokenStream) -> Statement:
    """Parses SET of settings and of query parameters (``param_name``)."""
    stream.next()
    for words in (("TRANSACTION",), ("ROLE",), ("DEFAULT", "ROLE"), ("TIME", "ZONE")):
        if stream.at(*words) and stream.peek(len(words)).text != "=":
            raise not_implemented(f"SET {' '.join(words)}")
    settings: dict[str, SettingLiteral] = {}
    parameters: dict[str, str] = {}
    while True:
        name = stream.identifier("setting name")
        if name.startswith("param_") and stream.accept("="):
            if name == "param_":
                raise UserError("BAD_ARGUMENTS", "SET param_: the name of the query parameter is missing")
            parameters[name.removeprefix("param_")] = parse_parameter_value(stream)
        elif stream.accept("="):
            settings[name] = parse_setting_literal(stream)
        elif stream.is_at_end() or stream.at(","):
            settings[name] = True  # `SET name` is `SET name = 1`
        else:
            stream.fail("=")
        if not stream.accept(","):
            return SetSettings(settings, parameters)


def parse_check_table(stream: TokenStream) -> Statement:
    """Parses CHECK TABLE."""
    stream.next()
    if stream.at("ALL", "TABLES") or stream.at("DATABASE"):
        raise not_implemented(f"CHECK {stream.peek().upper}")
    stream.expect("TABLE")
    table = parse_table_name(stream)
    if stream.accept("PART"):
        return CheckTable(table, part=stream.string("part name"))
    return CheckTable(table, *parse_partition_clause(stream))


def parse_kill(stream: TokenStream) -> Statement:
    """Parses KILL QUERY and KILL MUTATION."""
    stream.next()
    if stream.accept("MUTATION"):
        return _parse_kill_mutation(stream)
    if not stream.at("QUERY"):
        raise not_implemented(f"KILL {stream.peek().upper}")
    stream.next()
    on_cluster(stream)
    stream.expect("WHERE")
    if not stream.accept("query_id".upper()):
        raise not_implemented("KILL QUERY by another condition than query_id = '…'")
    stream.expect("=")
    query_id = stream.string("the query id")
    if stream.at("TEST"):
        raise not_implemented("KILL QUERY … TEST")
    if not stream.accept("SYNC"):
        stream.accept("ASYNC")
    return KillQuery(query_id)


def _parse_kill_mutation(stream: TokenStream) -> Statement:
    on_cluster(stream)
    stream.expect("WHERE")
    condition = stream.slice_until(_kill_ends, "condition")
    is_test = stream.accept("TEST")
    if not is_test and not stream.accept("SYNC"):
        stream.accept("ASYNC")
    return KillMutation(condition, is_test)


def _kill_ends(stream: TokenStream) -> bool:
    token = stream.peek()
    return token.kind == "word" and token.upper in ("SYNC", "ASYNC", "TEST", "FORMAT", "SETTINGS")


SYNTAX = (
    StatementSyntax(("DROP", "DETACH"), parse_drop),
    StatementSyntax(("RENAME",), parse_rename),
    StatementSyntax(("EXCHANGE",), parse_exchange),
    StatementSyntax(("TRUNCATE",), parse_truncate),
    StatementSyntax(("EXISTS",), parse_exists),
    StatementSyntax(("DESCRIBE", "DESC"), parse_describe),
    StatementSyntax(("USE",), parse_use),
    StatementSyntax(("SET",), parse_set),
    StatementSyntax(("CHECK",), parse_check_table),
    StatementSyntax(("KILL",), parse_kill),
)
