"""Builds the description of a table's parts from CREATE TABLE, checking all MergeTree rules.

A definition passes through three steps. :func:`convert_deprecated_syntax` turns deprecated engine arguments into
clauses. :func:`build_description` compiles types, keys and settings. ``definition_text.render_create`` renders the text
kept on disk. Replicated engines take two more arguments, which the engine resolves.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter
from types import MappingProxyType
from typing import TYPE_CHECKING

import pyarrow as pa

from parts.common.errors import UserError
from parts.common.safe_names import check_identifier
from parts.merge.modes import mode_of_engine
from parts.table.merge_mode import KeyColumns
from parts.table.row_exists_column import RESERVED_COLUMN_NAMES
from parts.table.table_description import Column, Key, TableDescription, TableSchema
from parts.types import (
    ArrayType,
    DataType,
    DecimalType,
    FloatType,
    LowCardinalityType,
    MapType,
    NothingType,
    NullableType,
    TupleType,
    make_nullable,
    parse_aggregate_name,
    parse_type,
    strip_nullable,
)
from sql.compile.names.column_names import canonical_text
from sql.definitions.column_defaults import compile_defaults
from sql.definitions.constraints import build_constraints
from sql.definitions.engines.engine_clauses import check_engine, convert_deprecated_syntax, list_mode_columns
from sql.definitions.engines.proxy_engines import PROXY_ENGINES, check_sharding_key
from sql.definitions.engines.small_engines import (
    SMALL_ENGINES,
    build_small_table_description,
    build_view_description,
    find_engine_name,
)
from sql.definitions.index_definitions import build_indexes
from sql.definitions.ttl_compiler import build_ttl
from sql.formats.converters.array_casts import cast_array
from sql.formats.format_options import BadValueError, FormatOptions
from sql.grammar.clause_types import ColumnClause
from sql.grammar.queries.query_parser import parse_expression
from sql.grammar.statements.statement import CreateTable, EngineClause
from sql.grammar.syntax_tree import Identifier, Literal
from sql.grammar.tokens import not_implemented
from sql.run.block_expressions import compile_expressions, compile_key
from sql.settings.merge_tree_settings import SUPPORTED_MERGE_TREE_SETTINGS, MergeTreeSettings, parse_table_setting

if TYPE_CHECKING:
    from sql.run.block_expressions import CompiledExpression


def build_description(
    create: CreateTable,
    *,
    default_settings: MergeTreeSettings | None = None,
    rollups: Mapping[str, object] = MappingProxyType({}),
) -> TableDescription:
    """Builds the description of the table's parts.

    ``create`` must have its columns (the caller resolves AS table and AS SELECT). ``default_settings`` are the
    server's; the statement's SETTINGS go over them. ``rollups`` are the server's sections ``graphite_rollup``.

    Raises ``UserError``: 42 ORDER BY missing, 36 keys that contradict each other, 47 unknown key column, 56 unknown
    engine. Also 115 unknown setting, 44 nullable key, 50 unknown type, 48 for what ClickHouse has and Pando lacks.
    """
    engine = check_engine(create) if create.view is None else EngineClause(find_engine_name(create))
    stores_rows = create.view is None or create.view.is_materialized
    columns = tuple(build_columns(create.columns, is_new=not create.attach, stores_rows=stores_rows))
    schema = compile_defaults(TableSchema(columns, create.history))
    reserved = next((name for name in RESERVED_COLUMN_NAMES if name in schema), None)
    if reserved is not None and not create.attach:
        raise UserError(
            "ILLEGAL_COLUMN",
            f"Cannot create table with column '{reserved}' for MergeTree engines because it is reserved for "
            "persistent virtual column",
        )
    if create.view is not None:
        return build_view_description(schema)
    if not any(column.is_stored for column in schema.columns):
        raise UserError("BAD_ARGUMENTS", "A table needs at least one column that is stored (not ALIAS)")
    if engine.name in PROXY_ENGINES:
        check_sharding_key(create, schema)
    if engine.name in (*SMALL_ENGINES, *PROXY_ENGINES):
        return build_small_table_description(create, schema)
    create = convert_deprecated_syntax(create, {column.name: column.type.name for column in columns})
    assert create.engine is not None
    settings = build_merge_tree_settings(create.settings, default_settings or MergeTreeSettings())
    sorting_key = _sorting_key(create, schema, settings)
    primary_key = _primary_key(create, schema, sorting_key)
    partition_key = _checked(_compile(create.partition_by, schema, "PARTITION BY"), "PARTITION BY", settings)
    keys = KeyColumns(frozenset(sorting_key.columns), frozenset(partition_key.columns), rollups)
    mode = mode_of_engine(engine.name, list_mode_columns(create.engine), schema, keys)
    sorting_key = _with_last(sorting_key, mode.last_key_column, schema)
    return TableDescription(
        schema=schema,
        sorting_key=sorting_key,
        primary_key=primary_key,
        partition_key=partition_key,
        sampling_key=_sampling_key(create, schema, sorting_key),
        settings=settings,
        merge_mode=mode,
        metadata_version=create.history.version,
        indexes=build_indexes(create.indexes, schema),
        constraints=build_constraints(create.constraints, schema),
        ttl=build_ttl(create, schema, {"sorting": sorting_key, "primary": primary_key, "partition": partition_key}),
    )


# Columns --------------------------------------------------------------------------------------------------------------


def build_columns(clauses: Sequence[ColumnClause], *, is_new: bool = True, stores_rows: bool = True) -> list[Column]:
    """Builds columns with their types.

    A missing type is that of the default expression, and ``DEFAULT NULL`` makes a type Nullable. An existing table (not
    ``is_new``) keeps the types as written. A view (not ``stores_rows``) may have columns of NULL alone.
    """
    types = {clause.name: _written_type(clause, is_new=is_new) for clause in clauses if clause.type}
    inferred = _infer_types(clauses, types, is_new=is_new)
    columns = []
    for clause in clauses:
        check_identifier("column", clause.name)
        type_ = inferred[clause.name]
        if stores_rows and _has_nothing(type_):
            raise _unusable(clause.name, type_)
        if clause.codec:
            _check_codec(clause, type_, is_new=is_new)
        columns.append(
            Column(
                clause.name,
                type_,
                clause.codec,
                clause.default_kind,
                clause.default_expression.strip(),
                clause.comment,
                ttl=clause.ttl,
                aggregate=parse_aggregate_name(clause.type),
            )
        )
    return columns


def _written_type(clause: ColumnClause, *, is_new: bool) -> DataType:
    type_ = parse_type(clause.type)
    if not is_new or clause.default_kind != "DEFAULT" or clause.is_not_null or type_.is_nullable:
        return type_
    default = parse_expression(clause.default_expression)
    if not isinstance(default, Literal) or default.value is not None:
        return type_
    nullable = make_nullable(type_)
    if nullable == type_:
        raise UserError(
            "ILLEGAL_TYPE_OF_ARGUMENT", f"Nested type {type_} cannot be inside Nullable type (DEFAULT NULL)"
        )
    return nullable


def _infer_types(clauses: Sequence[ColumnClause], known: dict[str, DataType], *, is_new: bool) -> dict[str, DataType]:
    """Returns the types of all columns; compiles every default, so that CREATE finds unknown names.

    A default may read columns whose own type is inferred, so rounds run until one adds nothing. Raises ``UserError``
    174 for defaults of a new table that need each other.
    """
    types = dict(known)
    read: dict[str, tuple[str, ...]] = {}
    pending = [clause for clause in clauses if clause.default_kind]
    if not pending:
        return types
    for _ in range(len(pending) + 1):
        progress: list[ColumnClause] = []
        error: UserError | None = None
        schema = TableSchema(tuple(Column(name, type_) for name, type_ in types.items()))
        for clause in pending:
            try:
                (compiled,) = compile_expressions([clause.default_expression], schema)
            except UserError as failure:
                error = failure
                continue
            _check_constant(clause.name, compiled, types.get(clause.name), is_new=is_new)
            types.setdefault(clause.name, compiled.type)
            read[clause.name] = compiled.columns
            progress.append(clause)
        pending = [clause for clause in pending if clause not in progress]
        if not pending:
            if is_new:
                _refuse_circles(read)
            return types
        if not progress and error is not None:
            raise UserError(error.name, f"{error.message} (in the default of column {pending[0].name!r})")
    return types


def _refuse_circles(read: Mapping[str, Sequence[str]]) -> None:
    """Raises 174 (CYCLIC_ALIASES); ``read`` are the columns that each default reads."""
    try:
        TopologicalSorter(read).prepare()
    except CycleError as error:
        circle = " -> ".join(reversed(error.args[1]))
        raise UserError(
            "CYCLIC_ALIASES",
            f"Cyclic alias detected in column DEFAULT expressions: {circle}; a default may not read its own column, "
            "not by way of others either",
        ) from None


def _check_constant(name: str, default: CompiledExpression, type_: DataType | None, *, is_new: bool) -> None:
    """Refuses a default that reads no column and is no value of the column's type.

    No INSERT could ever leave the column out.
    """
    if type_ is None or default.columns:
        return
    if _has_nothing(type_):
        raise _unusable(name, type_)
    values = default.evaluate(pa.table({"_row": pa.nulls(1, pa.uint8())}))
    if is_new and values.null_count and not type_.is_nullable:
        code = "CANNOT_CONVERT_TYPE" if _has_nothing(default.type) else "CANNOT_INSERT_NULL_IN_ORDINARY_COLUMN"
        raise UserError(code, f"Cannot convert NULL to {type_} (in the default of column {name!r})")
    try:
        cast_array(values, default.type, type_, FormatOptions())
    except BadValueError as error:
        raise UserError(error.name, f"{error.detail} (in the default of column {name!r})") from None


def _has_nothing(type_: DataType) -> bool:
    match type_:
        case NothingType():
            return True
        case NullableType(inner) | LowCardinalityType(inner) | ArrayType(inner):
            return _has_nothing(inner)
        case MapType(key, value):
            return _has_nothing(key) or _has_nothing(value)
        case TupleType(elements):
            return any(_has_nothing(inner) for _, inner in elements)
    return False


def _unusable(name: str, type_: DataType) -> UserError:
    return UserError(
        "DATA_TYPE_CANNOT_BE_USED_IN_TABLES",
        f"Data type {type_} of column {name!r} cannot be used in tables; name another",
    )


_MOST_DIGITS = 18
"""Digits of a Decimal of 8 bytes."""


def _check_codec(clause: ColumnClause, type_: DataType, *, is_new: bool) -> None:
    if clause.default_kind == "ALIAS":
        raise UserError("BAD_ARGUMENTS", f"Column {clause.name!r} is an ALIAS: it is not stored and can have no CODEC")
    from parts.format.codecs import parse_codec

    codec = parse_codec(clause.codec, type_)
    bare = strip_nullable(type_)
    if is_new and codec.transforms and isinstance(bare, DecimalType) and bare.precision > _MOST_DIGITS:
        raise UserError(
            "BAD_ARGUMENTS",
            f"CODEC({clause.codec}) of column {clause.name!r}: Delta and DoubleDelta are only applicable for data "
            f"types of size 1, 2, 4, 8 bytes. Given type {type_}",
        )


# Keys -----------------------------------------------------------------------------------------------------------------


_DESCENDING = re.compile(r"\sDESC(?:ENDING)?\b", re.IGNORECASE)


def _compile(text: str, schema: TableSchema, clause: str) -> Key:
    try:
        return compile_key(text, schema.stored)  # a key cannot read ALIAS columns
    except UserError as error:
        if _DESCENDING.search(text):
            raise not_implemented(f"A descending key ({clause} {text})") from None
        raise UserError(error.name, f"{error.message} (in {clause} {text})") from error


def _sorting_key(create: CreateTable, schema: TableSchema, settings: MergeTreeSettings) -> Key:
    text = create.order_by or create.primary_key
    if not text:
        raise UserError(
            "BAD_ARGUMENTS",
            "ORDER BY or PRIMARY KEY is needed for the MergeTree engines: add ORDER BY (column, …), "
            "or ORDER BY tuple() for rows without an order",
        )
    return _checked(_compile(text, schema, "ORDER BY"), "ORDER BY", settings)


def _with_last(key: Key, column: str, schema: TableSchema) -> Key:
    """Returns the key with the column behind it that its engine sorts by too."""
    name = canonical_text(Identifier((column,)))
    if not column or name in key.expressions:
        return key
    return _compile(f"({', '.join((*key.expressions, name))})", schema, "ORDER BY")


def _primary_key(create: CreateTable, schema: TableSchema, sorting_key: Key) -> Key:
    if not create.primary_key or not create.order_by:
        return sorting_key
    primary = _compile(create.primary_key, schema, "PRIMARY KEY")
    length = len(primary.expressions)
    if primary.expressions != sorting_key.expressions[:length]:
        raise UserError(
            "BAD_ARGUMENTS",
            f"Primary key must be a prefix of the sorting key, but it is ({', '.join(primary.expressions)}) and the "
            f"sorting key is ({', '.join(sorting_key.expressions)})",
        )
    return sorting_key.prefix(length)


def _sampling_key(create: CreateTable, schema: TableSchema, sorting_key: Key) -> Key:
    if not create.sample_by:
        return _compile("", schema, "SAMPLE BY")
    key = _compile(create.sample_by, schema, "SAMPLE BY")
    primary = _primary_key(create, schema, sorting_key)
    if len(key.expressions) != 1 or key.expressions[0] not in primary.expressions:
        raise UserError(
            "BAD_ARGUMENTS",
            f"Sampling expression {create.sample_by} must be one expression of the primary key "
            f"({', '.join(primary.expressions)})",
        )
    if key.types[0].is_nullable:
        raise UserError(
            "ILLEGAL_TYPE_OF_COLUMN_FOR_FILTER",
            f"Invalid sampling column type in storage parameters: {key.types[0]}. Must be one unsigned integer type",
        )
    return key


def _checked(key: Key, clause: str, settings: MergeTreeSettings) -> Key:
    for text, type_ in zip(key.expressions, key.types, strict=True):
        if _has_null(type_) and not settings.allow_nullable_key:
            raise UserError(
                "ILLEGAL_COLUMN",
                f"{clause} contains nullable columns, but merge tree setting `allow_nullable_key` is disabled: {text} "
                f"has type {type_}; use ifNull or assumeNotNull, or enable the setting",
            )
        if isinstance(type_, MapType) or (isinstance(type_, (ArrayType, TupleType)) and clause == "PARTITION BY"):
            raise UserError("ILLEGAL_COLUMN", f"{clause} expression {text} of type {type_} cannot be a key")
        if isinstance(type_, FloatType) and clause == "PARTITION BY":
            raise UserError("BAD_ARGUMENTS", f"Floating point partition key {text} of type {type_} is not allowed")
    return key


def _has_null(type_: DataType) -> bool:
    return type_.is_nullable or (isinstance(type_, TupleType) and any(_has_null(inner) for _, inner in type_.elements))


# Settings -------------------------------------------------------------------------------------------------------------


def build_merge_tree_settings(given: Mapping[str, object], defaults: MergeTreeSettings) -> MergeTreeSettings:
    """Returns ``defaults`` with the given settings over them.

    Raises 115 (UNKNOWN_SETTING), 48 for a value that Pando lacks, and others for a value of a wrong kind.
    """
    changes = {name: parse_table_setting(name, value) for name, value in given.items()}
    honoured = {name: value for name, value in changes.items() if name in SUPPORTED_MERGE_TREE_SETTINGS}
    settings: MergeTreeSettings = replace(defaults, **honoured)  # type: ignore[arg-type]
    if settings.index_granularity < 1:
        raise UserError("BAD_ARGUMENTS", f"index_granularity must be at least 1, not {settings.index_granularity}")
    if 0 < settings.index_granularity_bytes < settings.min_index_granularity_bytes:
        raise UserError(
            "BAD_ARGUMENTS",
            f"index_granularity_bytes: {settings.index_granularity_bytes} is lower than specified "
            f"min_index_granularity_bytes: {settings.min_index_granularity_bytes}",
        )
    return settings


def write_out_column_types(create: CreateTable, schema: TableSchema) -> CreateTable:
    """Returns the statement with every column's type written out, as it is kept and shown."""
    columns = tuple(replace(clause, type=schema.column(clause.name).type_text) for clause in create.columns)
    return replace(create, columns=columns)
