"""The class of table that implements each kind of table engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from engine.interserver.replication import Replication
from engine.tables.merge_tree.merge_tree_table import MergeTreeTable
from engine.tables.replicated.replicated_table import ReplicatedTable
from engine.tables.services import TableServices
from engine.tables.small.memory import MemoryTable
from engine.tables.small.null import NullTable, ProxyTable
from engine.tables.small.small_table import SmallTable
from engine.tables.small.view import ViewTable
from engine.tables.table import Table
from engine.tables.table_definition import TableDefinition

_CLASSES: Mapping[str, Callable[[TableDefinition, TableServices], Table]] = MappingProxyType(
    {
        "MergeTree": MergeTreeTable,
        "Memory": MemoryTable,
        "Null": NullTable,
        "Log": SmallTable,
        "View": ViewTable,
        "Proxy": ProxyTable,
    }
)


def make_table(definition: TableDefinition, services: TableServices, replication: Replication) -> Table:
    """Makes the table of a definition, without starting it."""
    kind = definition.engine.kind
    if kind == "ReplicatedMergeTree":
        return ReplicatedTable(definition, services, replication)
    return _CLASSES[kind](definition, services)
