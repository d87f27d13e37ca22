"""The deprecated syntax of the MergeTree engines, which puts the keys into the engine's arguments::

    MergeTree(EventDate[, sampling], (key, …), index_granularity)
    ReplicatedMergeTree('path', 'replica', EventDate[, sampling], (key, …), index_granularity)

A table keeps the syntax that it was made in. :func:`convert_deprecated_syntax` turns it into clauses (PARTITION BY
toYYYYMM(EventDate), ORDER BY, SAMPLE BY, SETTINGS), so that what describes the parts knows one syntax.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from parts.common.errors import UserError
from parts.merge.modes import MODES
from sql.definitions.engines.replica_location import has_replica_location
from sql.grammar.statements.statement import CreateTable, EngineClause
from sql.grammar.tokens import quote_identifier_if_needed, unquote_identifier

_IDENTIFIER = re.compile(r"[A-Za-z_]\w*\Z|`(?:[^`\\]|\\.)+`\Z")


def is_merge_tree(create: CreateTable) -> bool:
    """Whether the engine is one of the MergeTree family, replicated or not."""
    return create.view is None and create.engine is not None and create.engine.name.removeprefix("Replicated") in MODES


def check_syntax(create: CreateTable) -> None:
    """Raises 42 for arguments of the merge mode without any clause.

    They would be of the deprecated syntax.
    """
    assert create.engine is not None
    if list_mode_arguments(create.engine) and not has_clauses(create):
        raise UserError(
            "NUMBER_OF_ARGUMENTS_DOESNT_MATCH",
            f"ORDER BY or PRIMARY KEY is missing: arguments of {create.engine.name} without any clause are of the "
            "deprecated syntax. Add ORDER BY (column, …), or ORDER BY tuple()",
        )


def has_clauses(create: CreateTable) -> bool:
    """Whether a clause says that the syntax is the modern one."""
    keys = (create.partition_by, create.order_by, create.primary_key, create.sample_by)
    return any((*keys, create.settings, create.indexes))


def is_deprecated(create: CreateTable) -> bool:
    """Whether the keys stand in the engine's arguments."""
    return bool(list_deprecated_keys(create))


def list_deprecated_keys(create: CreateTable) -> tuple[str, ...]:
    """Date column, sampling expression if there is one, key, granularity."""
    if create.engine is None or not is_merge_tree(create):
        return ()
    own = list_mode_arguments(create.engine)
    if len(own) < 3:
        return ()
    granularity = next((place for place in (2, 3) if place < len(own) and own[place].isdigit()), min(3, len(own) - 1))
    return own[: granularity + 1]


def convert_deprecated_syntax(create: CreateTable, types: Mapping[str, str]) -> CreateTable:
    """Returns the table in the modern syntax, in which it may be already.

    ``types`` are the types of the columns by name.
    """
    keys = list_deprecated_keys(create)
    if not keys:
        return create
    assert create.engine is not None
    name, own = create.engine.name, 2 if create.is_replicated and has_replica_location(create.engine) else 0
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


def list_mode_arguments(engine: EngineClause) -> tuple[str, ...]:
    """Returns the arguments of the merge mode, without a replica's place in ZooKeeper."""
    if engine.name.startswith("Replicated") and has_replica_location(engine):
        return engine.arguments[2:]
    return engine.arguments


def mixed_syntax_error(engine: str) -> UserError:
    return UserError(
        "NUMBER_OF_ARGUMENTS_DOESNT_MATCH",
        f"Engine {engine} has the keys in its arguments (deprecated syntax); then there can be no PARTITION BY, "
        "ORDER BY, PRIMARY KEY, SAMPLE BY, INDEX or SETTINGS: move the arguments to clauses",
    )
