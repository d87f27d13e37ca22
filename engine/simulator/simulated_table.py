"""The definition of a simulation's table: a partition, a key and a text."""

from __future__ import annotations

from pathlib import Path

from coordination.nodes.paths import TablePaths
from engine.tables.table_definition import TableDefinition
from parts.table.table_description import Column, TableDescription, TableSchema, make_column_key
from parts.types import parse_type
from sql.grammar.clause_types import (
    ColumnClause,
    TableRef,
)
from sql.grammar.statements.statement import (
    CreateTable,
    EngineClause,
)
from sql.settings.merge_tree_settings import MergeTreeSettings

SCHEMA = TableSchema(
    (Column("p", parse_type("UInt8")), Column("k", parse_type("UInt64")), Column("v", parse_type("String")))
)
TABLE = TablePaths("/tables/t")


def make_table_definition(replica_name: str, path: Path, settings: MergeTreeSettings) -> TableDefinition:
    """Returns the definition of a replica whose data lie at ``path``."""
    create = CreateTable(
        TableRef("db", "t"),
        tuple(ColumnClause(column.name, str(column.type)) for column in SCHEMA.columns),
        EngineClause("ReplicatedMergeTree", (f"'{TABLE.root}'", f"'{replica_name}'")),
    )
    key = make_column_key(SCHEMA, ["k"])
    description = TableDescription(
        SCHEMA, key, key, make_column_key(SCHEMA, ["p"]), make_column_key(SCHEMA, []), settings
    )
    return TableDefinition("db", "t", create, description, path)
