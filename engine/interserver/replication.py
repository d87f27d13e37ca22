"""The ZooKeeper session, server address and part exchange that replicated tables share."""

from __future__ import annotations

import copy
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from coordination.keeper.interface import Keeper, SessionState
from coordination.nodes.paths import TablePaths
from coordination.nodes.replica_activation import ReplicaAddress
from engine.interserver.part_client import InterserverClient
from engine.interserver.part_server import InterserverServer
from engine.interserver.protocol import StagedCopy
from engine.interserver.transfer import Transfer
from parts.common.errors import CorruptionError, UnavailableError, UserError
from parts.common.part_name import PartName
from parts.store.part_states import Snapshot
from recovery import force_restore_flag
from sql.definitions.engines.replica_location import DEFAULT_ZOOKEEPER

if TYPE_CHECKING:
    from engine.server.config import Config
    from engine.server.zookeeper_config import ZooKeeperConfig

logger = logging.getLogger(__name__)

_STAGED = "/staged/"
_CONNECT_SECONDS = 5.0
"""How long a start waits for ZooKeeper before it starts tables read-only."""


class PartTransport(Protocol):
    """Fetches parts from other replicas."""

    def fetch_part(self, base_url: str, endpoint: str, part: PartName, directory: Path, transfer: Transfer) -> None:
        """Downloads a part; see :meth:`engine.interserver.part_client.InterserverClient.fetch_part`."""

    def fetch_parts(
        self, base_url: str, endpoint: str, directories: Mapping[PartName, Path], transfer: Transfer
    ) -> list[PartName]:
        """Downloads parts; see :meth:`engine.interserver.part_client.InterserverClient.fetch_parts`."""

    def part_hashes(self, base_url: str, endpoint: str, parts: Sequence[PartName]) -> dict[PartName, str]:
        """Returns hashes; see :meth:`engine.interserver.part_client.InterserverClient.part_hashes`."""

    def stage_copies(
        self, base_url: str, endpoint: str, source: str, staging: str, copies: Sequence[StagedCopy]
    ) -> None:
        """Stages parts elsewhere; see :meth:`engine.interserver.part_client.InterserverClient.stage_copies`."""

    def close(self) -> None:
        """Closes the connections."""


class PartProvider(Protocol):
    """A replicated table, as the part exchange sees it."""

    def pin_part(self, name: PartName) -> tuple[Snapshot, Path]:
        """Returns a snapshot that holds the part, and its directory.

        Raises ``UserError`` 232 (NO_SUCH_DATA_PART).
        """

    def part_hashes(self, names: Sequence[PartName]) -> dict[PartName, str]:
        """Returns the content hashes of those of the parts that are active here."""

    def stage_copies(self, source: str, staging: str, copies: Sequence[StagedCopy]) -> None:
        """Fetches parts that the replica ``source`` has staged for a batch of a link, and stages them here."""

    def open_staged_part(self, transaction: str, place: str, name: PartName) -> tuple[Snapshot, Path]:
        """Opens the part that a transaction staged, or the part ``name`` that was made of it.

        Raises ``UserError`` 232.
        """

    def before_sending(self, size: int) -> None:
        """Called before each piece of a part is sent: waits for bandwidth, and raises if sending must end."""

    def report_corruption(self, error: CorruptionError) -> None:
        """Called when a file of a part could not be read while it was being sent."""

    def begin_session(self) -> None:
        """Called when all tables of a server's start are loaded, if the session was to begin later."""

    def on_session_change(self) -> None:
        """Called at every change of the ZooKeeper session's state; must not block."""


