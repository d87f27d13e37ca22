"""What a table is, as the targets of its links see it: its origin, its definition, its newest commit."""

from __future__ import annotations

from coordination.keeper.interface import Keeper
from coordination.links.positions import Origin, Position
from coordination.links.switching.lineage import Lineage
from coordination.links.table_fingerprint import make_table_fingerprint
from coordination.links.table_position import read_current_position
from coordination.links.version_vector import VersionVector
from coordination.nodes.gate import Gate
from coordination.nodes.gate_link import LinkDirection
from coordination.nodes.table_lists import missing_metadata_error
from engine.tables.capabilities.table_links import SourceTable
from engine.tables.replicated.links.source.outgoing_nodes import make_outgoing
from engine.tables.replicated.replica_state import ReplicaState
from parts.common.errors import UserError
from sql.definitions.definition_text import render_create


class SourceDescription:
    """Describes the table of one replica."""

    def __init__(self, state: ReplicaState) -> None:
        self._state = state

    def describe(self, keeper: Keeper) -> SourceTable:
        """Returns the table behind everything that was committed before the call.

        Raises 48 (NOT_IMPLEMENTED) for a table without a gate, 36 without ``cluster_name``.
        """
        uuid = self._state.replication.get_cluster_uuid()
        newest = Position.parse(read_current_position(keeper, self._state.paths, uuid)).zxid
        return self.describe_at(keeper, newest)

    def describe_at(self, keeper: Keeper, newest: int, vector: VersionVector | None = None) -> SourceTable:
        """Returns the table at a place."""
        state, paths = self._state, self._state.paths
        root, gate, columns, metadata = keeper.get_many([paths.root, paths.gate, paths.columns, paths.metadata])
        if root is None or columns is None or metadata is None:
            raise missing_metadata_error(paths)
        if gate is None:
            raise UserError("NOT_IMPLEMENTED", f"Table {paths.root} has no gate: some replica does not know gates")
        found = Gate.parse(gate[0])
        uuid, lineage = state.replication.get_cluster_uuid(), Lineage.read(found)
        columns_text = columns[0].decode()
        return SourceTable(
            state.definition.database,
            state.definition.name,
            Origin.parse(f"{uuid}.{root[1].created_zxid}.{found.epoch}"),
            newest,
            render_create(state.definition.create),
            state.description.metadata_version,
            make_table_fingerprint(metadata[0].decode(), columns_text),
            lineage.list_ends(),
            columns_text,
            vector or VersionVector(),
            lineage=lineage,
            siblings=tuple(map(make_outgoing, found.links_of(LinkDirection.OUT))),
            is_target=bool(found.links_of(LinkDirection.IN)),
        )

    def read_vector(self, keeper: Keeper) -> tuple[VersionVector, int]:
        """Returns the table's vector, without its own origin, and the zxid that wrote it; 0 for none."""
        answer = keeper.get_many([self._state.paths.linked.vector])[0]
        if answer is None:
            return VersionVector(), 0
        return VersionVector.parse(answer[0]), answer[1].modified_zxid
