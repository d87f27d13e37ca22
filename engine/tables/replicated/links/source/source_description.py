"""What a table is, as the targets of its links see it: its origin, its definition, its newest commit."""

from __future__ import annotations

from dataclasses import dataclass, replace

from coordination.keeper.interface import Keeper, Stat
from coordination.links.positions import Origin, Position
from coordination.links.switching.lineage import Lineage
from coordination.links.table_fingerprint import make_table_fingerprint
from coordination.links.table_position import read_current_position
from coordination.links.version_vector import VersionVector
from coordination.nodes.gate import Gate
from coordination.nodes.gate_link import LinkDirection
from coordination.nodes.paths import TablePaths
from coordination.nodes.table_lists import missing_metadata_error
from engine.tables.capabilities.table_links import SourceTable, TableNodes
from engine.tables.replicated.links.source.outgoing_nodes import make_outgoing
from engine.tables.replicated.replica_state import ReplicaState
from parts.common.errors import UserError
from sql.definitions.definition_text import render_create


def list_described_nodes(table: TablePaths) -> list[str]:
    """Returns the nodes that :class:`TableLook` is made of."""
    return [table.root, table.gate, table.columns, table.metadata, table.log, table.mutations, table.linked.definitions]


@dataclass(frozen=True, slots=True)
class TableLook:
    """One look at a table's nodes: what describes it, and how often something was added to its lists."""

    root: Stat
    gate: tuple[bytes, Stat]
    columns: tuple[bytes, Stat]
    metadata: tuple[bytes, Stat]
    lists: tuple[int, ...]
    """Of the log, the mutations and the definitions. While they stay nothing is committed."""

    @classmethod
    def of(cls, table: TablePaths, nodes: TableNodes) -> TableLook:
        """Returns what :func:`list_described_nodes` found.

        Raises 225 (NO_ZOOKEEPER) for a table that is not in ZooKeeper, 48 (NOT_IMPLEMENTED) for one without a gate.
        """
        root, gate, columns, metadata, *lists = nodes
        if root is None or columns is None or metadata is None:
            raise missing_metadata_error(table)
        if gate is None:
            raise UserError("NOT_IMPLEMENTED", f"Table {table.root} has no gate: some replica does not know gates")
        versions = tuple(each[1].children_version if each is not None else -1 for each in lists)
        return cls(root[1], gate, columns, metadata, versions)


class SourceDescription:
    """Describes the table of one replica."""

    def __init__(self, state: ReplicaState) -> None:
        self._state = state
        self._known: tuple[tuple[object, ...], SourceTable] | None = None
        """The last description, and what it was made of."""

    def describe(self, keeper: Keeper) -> SourceTable:
        """Returns the table behind everything that was committed before the call.

        Raises 48 (NOT_IMPLEMENTED) for a table without a gate, 36 without ``cluster_name``.
        """
        uuid = self._state.replication.get_cluster_uuid()
        newest = Position.parse(read_current_position(keeper, self._state.paths, uuid)).zxid
        return self.describe_at(keeper, newest)

    def describe_at(self, keeper: Keeper, newest: int, vector: VersionVector | None = None) -> SourceTable:
        """Returns the table at a place."""
        return replace(self.describe_look(self.look(keeper), newest), vector=vector or VersionVector())

    def look(self, keeper: Keeper) -> TableLook:
        """Looks at the table. Raises as :meth:`TableLook.of`."""
        table = self._state.paths
        return TableLook.of(table, keeper.get_many(list_described_nodes(table)))

    def describe_look(self, look: TableLook, newest: int) -> SourceTable:
        """Returns the table as a look found it, at a place."""
        state, uuid, known = self._state, self._state.replication.get_cluster_uuid(), self._known
        create, version = state.definition, state.description.metadata_version
        read = look.root.created_zxid, *(each[1].modified_zxid for each in (look.gate, look.columns, look.metadata))
        key = uuid, create, version, *read
        if known is None or known[0] != key:
            known = self._known = key, self._describe(look, uuid)
        return replace(known[1], newest=newest)

    def _describe(self, look: TableLook, uuid: str) -> SourceTable:
        state, gate = self._state, Gate.parse(look.gate[0])
        lineage, columns_text = Lineage.read(gate), look.columns[0].decode()
        return SourceTable(
            state.definition.database,
            state.definition.name,
            Origin.parse(f"{uuid}.{look.root.created_zxid}.{gate.epoch}"),
            0,
            render_create(state.definition.create),
            state.description.metadata_version,
            make_table_fingerprint(look.metadata[0].decode(), columns_text),
            lineage.list_ends(),
            columns_text,
            VersionVector(),
            lineage=lineage,
            siblings=tuple(map(make_outgoing, gate.links_of(LinkDirection.OUT))),
            is_target=bool(gate.links_of(LinkDirection.IN)),
        )

    def read_vector(self, keeper: Keeper) -> tuple[VersionVector, int]:
        """Returns the table's vector, without its own origin, and the zxid that wrote it; 0 for none."""
        answer = keeper.get_many([self._state.paths.linked.vector])[0]
        if answer is None:
            return VersionVector(), 0
        return VersionVector.parse(answer[0]), answer[1].modified_zxid
