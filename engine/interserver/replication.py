"""What all replicated tables of a server share: the ZooKeeper session, this server's address, and part exchange."""

from __future__ import annotations

import copy
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from coordination.keeper.interface import Keeper, SessionState
from coordination.nodes.replica_activation import ReplicaAddress
from engine.interserver.part_client import InterserverClient
from engine.interserver.part_server import InterserverServer
from engine.interserver.transfer import Transfer
from parts.common.errors import CorruptionError, UnavailableError, UserError
from parts.common.part_name import PartName
from parts.store.part_states import (
    Snapshot,
)
from recovery import force_restore_flag
from sql.definitions.engines.replica_location import DEFAULT_ZOOKEEPER

if TYPE_CHECKING:
    from engine.server.config import Config
    from engine.server.zookeeper_config import ZooKeeperConfig

logger = logging.getLogger(__name__)

_STAGED = "/staged/"
_CONNECT_SECONDS = 5.0
"""How long a start waits for ZooKeeper before tables come up read-only."""


class PartTransport(Protocol):
    """Brings a part from another replica."""

    def fetch_part(self, base_url: str, endpoint: str, part: PartName, directory: Path, transfer: Transfer) -> None:
        """See :meth:`engine.interserver.part_client.InterserverClient.fetch_part`."""

    def fetch_parts(
        self, base_url: str, endpoint: str, directories: Mapping[PartName, Path], transfer: Transfer
    ) -> list[PartName]:
        """See :meth:`engine.interserver.part_client.InterserverClient.fetch_parts`."""

    def part_hashes(self, base_url: str, endpoint: str, parts: Sequence[PartName]) -> dict[PartName, str]:
        """See :meth:`engine.interserver.part_client.InterserverClient.part_hashes`."""

    def close(self) -> None: ...


class PartProvider(Protocol):
    """A replicated table, as the part exchange sees it."""

    def lend_part(self, name: PartName) -> tuple[Snapshot, Path]:
        """Raises ``UserError`` 232 (NO_SUCH_DATA_PART)."""

    def part_hashes(self, names: Sequence[PartName]) -> dict[PartName, str]:
        """Content hashes of those that are active here."""

    def open_staged_part(self, transaction: str, place: str, name: PartName) -> tuple[Snapshot, Path]:
        """What a transaction left here, or the part ``name`` that it has become. Raises ``UserError`` 232."""

    def before_sending(self, size: int) -> None:
        """Before each piece of what was lent goes out: waits for bandwidth, and raises what ends it."""

    def report_corruption(self, error: CorruptionError) -> None:
        """A file of a part could not be read when it was sent."""

    def begin_session(self) -> None:
        """Called when all tables of the start are loaded, if this one was told to begin later."""

    def on_session_change(self) -> None:
        """Called at every change of the ZooKeeper session's state; must not block."""


