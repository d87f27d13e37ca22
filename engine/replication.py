"""What all replicated tables of a server share: the ZooKeeper session, this server's address, and part exchange."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from coordination.keeper import Keeper, SessionState
from coordination.replica_activity import ReplicaAddress
from engine.interserver.client import InterserverClient
from engine.interserver.server import InterserverServer
from engine.interserver.transfer import Transfer
from parts.errors import UnavailableError, UserError
from parts.part_name import PartName
from parts.store import Snapshot
from recovery import flags

if TYPE_CHECKING:
    from engine.config import Config

logger = logging.getLogger(__name__)

_STAGED = "/staged/"
_CONNECT_SECONDS = 5.0
"""How long a start waits for ZooKeeper before tables come up read-only."""


class PartTransport(Protocol):
    """Brings a part from another replica."""

    def fetch_part(self, base_url: str, endpoint: str, part: PartName, directory: Path, transfer: Transfer) -> None:
        """See :meth:`engine.interserver.client.InterserverClient.fetch_part`."""

    def fetch_parts(
        self, base_url: str, endpoint: str, directories: Mapping[PartName, Path], transfer: Transfer
    ) -> list[PartName]:
        """See :meth:`engine.interserver.client.InterserverClient.fetch_parts`."""

    def close(self) -> None: ...


class PartLender(Protocol):
    """A replicated table, as the part exchange sees it."""

    def lend_part(self, name: PartName) -> tuple[Snapshot, Path]:
        """Raises ``UserError`` 232 (NO_SUCH_DATA_PART)."""

    def lend_staged(self, transaction: str, place: str, name: PartName) -> tuple[Snapshot, Path]:
        """What a transaction left here, or the part ``name`` that it has become. Raises ``UserError`` 232."""

    def before_sending(self, size: int) -> None:
        """Before each piece of what was lent goes out: waits for bandwidth, and raises what ends it."""

    def on_session_change(self) -> None:
        """Called at every change of the ZooKeeper session's state; must not block."""


class Replication:
    """One per server. ``keeper`` is ``None`` when the configuration names no ZooKeeper.

    A table takes its keeper from here and keeps it, so that tables of several ZooKeeper clusters can live side by side.
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
        self._lenders: dict[str, PartLender] = {}
        self._stops: list[Callable[[], None]] = [transport.close]
        if keeper is not None:
            keeper.add_listener(self._on_state)
            self._stops.append(keeper.close)

    @classmethod
    def from_config(cls, config: Config, path: Path, failpoint: Callable[[str], None]) -> Replication:
        """Connects and listens. ZooKeeper that is away does not stop the start."""
        credentials = None
        if config.interserver_http_credentials is not None:
            credentials = (config.interserver_http_credentials.user, config.interserver_http_credentials.password)
        keeper = None
        if config.zookeeper is not None:
            from coordination.kazoo_keeper import KazooKeeper

            zookeeper = config.zookeeper
            keeper = KazooKeeper(zookeeper.hosts, zookeeper.session_timeout_ms / 1000, zookeeper.root)
            if not keeper.wait_connected(_CONNECT_SECONDS):
                logger.warning("ZooKeeper %s does not answer; replicated tables start read-only", zookeeper.hosts)
        address = ReplicaAddress(config.interserver_host, 0, config.http_port or 0)
        replication = cls(keeper, InterserverClient(credentials, failpoint), address, dict(config.macros))
        replication.default_path = config.default_replica_path
        replication.default_name = config.default_replica_name
        replication.force_restore_all = flags.take_file(path / "flags" / "force_restore_data")
        if config.interserver_http_port is not None:
            server = InterserverServer(
                config.listen_host,
                config.interserver_http_port,
                credentials,
                replication.lend_part,
                replication.before_sending,
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
        """Raises 225 (NO_ZOOKEEPER) when none is configured, 999 when there is no connection."""
        if self._keeper is None:
            raise UserError(
                "NO_ZOOKEEPER", "Replicated tables need ZooKeeper: set 'zookeeper' in the server's configuration"
            )
        if self._keeper.state is not SessionState.CONNECTED:
            raise UnavailableError("KEEPER_EXCEPTION", "No connection to ZooKeeper; try again later")
        return self._keeper

    def register(self, endpoint: str, lender: PartLender) -> None:
        """``endpoint`` is the replica's znode path, unique in the cluster."""
        self._lenders[endpoint] = lender

    def unregister(self, endpoint: str) -> None:
        self._lenders.pop(endpoint, None)

    def lend_part(self, endpoint: str, name: PartName) -> tuple[Snapshot, Path]:
        """Raises ``UserError`` 232 (NO_SUCH_DATA_PART)."""
        lender = self._lenders.get(endpoint)
        owner, _, staged = endpoint.rpartition(_STAGED)
        if lender is None and owner in self._lenders:
            transaction, _, place = staged.partition("/")
            return self._lenders[owner].lend_staged(transaction, place, name)
        if lender is None:
            raise UserError("NO_SUCH_DATA_PART", f"There is no replica {endpoint} on this server")
        return lender.lend_part(name)

    def before_sending(self, endpoint: str, size: int) -> None:
        """Raises 236 (ABORTED) when the replica sends no more, 232 when it has gone."""
        lender = self._lenders.get(endpoint) or self._lenders.get(endpoint.rpartition(_STAGED)[0])
        if lender is None:
            raise UserError("NO_SUCH_DATA_PART", f"There is no replica {endpoint} on this server")
        lender.before_sending(size)

    def _on_state(self, _: SessionState) -> None:
        for lender in list(self._lenders.values()):
            lender.on_session_change()


def staged_endpoint(endpoint: str, staged: str) -> str:
    """Of the part that the replica of ``endpoint`` holds at ``<transaction>/<place>``."""
    return f"{endpoint}{_STAGED}{staged}"
