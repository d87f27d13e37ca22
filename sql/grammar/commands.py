"""The short statements: DROP, RENAME, SET, OPTIMIZE, SYSTEM and their like."""

from __future__ import annotations

from sql.grammar.clauses import (
    if_exists,
    refuse_on_cluster,
    setting_value,
    table_ref,
)
from sql.grammar.plain_clauses import SettingLiteral
from sql.grammar.statements import (
    CheckTable,
    DescribeQuery,
    DescribeTable,
    DropDatabase,
    DropReplica,
    DropTable,
    ExistsDatabase,
    ExistsTable,
    KillMutation,
    KillQuery,
    OptimizeTable,
    RenameTables,
    SetSettings,
    Statement,
    SystemCommand,
    TableRef,
    TruncateTable,
    Use,
)
from sql.grammar.tokens import TokenStream, not_implemented

_OTHER_OBJECTS = frozenset(
    {
        "TEMPORARY",
        "VIEW",
        "MATERIALIZED",
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
_TABLE_COMMANDS = (
    "SYNC REPLICA", "RESTART REPLICA",
    "STOP MERGES", "START MERGES", "STOP FETCHES", "START FETCHES",
    "STOP REPLICATION QUEUES", "START REPLICATION QUEUES", "STOP REPLICATED SENDS", "START REPLICATED SENDS",
)  # fmt: skip
_PLAIN_COMMANDS = ("RESTART REPLICAS", "FLUSH LOGS")
_REQUIRE_TABLE = frozenset({"SYNC REPLICA", "RESTART REPLICA"})
_SYNC_MODES = ("STRICT", "LIGHTWEIGHT", "PULL")


def refuse_other_objects(stream: TokenStream, verb: str) -> None:
    """Views, dictionaries, users and so on: ClickHouse has them, Pando has not."""
    token = stream.peek()
    if token.kind == "word" and token.upper in _OTHER_OBJECTS and stream.peek(1).is_identifier:
        raise not_implemented(f"{verb} {token.upper}")


def drop(stream: TokenStream) -> Statement:
    verb = stream.next().upper
    detach = verb == "DETACH"
    if stream.accept("DATABASE"):
        exists = if_exists(stream)
        name = stream.identifier("database name")
        refuse_on_cluster(stream)
        _sync(stream)
        return DropDatabase(name, exists, detach)
    refuse_other_objects(stream, verb)
    stream.expect("TABLE")
    exists = if_exists(stream)
    if stream.at("IF", "EMPTY"):
        raise not_implemented(f"{verb} TABLE IF EMPTY")
    table = table_ref(stream)
    refuse_on_cluster(stream)
    if stream.at(","):
        raise not_implemented(f"{verb} of several tables in one statement")
    if stream.at("PERMANENTLY"):
        raise not_implemented("DETACH TABLE … PERMANENTLY")
    return DropTable(table, exists, detach, _sync(stream))


def _sync(stream: TokenStream) -> bool:
    return stream.accept("SYNC") or stream.accept("NO", "DELAY")


def rename(stream: TokenStream) -> Statement:
    stream.next()
    if stream.at("DATABASE"):
        raise not_implemented("RENAME DATABASE")
    refuse_other_objects(stream, "RENAME")
    stream.expect("TABLE")
    pairs: list[tuple[TableRef, TableRef]] = []
    while True:
        source = table_ref(stream)
        stream.expect("TO")
        pairs.append((source, table_ref(stream)))
        if not stream.accept(","):
            break
    refuse_on_cluster(stream)
    return RenameTables(tuple(pairs))


def truncate(stream: TokenStream) -> Statement:
    stream.next()
    if stream.at("DATABASE") or stream.at("ALL", "TABLES"):
        raise not_implemented("TRUNCATE DATABASE")
    refuse_other_objects(stream, "TRUNCATE")
    stream.accept("TABLE")
    exists = if_exists(stream)
    table = table_ref(stream)
    refuse_on_cluster(stream)
    _sync(stream)
    return TruncateTable(table, exists)


def exists(stream: TokenStream) -> Statement:
    stream.next()
    if stream.at("DATABASE") and stream.peek(1).is_identifier and stream.peek(1).upper not in ("FORMAT", "INTO"):
        stream.next()
        return ExistsDatabase(stream.identifier("database name"))
    refuse_other_objects(stream, "EXISTS")
    if stream.at("TABLE") and stream.peek(1).is_identifier:
        stream.next()
    return ExistsTable(table_ref(stream))


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
    while True:
        name = stream.identifier("setting name")
        if stream.accept("="):
            settings[name] = setting_value(stream)
        elif stream.at_end() or stream.at(","):
            settings[name] = True  # `SET name` is `SET name = 1`
        else:
            stream.fail("=")
        if not stream.accept(","):
            return SetSettings(settings)


def optimize(stream: TokenStream) -> Statement:
    stream.next()
    stream.expect("TABLE")
    table = table_ref(stream)
    refuse_on_cluster(stream)
    partition, partition_id = _partition_clause(stream)
    if stream.at("DRY", "RUN"):
        raise not_implemented("OPTIMIZE … DRY RUN")
    final = stream.accept("FINAL") or stream.accept("FORCE")
    if stream.at("CLEANUP"):
        raise not_implemented("OPTIMIZE … CLEANUP")
    deduplicate = stream.accept("DEDUPLICATE")
    columns: tuple[str, ...] = ()
    if deduplicate and stream.accept("BY"):
        columns = _deduplicate_columns(stream)
    return OptimizeTable(table, partition, partition_id, final, deduplicate, columns)


def check(stream: TokenStream) -> Statement:
    stream.next()
    if stream.at("ALL", "TABLES") or stream.at("DATABASE"):
        raise not_implemented(f"CHECK {stream.peek().upper}")
    stream.expect("TABLE")
    table = table_ref(stream)
    if stream.accept("PART"):
        return CheckTable(table, part=stream.string("part name"))
    return CheckTable(table, *_partition_clause(stream))


def _partition_clause(stream: TokenStream) -> tuple[str | None, str | None]:
    """``PARTITION value`` as SQL text, or the id of ``PARTITION ID '…'``."""
    if not stream.accept("PARTITION"):
        return None, None
    if stream.at("ID") and stream.peek(1).kind == "string":
        stream.next()
        return None, stream.string()
    return stream.slice_until(_partition_ends, "partition value"), None


def _partition_ends(stream: TokenStream) -> bool:
    token = stream.peek()
    return token.kind == "word" and token.upper in ("FINAL", "FORCE", "DEDUPLICATE", "CLEANUP", "SETTINGS", "FORMAT")


def _deduplicate_columns(stream: TokenStream) -> tuple[str, ...]:
    if stream.accept("*"):
        if stream.at("EXCEPT") or stream.at("EXCLUDE"):
            raise not_implemented("DEDUPLICATE BY * EXCEPT")
        return ()
    if stream.at("COLUMNS", "("):
        raise not_implemented("DEDUPLICATE BY COLUMNS(…)")
    names = [stream.identifier("column name")]
    while stream.accept(","):
        names.append(stream.identifier("column name"))
    return tuple(names)


def system(stream: TokenStream) -> Statement:
    stream.next()
    if stream.accept("DROP", "REPLICA"):
        return _drop_replica(stream)
    for command in _PLAIN_COMMANDS:
        if stream.accept(*command.split()):
            return SystemCommand(command)
    for command in _TABLE_COMMANDS:
        if not stream.accept(*command.split()):
            continue
        refuse_on_cluster(stream)
        if command in _REQUIRE_TABLE:
            if_exists(stream)
        if command not in _REQUIRE_TABLE and (stream.at_end() or not stream.peek().is_identifier):
            return SystemCommand(command)
        table = table_ref(stream)
        argument = ""
        if command == "SYNC REPLICA" and stream.peek().kind == "word" and stream.peek().upper in _SYNC_MODES:
            argument = stream.next().upper
            if argument == "LIGHTWEIGHT" and stream.at("FROM"):
                raise not_implemented("SYSTEM SYNC REPLICA … LIGHTWEIGHT FROM")
        return SystemCommand(command, table, argument)
    if stream.peek().kind == "word":
        words: list[str] = []
        while stream.peek().kind == "word" and len(words) < 3:
            words.append(stream.next().upper)
        raise not_implemented(f"SYSTEM {' '.join(words)}")
    return stream.fail(*_TABLE_COMMANDS, *_PLAIN_COMMANDS)


def _drop_replica(stream: TokenStream) -> Statement:
    refuse_on_cluster(stream)
    replica = stream.string("replica name")
    if stream.accept("FROM", "TABLE"):
        return DropReplica(replica, table=table_ref(stream))
    if stream.accept("FROM", "DATABASE"):
        return DropReplica(replica, database=stream.identifier("database name"))
    if stream.accept("FROM", "ZKPATH"):
        return DropReplica(replica, zookeeper_path=stream.string("path of the table in ZooKeeper"))
    return DropReplica(replica)


def kill(stream: TokenStream) -> Statement:
    stream.next()
    if stream.accept("MUTATION"):
        return _kill_mutation(stream)
    if not stream.at("QUERY"):
        raise not_implemented(f"KILL {stream.peek().upper}")
    stream.next()
    refuse_on_cluster(stream)
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
    refuse_on_cluster(stream)
    stream.expect("WHERE")
    condition = stream.slice_until(_kill_ends, "condition")
    is_test = stream.accept("TEST")
    if not is_test and not stream.accept("SYNC"):
        stream.accept("ASYNC")
    return KillMutation(condition, is_test)


def _kill_ends(stream: TokenStream) -> bool:
    token = stream.peek()
    return token.kind == "word" and token.upper in ("SYNC", "ASYNC", "TEST", "FORMAT", "SETTINGS")
