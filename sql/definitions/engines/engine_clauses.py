"""The engine clause: which engines there are, the deprecated argument list, and the place of a replica in ZooKeeper.

The deprecated syntax put the keys into the engine's arguments::

    MergeTree(EventDate[, sampling], (key, …), index_granularity)
    ReplicatedMergeTree('path', 'replica', EventDate[, sampling], (key, …), index_granularity)

A table keeps the syntax that it was made in. :func:`convert_deprecated_syntax` turns it into clauses (PARTITION BY
toYYYYMM(EventDate), ORDER BY, SAMPLE BY, SETTINGS), so that what describes the parts knows one syntax.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from parts.common.errors import UserError
from parts.merge.modes import MODES, ModeOfEngine
from sql.compile.names.column_names import canonical_text
from sql.definitions.engines.proxy_engines import PROXY_ENGINES, check_proxy_engine
from sql.definitions.engines.small_engines import SMALL_ENGINES, check_small_engine
from sql.grammar.queries.query_parser import parse_expression
from sql.grammar.statements.statement import CreateTable, EngineClause
from sql.grammar.syntax_tree import Function, Identifier
from sql.grammar.tokens import (
    not_implemented,
    quote_identifier_if_needed,
    quote_string,
    unquote_identifier,
    unquote_string,
)

MERGE_TREE_ENGINES = tuple(f"{prefix}{engine}" for engine in MODES for prefix in ("", "Replicated"))
_FAMILY = re.compile(
    r"(?:Replicated|Shared)?"
    r"(?:Replacing|Summing|Aggregating|Collapsing|VersionedCollapsing|Graphite|Coalescing)?MergeTree\Z"
)
_OTHER_ENGINES = frozenset(
    {
        "Set",
        "Join",
        "Buffer",
        "Dictionary",
        "File",
        "URL",
        "View",
        "MaterializedView",
        "Kafka",
        "MySQL",
        "PostgreSQL",
        "S3",
        "HDFS",
        "MongoDB",
        "Redis",
        "EmbeddedRocksDB",
        "KeeperMap",
        "GenerateRandom",
        "Iceberg",
        "DeltaLake",
    }
)
_MACRO = re.compile(r"\{([^{}]*)\}")
_MAX_MACRO_ROUNDS = 10
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*\Z|`(?:[^`\\]|\\.)+`\Z")


DEFAULT_ZOOKEEPER = "default"
"""The name of the one in ``zookeeper``; others are in ``auxiliary_zookeepers``."""


@dataclass(frozen=True, slots=True)
class ReplicaLocation:
    """Where a replicated table lives in ZooKeeper, macros substituted."""

    zookeeper_path: str
    replica_name: str
    zookeeper_name: str = DEFAULT_ZOOKEEPER


def split_zookeeper(path: str) -> tuple[str, str]:
    """The name of the ZooKeeper and the path, without ``/`` at its end, of ``/path`` or ``name:/path``.

    Raises ``UserError`` 36 for anything else."""
    name, colon, rest = path.partition(":/")
    if not colon or "/" in name:
        name, rest = DEFAULT_ZOOKEEPER, path
    else:
        rest = f"/{rest}"
    if not name or not rest.startswith("/"):
        raise UserError(
            "BAD_ARGUMENTS",
            f"A path in ZooKeeper must begin with '/' or '<name of an auxiliary ZooKeeper>:/', not {path!r}",
        )
    return name, rest.rstrip("/")


def is_replicated(create: CreateTable) -> bool:
    return create.view is None and create.engine is not None and create.engine.name.startswith("Replicated")


def find_merge_mode(engine: str) -> ModeOfEngine:
    return MODES[engine.removeprefix("Replicated")]


def list_mode_columns(engine: EngineClause) -> tuple[str, ...]:
    """The columns, or the section of the configuration, that the arguments of the merge mode name, behind a replicated
    engine's path and replica name."""
    mode = find_merge_mode(engine.name)
    if mode.takes_section:
        return (_section(engine),)
    found: list[str] = []
    for text in _own_arguments(engine):
        items = _items(text) if mode.takes_list else [text]
        for item in items:
            node = parse_expression(item)
            if not isinstance(node, Identifier) or len(node.parts) != 1:
                raise UserError(
                    "BAD_ARGUMENTS", f"An argument of engine {engine.name} must be the name of a column, not {item}"
                )
            found.append(node.parts[0])
    return tuple(found)


def _section(engine: EngineClause) -> str:
    *_, text = ("", *_own_arguments(engine))
    if not text.startswith("'"):
        raise UserError(
            "BAD_ARGUMENTS",
            f"Last parameter of {engine.name} must be name (in single quotes) of element in configuration file with "
            f"Graphite options, not {text}",
        )
    return unquote_string(text)


