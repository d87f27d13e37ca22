"""The class of table that implements each kind of table engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from engine.interserver.replication import Replication
from engine.tables.merge_tree.merge_tree_table import MergeTreeTable
from engine.tables.owned_table import OwnedTable
from engine.tables.replicated.replicated_table import ReplicatedTable
from engine.tables.services import TableServices
from engine.tables.small.log import LogTable
from engine.tables.small.memory import MemoryTable
from engine.tables.small.null import NullTable
from engine.tables.small.table_without_parts import TableWithoutParts
from engine.tables.table_definition import TableDefinition

_CLASSES: Mapping[str, Callable[[TableDefinition, TableServices], OwnedTable]] = MappingProxyType(
    {
        "MergeTree": MergeTreeTable,
        "Memory": MemoryTable,
        "Null": NullTable,
        "Log": LogTable,
        "View": TableWithoutParts,
        "Proxy": TableWithoutParts,
    }
)


def make_table(definition: TableDefinition, services: TableServices, replication: Replication) -> OwnedTable:
    """Makes the table of a definition, without starting it."""
    kind = definition.engine.kind
    if kind == "ReplicatedMergeTree":
        return ReplicatedTable(definition, services, replication)
    return _CLASSES[kind](definition, services)
