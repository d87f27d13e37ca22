"""The definition of a table under another name."""

from __future__ import annotations

from dataclasses import replace

from engine.tables.replicated.table import ReplicatedTable
from engine.tables.table import Table
from sql.ddl_engine import pin_location
from sql.statements import CreateTable, TableRef


def renamed(table: Table, new: TableRef) -> CreateTable:
    """A replicated table keeps its place in ZooKeeper, also where the old name was part of the path."""
    create = table.definition.create
    if isinstance(table, ReplicatedTable):
        create = pin_location(
            create,
            database=table.definition.database,
            table=table.definition.name,
            default_path=table.replication.default_path,
            default_name=table.replication.default_name,
        )
    return replace(create, table=new)
