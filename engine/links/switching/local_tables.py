"""A table of this server, as switching over reads and changes its nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from coordination.keeper.interface import Keeper, Op
from coordination.links.link_nodes import StoredLink, find_link
from coordination.links.positions import Origin, Position
from coordination.links.switching.fork_commit import TableNow
from coordination.links.table_position import read_current_position
from coordination.links.version_vector import VersionVector
from coordination.nodes.gate import Gate
from coordination.nodes.gate_link import GateLink, LinkDirection
from coordination.nodes.paths import TablePaths
from coordination.nodes.replica_activation import FEATURE_LINKS
from coordination.nodes.table_gate import move_gate, move_gates
from engine.catalog.databases import Databases
from engine.interserver.replication import Replication
from engine.links.linkable_tables import explain_unlinkable, require_linkable
from engine.queries.server_links import ServerLinks
from engine.remote.cluster_membership import ClusterMembership
from engine.tables.capabilities.table_links import TableLinks
from engine.tables.owned_table import OwnedTable
from engine.tables.services import TableServices
from parts.common.errors import UserError


class SwitchingServer(Protocol):
    """A server whose tables are switched over."""

    replication: Replication
    cluster_membership: ClusterMembership
    services: TableServices
    links: ServerLinks

    @property
    def catalog(self) -> Databases[OwnedTable]:
        """The tables of the server."""


class LocalTable:
    """One linkable table of this server."""

    def __init__(self, server: SwitchingServer, table: OwnedTable) -> None:
        self.links: TableLinks = require_linkable(table)
        assert table.replication is not None
        self.server = server
        self.table = table
        self.replica = table.replication

    @property
    def name(self) -> str:
        """``database.table``."""
        return self.table.definition.full_name

    @property
    def keeper(self) -> Keeper:
        """ZooKeeper; raises 225 (NO_ZOOKEEPER) while it is away."""
        return self.replica.require_keeper()

    @property
    def paths(self) -> TablePaths:
        """The table's nodes."""
        return self.replica.paths

    def read_gate(self) -> Gate:
        """Returns the gate as it is now. Raises 48 (NOT_IMPLEMENTED) for a table without one."""
        return self.read_now().gate

    def read_now(self, *, with_changes: bool = False) -> TableNow:
        """Returns the state of the table; ``with_changes`` asks the journal too, and is for a closed table."""
        keeper, paths = self.keeper, self.paths
        own = self.server.cluster_membership.get_identity(keeper)
        last_own, newest = None, 0
        if with_changes:
            last_own = self.links.switching.find_last_own()
            newest = Position.parse(read_current_position(keeper, paths, own.uuid)).zxid
        keeper.sync(paths.root)
        root, gate, vector = keeper.get_many([paths.root, paths.gate, paths.linked.vector])
        if root is None or gate is None:
            raise UserError("NOT_IMPLEMENTED", f"Table {self.name} has no gate yet, so it has no links")
        found = Gate.parse(gate[0])
        origin = Origin.parse(f"{own.uuid}.{root[1].created_zxid}.{found.epoch}")
        parsed = VersionVector.parse(vector[0]) if vector is not None else VersionVector()
        version = vector[1].version if vector is not None else None
        newest = max(newest, gate[1].modified_zxid)  # it is closed since then
        return TableNow(paths, origin, found, gate[1].version, parsed, version, last_own, newest)

    def move_gate(
        self, change: Callable[[Gate], Gate], along: Callable[[Gate], Sequence[Op]] = lambda gate: ()
    ) -> Gate:
        """Moves the table's gate, with other operations in the same multi."""
        what = "Switching over"
        return move_gate(self.keeper, self.paths, change, along=along, feature=FEATURE_LINKS, what=what)

    def find_outgoing(self, gate: Gate, name: str, cluster: str = "") -> GateLink | None:
        """Returns the link out of this table that its target calls by the name, or that the source calls so."""
        found = [
            link
            for link in gate.links_of(LinkDirection.OUT)
            if name in (link.name, link.name.partition("/")[2]) and cluster in ("", link.peer_name)
        ]
        return found[0] if found else None


def move_all_gates(changes: Sequence[tuple[LocalTable, Callable[[Gate], Gate]]]) -> list[Gate]:
    """Moves the gates of these tables in one multi: all of them, or none."""
    tables = [(local.paths, change) for local, change in changes]
    return move_gates(changes[0][0].keeper, tables, feature=FEATURE_LINKS, what="Switching over")


def list_local_tables(server: SwitchingServer) -> list[LocalTable]:
    """Lists the linkable tables of this server that work now."""
    return [
        LocalTable(server, table)
        for table in server.catalog.tables()
        if not explain_unlinkable(table) and table.replication is not None and table.replication.problem() is None
    ]


def find_target_table(server: SwitchingServer, link: StoredLink) -> LocalTable:
    """Returns the target of a link. Raises 36 (BAD_ARGUMENTS) if it has no replica on this server."""
    found = next((each for each in list_local_tables(server) if each.paths.root == link.table.root), None)
    if found is None:
        raise UserError(
            "BAD_ARGUMENTS",
            f"The target of link {link.definition.name!r} ({link.table.root}) has no replica on this server that "
            "works: run the statement on a server that has one",
        )
    return found


def find_link_here(server: SwitchingServer, name: str, uuid: str) -> tuple[StoredLink, LocalTable] | None:
    """Returns the link of this name and UUID whose target is here; ``None`` if it is gone."""
    keeper = server.replication.require_keeper()
    keeper.sync("/")
    link = find_link(keeper, name)
    if not isinstance(link, StoredLink) or link.definition.uuid != uuid:
        return None
    return link, find_target_table(server, link)
