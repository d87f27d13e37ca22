"""A server of cluster ``east`` with tables, beside a source of which every answer is chosen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from coordination.links.cluster_identity import ClusterIdentity
from coordination.links.link_definition import LinkDefinition
from coordination.links.positions import Epoch, Origin
from coordination.links.version_vector import VersionVector
from coordination.nodes.gate import Gate
from coordination.nodes.gate_link import LinkMode
from engine.remote.linked_cluster import LinkableTable
from engine.simulator.simulated_disk import SimulatedDisk, record_syncs
from engine.simulator.simulated_servers import SimulatedServer, SimulatedServers
from engine.simulator.trace import Trace
from engine.tables.capabilities.link_status import LinkProgress
from engine.tables.capabilities.table_links import OutgoingLink, SourceTable, TableLinks, TargetState
from engine.tables.owned_table import OwnedTable
from parts.common.errors import PandoError, UserError
from parts.common.query_status import QueryStatus
from parts.common.thread_pool import run_jobs_inline
from tests.links.link_tables import WEST

EPOCH = Epoch(1, 7)
SOURCE = Origin(WEST, 17, EPOCH)
_CONFIG = {
    "cluster_name": "east",
    "macros": {"replica": "r1", "shard": "1"},
    "remote_servers": {"c": [{"replicas": [{"host": "127.0.0.1", "port": 1}]}]},
}
CREATE = "CREATE TABLE db.`{}` (k UInt64) ENGINE = ReplicatedMergeTree('/west/{}', 'r1') ORDER BY k"


@dataclass
class ChosenCluster:
    """The source. ``fails`` names a request that fails, with its error."""

    uuid: str = WEST
    origin: Origin = SOURCE
    newest: int = 100
    fails: dict[str, PandoError] = field(default_factory=dict)
    registered: dict[str, OutgoingLink] = field(default_factory=dict)
    modes: list[tuple[LinkMode | None, bool]] = field(default_factory=list)
    """The modes that were asked for, and whether the link was disabled."""
    tables: list[LinkableTable] = field(default_factory=list)

    def _ask(self, request: str) -> None:
        if request in self.fails:
            raise self.fails[request]

    def get_identity(self) -> ClusterIdentity:
        self._ask("hello")
        return ClusterIdentity("west", self.uuid)

    def describe(self, database: str, table: str) -> SourceTable:
        self._ask("describe")
        return SourceTable(database, table, self.origin, self.newest, CREATE.format(table, table), 0, "f")

    def describe_source(self, link: LinkDefinition) -> SourceTable:
        return self.describe(link.source_database, link.source_table)

    def register(self, database: str, table: str, link: OutgoingLink) -> SourceTable:
        self._ask("register")
        self.registered[link.name] = link
        return self.describe(database, table)

    def set_mode(self, database: str, table: str, link: OutgoingLink, mode: LinkMode | None) -> None:
        self._ask("mode")
        self.modes.append((mode, link.is_paused))

    def unregister(self, database: str, table: str, name: str, uuid: str) -> None:
        self._ask("unregister")
        if name in self.registered and self.registered[name].uuid == uuid:
            del self.registered[name]

    def list_tables(self, database: str) -> Sequence[LinkableTable]:
        self._ask("tables")
        return self.tables

    def add_table(self, name: str, problem: str = "") -> None:
        self.tables.append(LinkableTable(name, "" if problem else CREATE.format(name, name), problem))


@dataclass
class ChosenLinks:
    """The links of the server: only the cluster ``west`` can be asked."""

    west: ChosenCluster
    wakes: int = 0
    can_copy: bool = True
    progress: dict[str, LinkProgress] = field(default_factory=dict)

    def connect(self, cluster: str) -> ChosenCluster:
        if cluster != "west":
            raise UserError("BAD_ARGUMENTS", f"Cluster {cluster!r} is not among linked_clusters")
        return self.west

    def wake(self) -> None:
        self.wakes += 1

    def find_progress(self, name: str) -> LinkProgress | None:
        return self.progress.get(name)


@dataclass
class ChosenTable:
    """Both ends of links at a table. What is not chosen is the table's own."""

    own: Origin
    real: TableLinks
    vector: VersionVector = field(default_factory=VersionVector)
    outgoing: list[OutgoingLink] = field(default_factory=list)
    visible: PandoError | None = None

    def __getattr__(self, name: str) -> object:
        if name in ("bootstrap", "switching"):
            return getattr(self.real, name)
        return getattr(self.real.target if hasattr(self.real.target, name) else self.real.source, name)

    @property
    def source(self) -> ChosenTable:
        return self

    @property
    def target(self) -> ChosenTable:
        return self

    def read_target(self) -> TargetState:
        return TargetState(self.vector, 0, self.own)

    def wait_until_visible(self, timeout_seconds: float, status: QueryStatus) -> None:
        if self.visible is not None:
            raise self.visible

    def list_outgoing(self) -> Sequence[OutgoingLink]:
        return self.outgoing

    def unregister(self, name: str, uuid: str = "") -> None:
        self.outgoing = [link for link in self.outgoing if link.name != name]


