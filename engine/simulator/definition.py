"""The table of a simulation: a partition, a key and a text."""

from __future__ import annotations

from pathlib import Path

from coordination.paths import TablePaths
from engine.tables.definition import TableDefinition
from parts.schema import Column, TableDescription, TableSchema, column_key
from parts.types import parse_type
from sql.grammar.plain_clauses import ColumnClause
from sql.grammar.statements import CreateTable, EngineClause, TableRef
from sql.settings.table_settings import MergeTreeSettings

SCHEMA = TableSchema(
    (Column("p", parse_type("UInt8")), Column("k", parse_type("UInt64")), Column("v", parse_type("String")))
)
TABLE = TablePaths("/tables/t")


def definition(replica_name: str, path: Path, settings: MergeTreeSettings) -> TableDefinition:
    """Of a replica whose data lie at ``path``."""
    create = CreateTable(
        TableRef("db", "t"),
        tuple(ColumnClause(column.name, str(column.type)) for column in SCHEMA.columns),
        EngineClause("ReplicatedMergeTree", (f"'{TABLE.root}'", f"'{replica_name}'")),
    )
    key = column_key(SCHEMA, ["k"])
    description = TableDescription(SCHEMA, key, key, column_key(SCHEMA, ["p"]), column_key(SCHEMA, []), settings)
    return TableDefinition("db", "t", create, description, path)
