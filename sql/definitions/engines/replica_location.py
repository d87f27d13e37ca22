"""Where a replicated table lives in ZooKeeper: path and replica name, with their macros."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from parts.common.errors import UserError
from parts.merge.modes import MODES
from sql.grammar.statements.statement import CreateTable, EngineClause
from sql.grammar.tokens import quote_string, unquote_string

_MACRO = re.compile(r"\{([^{}]*)\}")
_MAX_MACRO_ROUNDS = 10
DEFAULT_ZOOKEEPER = "default"
"""The name of the one in ``zookeeper``; others are in ``auxiliary_zookeepers``."""


@dataclass(frozen=True, slots=True)
class ReplicaLocation:
    """The place of a replica in ZooKeeper, with macros substituted."""

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


def has_replica_location(engine: EngineClause) -> bool:
    """Whether path and replica name stand in the arguments."""
    count = len(engine.arguments)
    return count >= 2 and (
        engine.arguments[0].startswith("'") or count > MODES[engine.name.removeprefix("Replicated")].most
    )


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
    """Returns the table with ``{database}`` and ``{table}`` written out in its place in ZooKeeper.

    A rename needs it.
    """
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
