"""The short statements: DROP, RENAME, SET, CHECK and their like."""

from __future__ import annotations

from parts.common.errors import UserError
from sql.grammar.clause_types import (
    SettingLiteral,
    TableRef,
)
from sql.grammar.common_clauses import if_exists, on_cluster, parameter_text, setting_value, table_ref
from sql.grammar.statements.create_index import drop_index
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
from sql.grammar.statements.system_statements import partition_clause
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
    return stream.at("VIEW") or stream.at("MATERIALIZED", "VIEW")


def refuse_other_objects(stream: TokenStream, verb: str) -> None:
    """Dictionaries, users and so on: ClickHouse has them, Pando has not."""
    token = stream.peek()
    if token.kind == "word" and token.upper in _OTHER_OBJECTS and stream.peek(1).is_identifier:
        raise not_implemented(f"{verb} {token.upper}")


def drop(stream: TokenStream) -> Statement:
    verb = stream.next().upper
    detach = verb == "DETACH"
    if stream.accept("DATABASE"):
        exists = if_exists(stream)
        name = stream.identifier("database name")
        on_cluster(stream)
        if detach and stream.at("PERMANENTLY"):
            raise not_implemented("DETACH PERMANENTLY of a database")
        _sync(stream)
        return DropDatabase(name, exists, detach)
    if not detach and stream.at("INDEX"):
        return drop_index(stream)
    refuse_other_objects(stream, verb)
    is_view = stream.accept("VIEW")
    is_temporary = stream.accept("TEMPORARY")
    if not is_view:
        stream.expect("TABLE")
    exists = if_exists(stream)
    if stream.at("IF", "EMPTY"):
        raise not_implemented(f"{verb} TABLE IF EMPTY")
    table = table_ref(stream)
    others: list[TableRef] = []
    while stream.accept(","):
        others.append(table_ref(stream))
    on_cluster(stream)
    permanently = detach and stream.accept("PERMANENTLY")
    return DropTable(table, exists, detach, _sync(stream), tuple(others), is_temporary, is_view, permanently)


def _sync(stream: TokenStream) -> bool:
    return stream.accept("SYNC") or stream.accept("NO", "DELAY")


def rename(stream: TokenStream) -> Statement:
    stream.next()
    if stream.at("DATABASE"):
        raise not_implemented("RENAME DATABASE")
    refuse_other_objects(stream, "RENAME")
    stream.expect("TABLE")
    pairs: list[tuple[TableRef, TableRef]] = []
    optional: set[int] = set()
    while not pairs or stream.accept(","):
        if if_exists(stream):
            optional.add(len(pairs))
        pairs.append(_pair(stream, "TO"))
    on_cluster(stream)
    return RenameTables(tuple(pairs), frozenset(optional))


def exchange(stream: TokenStream) -> Statement:
    stream.next()
    if stream.at("DICTIONARIES"):
        raise not_implemented("EXCHANGE DICTIONARIES")
    stream.expect("TABLES")
    pairs = [_pair(stream, "AND")]
    while stream.accept(","):
        pairs.append(_pair(stream, "AND"))
    on_cluster(stream)
    return ExchangeTables(tuple(pairs))


def _pair(stream: TokenStream, between: str) -> tuple[TableRef, TableRef]:
    first = table_ref(stream)
    stream.expect(between)
    return first, table_ref(stream)


def truncate(stream: TokenStream) -> Statement:
    stream.next()
    if stream.at("DATABASE") or stream.at("ALL", "TABLES"):
        raise not_implemented("TRUNCATE DATABASE")
    refuse_other_objects(stream, "TRUNCATE")
    stream.accept("TEMPORARY")
    stream.accept("TABLE")
    exists = if_exists(stream)
    table = table_ref(stream)
    on_cluster(stream)
    _sync(stream)
    return TruncateTable(table, exists)


def exists(stream: TokenStream) -> Statement:
    stream.next()
    if stream.at("DATABASE") and stream.peek(1).is_identifier and stream.peek(1).upper not in ("FORMAT", "INTO"):
        stream.next()
        return ExistsDatabase(stream.identifier("database name"))
    refuse_other_objects(stream, "EXISTS")
    is_temporary = stream.at("TEMPORARY") and stream.peek(1).is_identifier and stream.accept("TEMPORARY")
    is_view = stream.at("VIEW") and stream.peek(1).is_identifier
    if is_view or (stream.at("TABLE") and stream.peek(1).is_identifier):
        stream.next()
    return ExistsTable(table_ref(stream), is_temporary, is_view)


def describe_table(stream: TokenStream) -> Statement:
    start = stream.peek().start
    table = table_ref(stream)
    if not stream.at("("):
        return DescribeTable(table)
    stream.skip_group()  # a table function
    return DescribeQuery(f"SELECT * FROM {stream.text[start : stream.position]}")


def use(stream: TokenStream) -> Statement:
    stream.next()
    if stream.at("DATABASE") and stream.peek(1).is_identifier:
        stream.next()
    return Use(stream.identifier("database name"))


def set_settings(stream: TokenStream) -> Statement:
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
            parameters[name.removeprefix("param_")] = parameter_text(stream)
        elif stream.accept("="):
            settings[name] = setting_value(stream)
        elif stream.at_end() or stream.at(","):
            settings[name] = True  # `SET name` is `SET name = 1`
        else:
            stream.fail("=")
        if not stream.accept(","):
            return SetSettings(settings, parameters)


def check(stream: TokenStream) -> Statement:
    stream.next()
    if stream.at("ALL", "TABLES") or stream.at("DATABASE"):
        raise not_implemented(f"CHECK {stream.peek().upper}")
    stream.expect("TABLE")
    table = table_ref(stream)
    if stream.accept("PART"):
        return CheckTable(table, part=stream.string("part name"))
    return CheckTable(table, *partition_clause(stream))


def kill(stream: TokenStream) -> Statement:
    stream.next()
    if stream.accept("MUTATION"):
        return _kill_mutation(stream)
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


def _kill_mutation(stream: TokenStream) -> Statement:
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
