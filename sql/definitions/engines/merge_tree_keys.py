"""The keys of a MergeTree table: ORDER BY, PRIMARY KEY, PARTITION BY and SAMPLE BY."""

from __future__ import annotations

import re

from parts.common.errors import UserError
from parts.table.table_description import Key, TableSchema
from parts.types import ArrayType, DataType, FloatType, MapType, TupleType
from sql.compile.names.column_names import canonical_text
from sql.grammar.statements.statement import CreateTable
from sql.grammar.syntax_tree import Identifier
from sql.grammar.tokens import not_implemented
from sql.run.block_expressions import compile_key
from sql.settings.merge_tree_settings import MergeTreeSettings

_DESCENDING = re.compile(r"\sDESC(?:ENDING)?\b", re.IGNORECASE)


def compile_clause(text: str, schema: TableSchema, clause: str) -> Key:
    try:
        return compile_key(text, schema.stored)  # a key cannot read ALIAS columns
    except UserError as error:
        if _DESCENDING.search(text):
            raise not_implemented(f"A descending key ({clause} {text})") from None
        raise UserError(error.name, f"{error.message} (in {clause} {text})") from error


def build_sorting_key(create: CreateTable, schema: TableSchema, settings: MergeTreeSettings) -> Key:
    text = create.order_by or create.primary_key
    if not text:
        raise UserError(
            "BAD_ARGUMENTS",
            "ORDER BY or PRIMARY KEY is needed for the MergeTree engines: add ORDER BY (column, …), "
            "or ORDER BY tuple() for rows without an order",
        )
    return check_key_types(compile_clause(text, schema, "ORDER BY"), "ORDER BY", settings)


def with_last_column(key: Key, column: str, schema: TableSchema) -> Key:
    """The key with a column behind it that its engine sorts by too."""
    name = canonical_text(Identifier((column,)))
    if not column or name in key.expressions:
        return key
    return compile_clause(f"({', '.join((*key.expressions, name))})", schema, "ORDER BY")


def build_primary_key(create: CreateTable, schema: TableSchema, sorting_key: Key) -> Key:
    if not create.primary_key or not create.order_by:
        return sorting_key
    primary = compile_clause(create.primary_key, schema, "PRIMARY KEY")
    length = len(primary.expressions)
    if primary.expressions != sorting_key.expressions[:length]:
        raise UserError(
            "BAD_ARGUMENTS",
            f"Primary key must be a prefix of the sorting key, but it is ({', '.join(primary.expressions)}) and the "
            f"sorting key is ({', '.join(sorting_key.expressions)})",
        )
    return sorting_key.prefix(length)


def build_sampling_key(create: CreateTable, schema: TableSchema, sorting_key: Key) -> Key:
    if not create.sample_by:
        return compile_clause("", schema, "SAMPLE BY")
    key = compile_clause(create.sample_by, schema, "SAMPLE BY")
    primary = build_primary_key(create, schema, sorting_key)
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


def check_key_types(key: Key, clause: str, settings: MergeTreeSettings) -> Key:
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
