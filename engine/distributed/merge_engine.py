"""Finds the tables that a Merge table or ``merge(…)`` reads: names that match by the rules of RE2."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from engine.queries.context import Context
from engine.tables.table_definition import TableDefinition
from parts.common.errors import UserError
from parts.table.table_description import Column, TableSchema
from sql.compile.shards.merge_tables import MergedTable, MergedTables
from sql.compile.shards.remote_table_functions import MergeFunction
from sql.definitions.engines.proxy_engines import MergeArguments
from sql.typing.result_types import supertype


def open_merge_table(definition: TableDefinition, context: Context) -> MergedTables:
    """Returns the tables that a Merge table reads, except itself."""
    arguments = MergeArguments.of(definition.create)
    found = _find_tables(arguments.database, arguments.is_pattern, arguments.tables, context)
    own = (definition.database, definition.name)
    return MergedTables(
        definition.description.schema, tuple(table for table in found if (table.database, table.table) != own)
    )


def open_merge_function(function: MergeFunction, context: Context) -> MergedTables:
    """Returns the tables that ``merge(…)`` reads.

    Raises 636 (CANNOT_EXTRACT_TABLE_STRUCTURE) if no table matches.
    """
    database = context.session.database if function.database is None else function.database
    found = tuple(_find_tables(database, function.is_pattern, function.tables, context))
    return MergedTables(unite_schemas([table.schema for table in found], function.tables), found)


def infer_schema(arguments: MergeArguments, context: Context) -> TableSchema:
    """Returns the columns of a Merge table that is created without a column list."""
    found = _find_tables(arguments.database, arguments.is_pattern, arguments.tables, context)
    return unite_schemas([table.schema for table in found], arguments.tables)


def unite_schemas(schemas: Sequence[TableSchema], pattern: str) -> TableSchema:
    """Returns every column that one of the schemas stores, with the least type that holds all its values.

    Raises 636 (CANNOT_EXTRACT_TABLE_STRUCTURE) without schemas, 386 (NO_COMMON_TYPE).
    """
    if not schemas:
        raise UserError(
            "CANNOT_EXTRACT_TABLE_STRUCTURE",
            f"There are no tables satisfied provided regexp {pattern!r}, you must specify table structure manually",
        )
    columns: dict[str, list[Column]] = {}
    for schema in schemas:
        for column in schema.columns:
            if column.is_stored:
                columns.setdefault(column.name, []).append(column)
    return TableSchema(
        tuple(
            Column(name, supertype([column.type for column in alike]), default_kind=_find_common_default_kind(alike))
            for name, alike in columns.items()
        )
    )


def _find_common_default_kind(columns: Sequence[Column]) -> str:
    kinds = {column.default_kind for column in columns}
    return "MATERIALIZED" if kinds == {"MATERIALIZED"} else ""


def _find_tables(database: str, is_pattern: bool, pattern: str, context: Context) -> Iterator[MergedTable]:
    """Yields the matching tables.

    Raises 81 (UNKNOWN_DATABASE), 427 (CANNOT_COMPILE_REGEXP).
    """
    server = context.server
    for name in _match_names(database, server.database_names()) if is_pattern else [database]:
        system = server.system_schemas.get(name)
        if system is not None:
            yield from (MergedTable(name, table, system[table]) for table in _match_names(pattern, sorted(system)))
            continue
        tables = {table.definition.name: table for table in server.catalog.tables(name)}
        for table in _match_names(pattern, list(tables)):
            found = tables[table]
            yield MergedTable(name, table, found.description.schema, found.definition.engine_name == "Merge")


def _match_names(pattern: str, names: Sequence[str]) -> list[str]:
    try:
        found = pc.match_substring_regex(pa.array(names, pa.string()), pattern)
    except pa.ArrowInvalid as error:
        raise UserError("CANNOT_COMPILE_REGEXP", f"cannot compile re2: {pattern}, error: {error}") from None
    return [name for name, matches in zip(names, found.to_pylist(), strict=True) if matches]
