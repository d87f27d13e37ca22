"""The MergeTree engines, replicated or not: one for each merge mode."""

from __future__ import annotations

from parts.common.errors import UserError
from parts.merge.modes import MODES, ModeOfEngine, mode_of_engine
from parts.table.merge_mode import KeyColumns
from parts.table.table_description import TableDescription, TableSchema
from sql.compile.names.column_names import canonical_text
from sql.definitions.constraints import build_constraints
from sql.definitions.engines.deprecated_syntax import (
    convert_deprecated_syntax,
    has_clauses,
    is_deprecated,
    list_deprecated_keys,
    list_mode_arguments,
    mixed_syntax_error,
)
from sql.definitions.engines.last_writer_wins import apply_last_writer_wins
from sql.definitions.engines.merge_tree_keys import (
    build_primary_key,
    build_sampling_key,
    build_sorting_key,
    check_key_types,
    compile_clause,
    with_last_column,
)
from sql.definitions.engines.table_engine import EngineFeatures, ServerDefaults, TableEngine
from sql.definitions.index_definitions import build_indexes
from sql.definitions.ttl_compiler import build_ttl
from sql.grammar.queries.query_parser import parse_expression
from sql.grammar.statements.statement import CreateTable, EngineClause
from sql.grammar.syntax_tree import Function, Identifier
from sql.grammar.tokens import unquote_string
from sql.settings.merge_tree_settings import build_merge_tree_settings


def _check(create: CreateTable) -> None:
    """Raises 42 for a wrong number of arguments, or for keys both among them and in clauses."""
    assert create.engine is not None
    name = create.engine.name
    if is_deprecated(create) and has_clauses(create):
        raise mixed_syntax_error(name)
    count = len(list_mode_arguments(create.engine)) - len(list_deprecated_keys(create))
    find_merge_mode(name).check_count(name, count)


def _describe(create: CreateTable, schema: TableSchema, defaults: ServerDefaults) -> TableDescription:
    create = convert_deprecated_syntax(create, {column.name: column.type.name for column in schema.columns})
    assert create.engine is not None
    settings = build_merge_tree_settings(create.settings, defaults.settings)
    sorting_key = build_sorting_key(create, schema, settings)
    primary_key = build_primary_key(create, schema, sorting_key)
    partition_key = compile_clause(create.partition_by, schema, "PARTITION BY")
    check_key_types(partition_key, "PARTITION BY", settings)
    keys = KeyColumns(frozenset(sorting_key.columns), frozenset(partition_key.columns), defaults.rollups)
    mode = mode_of_engine(create.engine.name, list_mode_columns(create.engine), schema, keys)
    mode = apply_last_writer_wins(create.engine.name, mode, settings, schema)
    sorting_key = with_last_column(sorting_key, mode.last_key_column, schema)
    return TableDescription(
        schema=schema,
        sorting_key=sorting_key,
        primary_key=primary_key,
        partition_key=partition_key,
        sampling_key=build_sampling_key(create, schema, sorting_key),
        settings=settings,
        merge_mode=mode,
        metadata_version=create.history.version,
        indexes=build_indexes(create.indexes, schema),
        constraints=build_constraints(create.constraints, schema),
        ttl=build_ttl(create, schema, {"sorting": sorting_key, "primary": primary_key, "partition": partition_key}),
    )


def list_mode_columns(engine: EngineClause) -> tuple[str, ...]:
    """Returns the columns that the arguments of the merge mode name.

    For GraphiteMergeTree it is the section of the configuration.
    """
    mode = find_merge_mode(engine.name)
    if mode.takes_section:
        return (_section(engine),)
    found: list[str] = []
    for text in list_mode_arguments(engine):
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
    *_, text = ("", *list_mode_arguments(engine))
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


def find_merge_mode(engine: str) -> ModeOfEngine:
    return MODES[engine.removeprefix("Replicated")]


_FEATURES = EngineFeatures(settings=True, sort_order=True, ttl=True, deduplication=True, parallel_insert=True)
MERGE_TREE_ENGINES = tuple(
    TableEngine(
        name=f"{prefix}{mode}",
        kind="ReplicatedMergeTree" if prefix else "MergeTree",
        check=_check,
        describe=_describe,
        features=_FEATURES.replicated() if prefix else _FEATURES,
    )
    for mode in MODES
    for prefix in ("", "Replicated")
)