class Replication:
    """One per server. ``keeper`` is ``None`` when the configuration names no ZooKeeper.

    A table of an auxiliary ZooKeeper takes its keeper from :meth:`at`: all else is shared.
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
        """Path and replica name of tables whose engine names none (``default_replica_path``, ``…_name``)."""
        self.force_restore_all = False
        """The server found ``flags/force_restore_data`` at its start."""
        self.are_sessions_begun_later = False
        """While a server starts: tables are read from disk at once, and take part in replication one after the other,
        in the background."""
        self.zookeeper_name = DEFAULT_ZOOKEEPER
        self.connect_auxiliary: Callable[[str], Keeper | None] = lambda name: None
        """By name; ``None`` for one that the configuration does not name. Connects."""
        self._lenders: dict[str, tuple[PartProvider, str]] = {}
        """By endpoint, with the name of the ZooKeeper that knows them."""
        self._stops: list[Callable[[], None]] = [transport.close]
        self._views: dict[str, Replication] = {DEFAULT_ZOOKEEPER: self}
        self._connecting = threading.Lock()
        self._listen()

    def _listen(self) -> None:
        if self._keeper is not None:
            self._keeper.add_listener(self._on_state)
            self._stops.append(self._keeper.close)

    def at(self, zookeeper_name: str) -> Replication:
        """What tables of this ZooKeeper share, connected when the first of them asks. One that the configuration does
        not name has no keeper."""
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

    def connected(self) -> list[Replication]:
        """The connections to every ZooKeeper that some table has asked for."""
        return [view for view in self._views.values() if view._keeper is not None]

    def end_start(self) -> None:
        """The tables of the start are loaded, and begin their sessions: what was meant for them is not meant for one
        that is attached later."""
        for view in self._views.values():
            view.force_restore_all = view.are_sessions_begun_later = False
        for lender, _ in list(self._lenders.values()):
            lender.begin_session()

    @classmethod
    def from_config(cls, config: Config, path: Path, failpoint: Callable[[str], None]) -> Replication:
        """Connects and listens. ZooKeeper that is away does not stop the start."""
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
                replication.lend_part,
                replication.before_sending,
                replication.report_corruption,
                replication.part_hashes,
            )
            server.start()
            replication.address = ReplicaAddress(config.interserver_host, server.port, config.http_port or 0)
            replication._stops.insert(0, server.stop)
        return replication

    def stop(self) -> None:
        for stop in self._stops:
            stop()

    @property
    def keeper(self) -> Keeper | None:
        return self._keeper

    def require_keeper(self) -> Keeper:
        """Raises 225 (NO_ZOOKEEPER) when none is configured, 36 for an auxiliary one that is not, 999 when there is no
        connection."""
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

    def register(self, endpoint: str, lender: PartProvider) -> None:
        """``endpoint`` is the replica's znode path. See :meth:`require_free`."""
        self.require_free(endpoint)
        self._lenders[endpoint] = lender, self.zookeeper_name

    def require_free(self, endpoint: str) -> None:
        """Raises ``UserError`` 36 for the path of a replica that this server has in another ZooKeeper.

        Other servers ask for parts by the path alone."""
        _, known_to = self._lenders.get(endpoint, (None, self.zookeeper_name))
        if known_to != self.zookeeper_name:
            raise UserError(
                "BAD_ARGUMENTS",
                f"This server has a replica {endpoint} in ZooKeeper {known_to!r} already; give the table in ZooKeeper "
                f"{self.zookeeper_name!r} another path",
            )

    def unregister(self, endpoint: str) -> None:
        if self._lenders.get(endpoint, (None, ""))[1] == self.zookeeper_name:
            del self._lenders[endpoint]

    def lend_part(self, endpoint: str, name: PartName) -> tuple[Snapshot, Path]:
        """Raises ``UserError`` 232 (NO_SUCH_DATA_PART)."""
        owner, _, staged = endpoint.rpartition(_STAGED)
        if endpoint not in self._lenders and owner in self._lenders:
            transaction, _, place = staged.partition("/")
            return self._lender(owner).open_staged_part(transaction, place, name)
        return self._lender(endpoint).lend_part(name)

    def _lender(self, *endpoints: str) -> PartProvider:
        """Of the first that there is."""
        for endpoint in endpoints:
            if endpoint in self._lenders:
                return self._lenders[endpoint][0]
        raise UserError("NO_SUCH_DATA_PART", f"There is no replica {endpoints[0]} on this server")

    def part_hashes(self, endpoint: str, names: Sequence[PartName]) -> dict[PartName, str]:
        """Content hashes of those that are active on the replica. Raises ``UserError`` 232."""
        return self._lender(endpoint).part_hashes(names)

    def before_sending(self, endpoint: str, size: int) -> None:
        """Raises 236 (ABORTED) when the replica sends no more, 232 when it has gone."""
        self._lender(endpoint, endpoint.rpartition(_STAGED)[0]).before_sending(size)

    def report_corruption(self, endpoint: str, error: CorruptionError) -> None:
        """For the replica of the endpoint, if it is here."""
        if endpoint in self._lenders:
            self._lenders[endpoint][0].report_corruption(error)

    def _on_state(self, _: SessionState) -> None:
        for lender, known_to in list(self._lenders.values()):
            if known_to == self.zookeeper_name:
                lender.on_session_change()


def _connect(zookeeper: ZooKeeperConfig | None) -> Keeper | None:
    """One that does not answer is connected to later."""
    if zookeeper is None:
        return None
    from coordination.keeper.kazoo_keeper import KazooKeeper

    keeper = KazooKeeper(zookeeper.hosts, zookeeper.session_timeout_ms / 1000, zookeeper.root)
    if not keeper.wait_connected(_CONNECT_SECONDS):
        logger.warning("ZooKeeper %s does not answer; its tables start read-only", zookeeper.hosts)
    return keeper


def make_staged_endpoint(endpoint: str, staged: str) -> str:
    """The endpoint of the part that the replica of ``endpoint`` holds at ``<transaction>/<place>``."""
    return f"{endpoint}{_STAGED}{staged}"