class Replication:
    """The connections and addresses that the replicated tables of one server share.

    ``keeper`` is ``None`` without a configured ZooKeeper. A table in an auxiliary ZooKeeper takes its keeper from
    :meth:`connect_to`; it shares everything else.
    """

    def __init__(
        self, keeper: Keeper | None, transport: PartTransport, address: ReplicaAddress, macros: dict[str, str]
    ) -> None:
        self._keeper = keeper
        self.transport = transport
        self.address = address
        self.macros = macros
        self.default_path = "/clickhouse/tables/{database}/{table}/{shard}"
        self.default_name = "{replica}"
        """Path and replica name of tables whose engine gives none (``default_replica_path``, ``…_name``)."""
        self.force_restore_all = False
        """Whether the server found ``flags/force_restore_data`` at its start."""
        self.are_sessions_begun_later = False
        """True while a server starts:

        tables are loaded at once, and begin replication one after the other later.
        """
        self.zookeeper_name = DEFAULT_ZOOKEEPER
        self.connect_auxiliary: Callable[[str], Keeper | None] = lambda name: None
        """Connects an auxiliary ZooKeeper by name; returns ``None`` if the configuration does not name it."""
        self.get_cluster_uuid: Callable[[], str] = _refuse_without_cluster
        """Returns the UUID of this server's cluster. Raises 36 (BAD_ARGUMENTS) without ``cluster_name``."""
        self.check_clients_may_write: Callable[[TablePaths, str], None] = lambda paths, name: None
        """Raises 242 (TABLE_IS_READ_ONLY) while a server that starts takes no writes for the table of this name."""
        self._providers: dict[str, tuple[PartProvider, str]] = {}
        """By endpoint, the table and the name of its ZooKeeper."""
        self._stops: list[Callable[[], None]] = [transport.close]
        self._views: dict[str, Replication] = {DEFAULT_ZOOKEEPER: self}
        self._connecting = threading.Lock()
        self._listen()

    def _listen(self) -> None:
        if self._keeper is not None:
            self._keeper.add_listener(self._on_state)
            self._stops.append(self._keeper.close)

    def connect_to(self, zookeeper_name: str) -> Replication:
        """Returns the view of this object for tables of one ZooKeeper, connecting it on first use.

        The view of a ZooKeeper that the configuration does not name has no keeper.
        """
        with self._connecting:
            if zookeeper_name not in self._views:
                view = copy.copy(self)
                view.zookeeper_name = zookeeper_name
                view._keeper = self.connect_auxiliary(zookeeper_name)
                if view._keeper is None:
                    return view
                view._listen()
                self._views[zookeeper_name] = view
            return self._views[zookeeper_name]

    def list_connected(self) -> list[Replication]:
        """Returns the views of every ZooKeeper that a table has asked for."""
        return [view for view in self._views.values() if view._keeper is not None]

    def end_start(self) -> None:
        """Begins the sessions of the tables that the start loaded.

        Flags meant for them do not apply to tables attached later.
        """
        for view in self._views.values():
            view.force_restore_all = view.are_sessions_begun_later = False
        for provider, _ in list(self._providers.values()):
            provider.begin_session()

    @classmethod
    def from_config(cls, config: Config, path: Path, failpoint: Callable[[str], None]) -> Replication:
        """Connects to ZooKeeper and listens for other replicas.

        An unreachable ZooKeeper does not stop the start.
        """
        credentials = None
        if config.interserver_http_credentials is not None:
            credentials = (config.interserver_http_credentials.user, config.interserver_http_credentials.password)
        if DEFAULT_ZOOKEEPER in config.auxiliary_zookeepers:
            raise UserError(
                "BAD_ARGUMENTS", "No auxiliary ZooKeeper can be named 'default', which is that of 'zookeeper'"
            )
        keeper = _connect(config.zookeeper)
        address = ReplicaAddress(config.interserver_host, 0, config.http_port or 0)
        replication = cls(keeper, InterserverClient(credentials, failpoint), address, dict(config.macros))
        replication.connect_auxiliary = lambda name: _connect(config.auxiliary_zookeepers.get(name))
        replication.default_path = config.default_replica_path
        replication.default_name = config.default_replica_name
        replication.force_restore_all = force_restore_flag.consume_flag_file(path / "flags" / "force_restore_data")
        if config.interserver_http_port is not None:
            server = InterserverServer(
                config.listen_host,
                config.interserver_http_port,
                credentials,
                replication.pin_part,
                replication.before_sending,
                replication.report_corruption,
                replication.part_hashes,
                replication.stage_copies,
            )
            server.start()
            replication.address = ReplicaAddress(config.interserver_host, server.port, config.http_port or 0)
            replication._stops.insert(0, server.stop)
        return replication

    def stop(self) -> None:
        """Stops the part server, the client and the ZooKeeper sessions."""
        for stop in self._stops:
            stop()

    @property
    def keeper(self) -> Keeper | None:
        """The ZooKeeper client; ``None`` if none is configured."""
        return self._keeper

    def require_keeper(self) -> Keeper:
        """Returns the connected keeper.

        Raises 225 (NO_ZOOKEEPER) if none is configured, 36 (BAD_ARGUMENTS) for an unknown auxiliary one, and 999
        (KEEPER_EXCEPTION) without a connection.
        """
        if self._keeper is None and self.zookeeper_name != DEFAULT_ZOOKEEPER:
            raise UserError(
                "BAD_ARGUMENTS",
                f"Unknown auxiliary ZooKeeper name '{self.zookeeper_name}'. If it's required you can add it to the "
                "section 'auxiliary_zookeepers' of the server's configuration",
            )
        if self._keeper is None:
            raise UserError(
                "NO_ZOOKEEPER", "Replicated tables need ZooKeeper: set 'zookeeper' in the server's configuration"
            )
        if self._keeper.state is not SessionState.CONNECTED:
            raise UnavailableError(
                "KEEPER_EXCEPTION",
                "No connection to ZooKeeper; see that the servers under 'zookeeper' in the configuration run, and try "
                "again: a session is made when one answers",
            )
        return self._keeper

    def register(self, endpoint: str, provider: PartProvider) -> None:
        """Adds the table that serves the parts of ``endpoint``, the replica's znode path.

        See :meth:`require_free`.
        """
        self.require_free(endpoint)
        self._providers[endpoint] = provider, self.zookeeper_name

    def require_free(self, endpoint: str) -> None:
        """Raises ``UserError`` 36 for the path of a replica that this server has in another ZooKeeper.

        Other servers ask for parts by the path alone.
        """
        _, known_to = self._providers.get(endpoint, (None, self.zookeeper_name))
        if known_to != self.zookeeper_name:
            raise UserError(
                "BAD_ARGUMENTS",
                f"This server has a replica {endpoint} in ZooKeeper {known_to!r} already; give the table in ZooKeeper "
                f"{self.zookeeper_name!r} another path",
            )

    def unregister(self, endpoint: str) -> None:
        """Removes the table of the endpoint, if it is a table of this ZooKeeper."""
        if self._providers.get(endpoint, (None, ""))[1] == self.zookeeper_name:
            del self._providers[endpoint]

    def pin_part(self, endpoint: str, name: PartName) -> tuple[Snapshot, Path]:
        """Returns a snapshot with the part or staged part, and its directory.

        Raises ``UserError`` 232 (NO_SUCH_DATA_PART).
        """
        owner, _, staged = endpoint.rpartition(_STAGED)
        if endpoint not in self._providers and owner in self._providers:
            transaction, _, place = staged.partition("/")
            return self._provider(owner).open_staged_part(transaction, place, name)
        return self._provider(endpoint).pin_part(name)

    def _provider(self, *endpoints: str) -> PartProvider:
        """Returns the table of the first endpoint that is registered."""
        for endpoint in endpoints:
            if endpoint in self._providers:
                return self._providers[endpoint][0]
        raise UserError("NO_SUCH_DATA_PART", f"There is no replica {endpoints[0]} on this server")

    def part_hashes(self, endpoint: str, names: Sequence[PartName]) -> dict[PartName, str]:
        """Returns the content hashes of those of the parts that are active on the replica.

        Raises ``UserError`` 232.
        """
        return self._provider(endpoint).part_hashes(names)

    def stage_copies(self, endpoint: str, source: str, staging: str, copies: Sequence[StagedCopy]) -> None:
        """Makes the replica stage parts that the replica ``source`` has staged. Raises ``UserError`` 232."""
        self._provider(endpoint).stage_copies(source, staging, copies)

    def before_sending(self, endpoint: str, size: int) -> None:
        """Waits until ``size`` bytes may be sent.

        Raises 236 (ABORTED) if the replica sends no more, 232 if it is gone.
        """
        self._provider(endpoint, endpoint.rpartition(_STAGED)[0]).before_sending(size)

    def report_corruption(self, endpoint: str, error: CorruptionError) -> None:
        """Reports a corrupt part to the replica of the endpoint, if it is here."""
        if endpoint in self._providers:
            self._providers[endpoint][0].report_corruption(error)

    def _on_state(self, _: SessionState) -> None:
        for provider, known_to in list(self._providers.values()):
            if known_to == self.zookeeper_name:
                provider.on_session_change()


def _refuse_without_cluster() -> str:
    raise UserError("BAD_ARGUMENTS", "This server belongs to no cluster: its configuration has no cluster_name")


def _connect(zookeeper: ZooKeeperConfig | None) -> Keeper | None:
    """Connects to a ZooKeeper. One that does not respond is connected to later."""
    if zookeeper is None:
        return None
    from coordination.keeper.kazoo_keeper import KazooKeeper

    keeper = KazooKeeper(zookeeper.hosts, zookeeper.session_timeout_ms / 1000, zookeeper.root)
    if not keeper.wait_connected(_CONNECT_SECONDS):
        logger.warning("ZooKeeper %s does not answer; its tables start read-only", zookeeper.hosts)
    return keeper


def make_staged_endpoint(endpoint: str, staged: str) -> str:
    """Returns the endpoint of a staged part, which ``endpoint`` holds at ``<transaction>/<place>``."""
    return f"{endpoint}{_STAGED}{staged}"