class LinkedServer:
    """One server, its source, and the ends of links at its tables."""

    def __init__(self, servers: SimulatedServers) -> None:
        self.servers = servers
        self.server: SimulatedServer = servers.servers[0]
        self.west = ChosenCluster()
        self.links = ChosenLinks(self.west)
        self.engine = self.server.engine
        self.engine.links = self.links  # type: ignore[assignment]

    def sql(self, text: str) -> list[tuple[object, ...]]:
        return self.server.sql(text)[1]

    def fails(self, text: str) -> tuple[int, str]:
        """Returns code and message of the error that a statement raises."""
        try:
            self.sql(text)
        except PandoError as error:
            return error.code, error.message
        raise AssertionError(f"{text} raises nothing")

    def make_table(self, name: str = "orders") -> ChosenTable:
        self.sql(
            f"CREATE TABLE {name} (k UInt64) ENGINE = ReplicatedMergeTree('/east/{name}', '{{replica}}') ORDER BY k"
        )
        return self.adopt(name)

    def adopt(self, name: str) -> ChosenTable:
        """Gives a table of the server ends of links that are chosen."""
        table: OwnedTable = self.engine.catalog.table("default", name)
        assert table.replication is not None
        keeper, paths = table.replication.require_keeper(), table.replication.paths
        root = keeper.exists(paths.root)
        assert root is not None
        own = Origin(self.cluster_uuid, root.created_zxid, EPOCH)
        assert table.links is not None
        real = table.links.real if isinstance(table.links, ChosenTable) else table.links
        table.links = chosen = ChosenTable(own, real)  # type: ignore[assignment]
        return chosen

    @property
    def cluster_uuid(self) -> str:
        return self.engine.cluster_membership.get_identity(self.engine.replication.require_keeper()).uuid

    def gate(self, name: str = "orders", root: str = "") -> Gate:
        return Gate.parse(self.engine.replication.require_keeper().get(f"{root or f'/east/{name}'}/links/gate")[0])

    def has_nothing(self, name: str = "orders") -> bool:
        """Whether no link is there, in part or whole, at either side."""
        keeper = self.engine.replication.require_keeper()
        names = keeper.children("/pando/links") if keeper.exists("/pando/links") is not None else []
        incoming = f"/east/{name}/links/in"
        links = keeper.children(incoming) if keeper.exists(incoming) is not None else []
        return not (names or links or self.gate(name).links or self.west.registered)


@contextmanager
def linked_server(root: Path) -> Iterator[LinkedServer]:
    disks: dict[Path, SimulatedDisk] = {}
    with ExitStack() as stack:
        stack.enter_context(record_syncs(disks))
        stack.enter_context(run_jobs_inline())
        servers = SimulatedServers(root, 1, 1, Trace(None), disks, config_of=lambda _: _CONFIG)
        stack.callback(servers.end)
        yield LinkedServer(servers)