def _items(text: str) -> list[str]:
    """``(a, b)`` are two."""
    node = parse_expression(text)
    if isinstance(node, Function) and node.name == "tuple":
        return [canonical_text(argument) for argument in node.args]
    return [text]


def _own_arguments(engine: EngineClause) -> tuple[str, ...]:
    """Those of the merge mode. A replicated table may leave out its place in ZooKeeper."""
    if engine.name.startswith("Replicated") and has_replica_location(engine):
        return engine.arguments[2:]
    return engine.arguments


def has_replica_location(engine: EngineClause) -> bool:
    """Whether path and replica name stand in the arguments."""
    count = len(engine.arguments)
    return count >= 2 and (engine.arguments[0].startswith("'") or count > find_merge_mode(engine.name).most)


def check_engine(create: CreateTable) -> EngineClause:
    """The engine. Raises 56 (UNKNOWN_STORAGE), 48 for ClickHouse's others, 42 for wrong arguments."""
    if create.engine is None:
        raise UserError("ENGINE_REQUIRED", f"ENGINE is missing; the engines are: {', '.join(MERGE_TREE_ENGINES)}")
    name = create.engine.name
    if name in SMALL_ENGINES:
        check_small_engine(create)
        return create.engine
    if name in PROXY_ENGINES:
        check_proxy_engine(create)
        return create.engine
    if name not in MERGE_TREE_ENGINES:
        known = ", ".join((*MERGE_TREE_ENGINES, *SMALL_ENGINES, *PROXY_ENGINES))
        if _FAMILY.match(name) or name in _OTHER_ENGINES:
            raise not_implemented(f"Engine {name} (the engines are: {known})")
        raise UserError("UNKNOWN_STORAGE", f"Unknown table engine {name}; the engines are: {known}")
    if is_deprecated(create) and _has_clauses(create):
        raise _mixed(name)
    find_merge_mode(name).check_count(name, len(_own_arguments(create.engine)) - len(_keys_of(create)))
    return create.engine


def check_syntax(create: CreateTable) -> None:
    """Raises 42 for arguments of the merge mode without any clause: then they would be of the deprecated syntax."""
    assert create.engine is not None
    if _own_arguments(create.engine) and not _has_clauses(create):
        raise UserError(
            "NUMBER_OF_ARGUMENTS_DOESNT_MATCH",
            f"ORDER BY or PRIMARY KEY is missing: arguments of {create.engine.name} without any clause are of the "
            "deprecated syntax. Add ORDER BY (column, …), or ORDER BY tuple()",
        )


def _has_clauses(create: CreateTable) -> bool:
    """Whether a clause says that the syntax is the modern one."""
    keys = (create.partition_by, create.order_by, create.primary_key, create.sample_by)
    return any((*keys, create.settings, create.indexes))


def _mixed(engine: str) -> UserError:
    return UserError(
        "NUMBER_OF_ARGUMENTS_DOESNT_MATCH",
        f"Engine {engine} has the keys in its arguments (deprecated syntax); then there can be no PARTITION BY, "
        "ORDER BY, PRIMARY KEY, SAMPLE BY, INDEX or SETTINGS: move the arguments to clauses",
    )


def is_deprecated(create: CreateTable) -> bool:
    """Whether the keys stand in the engine's arguments."""
    return bool(_keys_of(create))


def _keys_of(create: CreateTable) -> tuple[str, ...]:
    """Date column, sampling expression if there is one, key, granularity."""
    if create.engine is None or create.engine.name not in MERGE_TREE_ENGINES:
        return ()
    own = _own_arguments(create.engine)
    if len(own) < 3:
        return ()
    granularity = next((place for place in (2, 3) if place < len(own) and own[place].isdigit()), min(3, len(own) - 1))
    return own[: granularity + 1]


def convert_deprecated_syntax(create: CreateTable, types: Mapping[str, str]) -> CreateTable:
    """The same table in the modern syntax; a modern definition is returned as it is. ``types`` are those of columns."""
    keys = _keys_of(create)
    if not keys:
        return create
    assert create.engine is not None
    name, own = create.engine.name, 2 if is_replicated(create) and has_replica_location(create.engine) else 0
    return replace(
        create,
        engine=EngineClause(name, (*create.engine.arguments[:own], *create.engine.arguments[own + len(keys) :])),
        partition_by=f"toYYYYMM({_date_column(keys[0], types)})",
        order_by=keys[-2],
        sample_by=keys[1] if len(keys) == 4 else "",
        settings={"index_granularity": _granularity(keys[-1], name)},
    )


def _date_column(text: str, types: Mapping[str, str]) -> str:
    name = unquote_identifier(text) if text.startswith("`") else text
    if not _IDENTIFIER.match(text):
        raise UserError(
            "BAD_ARGUMENTS", f"Date column name must be an unquoted name in the deprecated syntax, not {text}"
        )
    if name not in types:
        raise UserError("UNKNOWN_IDENTIFIER", f"There is no date column {name!r}; the columns are: {', '.join(types)}")
    if types[name] != "Date":
        raise UserError(
            "BAD_TYPE_OF_FIELD", f"Column {name!r} must be a Date in the deprecated syntax, not {types[name]}"
        )
    return quote_identifier_if_needed(name)


def _granularity(text: str, engine: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise UserError("BAD_ARGUMENTS", f"Index granularity of {engine} must be a positive integer, not {text}")
    return int(text)


def find_replica_location(
    create: CreateTable,
    *,
    macros: Mapping[str, str],
    database: str,
    table: str,
    uuid: str = "",
    default_path: str = "/clickhouse/tables/{uuid}/{shard}",
    default_name: str = "{replica}",
) -> ReplicaLocation:
    """Path and replica name of a ReplicatedMergeTree; without arguments, the server's defaults.

    ``{database}``, ``{table}`` and ``{uuid}`` are the table's; other macros are the server's. An unknown one is 139
    (NO_ELEMENTS_IN_CONFIG).
    """
    arguments = create.engine.arguments[:2] if create.engine and has_replica_location(create.engine) else ()
    if arguments:
        path, name = (_string_argument(text) for text in arguments)
    else:
        path, name = default_path, default_name
    own = {"database": database, "table": table, **({"uuid": uuid} if uuid else {})}
    values = {**macros, **own}
    zookeeper, path = split_zookeeper(expand_macros(path, values))
    location = ReplicaLocation(path, expand_macros(name, values), zookeeper)
    if not location.replica_name or "/" in location.replica_name:
        raise UserError("NO_REPLICA_NAME_GIVEN", f"Not a replica name: {location.replica_name!r}; it is a znode's name")
    return location


def is_merge_tree(create: CreateTable) -> bool:
    """Whether the engine is one of the MergeTree family, replicated or not."""
    return create.view is None and create.engine is not None and create.engine.name.removeprefix("Replicated") in MODES


def as_replicated(create: CreateTable, *, default_path: str, default_name: str) -> CreateTable:
    """The same table of the replicated engine, at the place in ZooKeeper that the server gives by default."""
    assert create.engine is not None
    place = (quote_string(default_path), quote_string(default_name))
    return replace(create, engine=EngineClause(f"Replicated{create.engine.name}", (*place, *create.engine.arguments)))


def as_not_replicated(create: CreateTable) -> CreateTable:
    """The same table without replicas."""
    assert create.engine is not None
    engine, own = create.engine, 2 if has_replica_location(create.engine) else 0
    return replace(create, engine=EngineClause(engine.name.removeprefix("Replicated"), engine.arguments[own:]))


def expand_table_macros(
    create: CreateTable,
    *,
    database: str,
    table: str,
    default_path: str = "/clickhouse/tables/{uuid}/{shard}",
    default_name: str = "{replica}",
) -> CreateTable:
    """The same table with ``{database}`` and ``{table}`` spelled out in its place in ZooKeeper, for a rename."""
    if create.engine is None:
        return create
    given = create.engine.arguments[:2] if has_replica_location(create.engine) else ()
    before = [_string_argument(text) for text in given] if given else [default_path, default_name]
    pinned = [text.replace("{database}", database).replace("{table}", table) for text in before]
    if pinned == before:
        return create
    arguments = (*(quote_string(text) for text in pinned), *create.engine.arguments[len(given) :])
    return replace(create, engine=EngineClause(create.engine.name, arguments))


def _string_argument(text: str) -> str:
    if not text.startswith("'"):
        raise UserError("BAD_ARGUMENTS", f"Path and replica name of a replicated engine must be strings, not {text}")
    return unquote_string(text)


def expand_macros(text: str, values: Mapping[str, str]) -> str:
    """``{name}`` replaced by its value, which may hold macros again."""
    for _ in range(_MAX_MACRO_ROUNDS):
        expanded = _MACRO.sub(partial(_macro, text, values), text)
        if expanded == text:
            return text
        text = expanded
    raise UserError("BAD_ARGUMENTS", f"Macros expand into each other without end: {text!r}")


def _macro(text: str, values: Mapping[str, str], match: re.Match[str]) -> str:
    name = match.group(1)
    if name not in values:
        known = ", ".join(sorted(values)) or "none"
        raise UserError(
            "NO_ELEMENTS_IN_CONFIG", f"No macro {name!r} in config, needed by {text!r}; the macros are: {known}"
        )
    return str(values[name])
