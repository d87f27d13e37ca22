"""Activate a replica: its ephemeral node ``is_active``, and its addresses and features in ``host``.

Both are written in one multi, so ``host``'s version is an *activation epoch*: it grows by one at each activation and
never otherwise. An operation that must not outlive the activation checks both nodes (``Activation.checks``).

``is_active`` holds the identity of the server process's data, a random text kept with the data. It distinguishes our
own former session, whose node is about to vanish, from another server with the same replica name (253).
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass

from coordination.keeper.interface import (
    BadVersion,
    Check,
    Create,
    Delete,
    Keeper,
    KeeperConnectionLoss,
    KeeperSessionExpired,
    KeeperUnavailable,
    MultiFailed,
    NodeExists,
    NoNode,
    Op,
    SetData,
    Stat,
)
from coordination.nodes.paths import ReplicaPaths, TablePaths
from parts.common.errors import CorruptionError, UnavailableError, UserError

FEATURE_REPLACE_RANGE = "exchange"
"""The replica carries out entries of type REPLACE_RANGE."""
FEATURE_DROP_PART = "parts"
"""DROP_PART is carried out before later merges, and ATTACH_PART takes parts from ``detached/``."""
FEATURE_COLUMN_HISTORY = "alter"
"""The columns in ZooKeeper may have a history, by which older parts are read."""
FEATURE_TRANSACTION_QUORUM = "exchange quorum"
"""The parts of a transaction may wait for a quorum together."""
FEATURE_SKIP_INDEXES = "indexes"
"""Skip indexes may be stored beside the columns in ZooKeeper."""
FEATURE_MUTATE_PART = "mutate"
"""The replica carries out entries of type MUTATE_PART, and its drops take mutated parts too."""
FEATURE_TTL = "ttl"
"""TTL may be stored beside the columns in ZooKeeper, and merges name the time at which they apply it."""
FEATURE_CONSTRAINTS = "constraints"
"""Constraints may be stored beside the columns in ZooKeeper."""
FEATURE_CHANGED_KEYS = "keys"
"""A changed sorting or sampling key may be stored beside the columns in ZooKeeper."""
FEATURE_TEXT_INDEXES = "text indexes"
"""Skip indexes may be of type text."""
FEATURE_FORGET_PARTITION = "forget"
"""A partition's node may have another name than the partition (``partition_nodes``)."""
FEATURE_OPTIMIZE_CLEANUP = "cleanup"
"""A merge may remove rows marked as deleted (OPTIMIZE … CLEANUP)."""
FEATURE_VIEWS = "views"
"""A block's id may name the materialized views that miss the block (``block_views``)."""
FEATURE_GATE = "gate"
"""The replica's commits check the table's gate (``table_gate``)."""
FEATURE_LINKS = "links"
"""The replica keeps changes and blocks while its gate names links, and refuses what links cannot carry."""
FEATURE_TOMBSTONES = "tombstones"
"""A merge of a whole partition removes tombstones up to a time (``LogEntry.stable_time``)."""
FEATURE_TRANSACTION_VERSIONS = "transaction versions"
"""The rows of a transaction get their version when it is carried out (``LogEntry.origin``)."""
FEATURE_LINK_GROUPS = "link groups"
"""The replica shows the tables of a group of links at one cut (``LogEntry.extra``: ``cut``)."""
FEATURE_SYNC_LINKS = "sync links"
"""The replica's INSERTs are staged at the targets of synchronous links (``GateLink.state``)."""
FEATURE_ROW_PLACES = "row places"
"""The replica's parts keep the places of rows, and mutations may go by them (``gate_commands``)."""
FEATURE_GROUP_MUTATIONS = "group mutations"
"""Shows a cut of a group when the mutations in it are done."""
FEATURE_TOLD_CUTS = "told cuts"
"""Tells which cut of a group it shows, for INSERTs that wait for it (``coordination.links.groups.told_cut``)."""
FEATURES = (
    FEATURE_REPLACE_RANGE,
    FEATURE_DROP_PART,
    FEATURE_COLUMN_HISTORY,
    FEATURE_TRANSACTION_QUORUM,
    FEATURE_SKIP_INDEXES,
    FEATURE_MUTATE_PART,
    FEATURE_TTL,
    FEATURE_CONSTRAINTS,
    FEATURE_CHANGED_KEYS,
    FEATURE_TEXT_INDEXES,
    FEATURE_FORGET_PARTITION,
    FEATURE_OPTIMIZE_CLEANUP,
    FEATURE_VIEWS,
    FEATURE_GATE,
    FEATURE_LINKS,
    FEATURE_TOMBSTONES,
    FEATURE_TRANSACTION_VERSIONS,
    FEATURE_LINK_GROUPS,
    FEATURE_GROUP_MUTATIONS,
    FEATURE_TOLD_CUTS,
    FEATURE_SYNC_LINKS,
    FEATURE_ROW_PLACES,
)
"""The features of this version that an older one may lack. Nothing is logged that a replica cannot carry out."""


@dataclass(frozen=True, slots=True)
class ReplicaAddress:
    """The addresses and features of a replica.

    Other replicas connect to ``interserver_port``, clients to ``http_port``.
    """

    host: str
    interserver_port: int
    http_port: int = 0
    scheme: str = "http"
    features: tuple[str, ...] = FEATURES

    @property
    def url_host(self) -> str:
        """The host as a URL has it."""
        return f"[{self.host}]" if ":" in self.host else self.host

    @property
    def interserver_url(self) -> str:
        """The URL for other replicas."""
        return f"{self.scheme}://{self.url_host}:{self.interserver_port}"

    def to_bytes(self) -> bytes:
        """Returns the content of ``host`` as JSON."""
        document = {
            "version": 1,
            "host": self.host,
            "interserver_port": self.interserver_port,
            "http_port": self.http_port,
            "scheme": self.scheme,
            "features": list(self.features),
        }
        return json.dumps(document, separators=(",", ":")).encode()

    @classmethod
    def parse(cls, data: bytes) -> ReplicaAddress:
        """Parses the content of ``host``. Raises ``CorruptionError``."""
        try:
            document = json.loads(data)
            return cls(
                document["host"],
                document["interserver_port"],
                document.get("http_port", 0),
                document["scheme"],
                tuple(document.get("features", ())),
            )
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptionError(f"Cannot read replica address {data[:200]!r}", name="CORRUPTED_DATA") from error


@dataclass(frozen=True, slots=True)
class Activation:
    """Proof that a session activated a replica: the session and the versions of its two nodes."""

    replica: ReplicaPaths
    session_id: int
    host_version: int
    is_active_version: int = 0

    @property
    def checks(self) -> tuple[Op, ...]:
        """Operations that fail a multi once this activation is over."""
        return (
            Check(self.replica.is_active, self.is_active_version),
            Check(self.replica.host, self.host_version),
        )

    def holds(self, is_active: Stat | None, host: Stat | None) -> bool:
        """Returns whether the stats of the two nodes are still those of this activation."""
        return (
            is_active is not None
            and host is not None
            and is_active.ephemeral_owner == self.session_id
            and is_active.version == self.is_active_version
            and host.version == self.host_version
        )


def activate(
    keeper: Keeper,
    replica: ReplicaPaths,
    address: ReplicaAddress,
    identity: str,
    *,
    wait_seconds: float = 60.0,
    is_stopping: Callable[[], bool] = lambda: False,
    clock: Callable[[], float],
    wait: Callable[[threading.Event, float], object],
    takes_over: bool = False,
) -> Activation:
    """Makes the replica active. Can be repeated in one session.

    ``takes_over``: a former session of the same identity is certainly over, because this process now holds the lock on
    the data. Its node is then removed instead of waited for.

    Raises ``UserError`` 253 when another server is active under this name. Raises ``UnavailableError`` when our own
    former session does not end within ``wait_seconds``, 225 when the replica's nodes are missing.
    """
    deadline = clock() + wait_seconds
    while True:
        session = keeper.session_id
        try:
            results = keeper.multi(
                [
                    Create(replica.is_active, identity.encode(), ephemeral=True),
                    SetData(replica.host, address.to_bytes()),
                ]
            )
            return Activation(replica, session, results[1].version)  # type: ignore[union-attr]
        except MultiFailed as error:
            if isinstance(error.cause, NoNode):
                raise UnavailableError(
                    "NO_ZOOKEEPER", f"Replica nodes are missing in ZooKeeper: {replica.root}"
                ) from error
            if not isinstance(error.cause, NodeExists):
                raise error.cause from error
        except KeeperConnectionLoss:
            if clock() >= deadline:
                raise
        mine = _own_activation(keeper, replica, identity, address)
        if mine is not None:
            return mine
        if takes_over and clock() < deadline:
            end_former_activation(keeper, replica, identity)
            continue
        if not _wait_gone(keeper, replica.is_active, deadline, clock, wait, is_stopping):
            raise UnavailableError(
                "REPLICA_ALREADY_EXISTS",
                f"The former session of this replica still holds {replica.is_active}; it ends by its time-out, retry",
            )


def _own_activation(keeper: Keeper, replica: ReplicaPaths, identity: str, address: ReplicaAddress) -> Activation | None:
    """Returns the activation that this session made although its answer was lost.

    ``None``: the node is gone or belongs to our former session. Raises 253 if another server holds it.
    """
    keeper.sync(replica.root)
    try:
        data, stat = keeper.get(replica.is_active)
        host, host_stat = keeper.get(replica.host)
    except NoNode:
        return None
    if stat.ephemeral_owner == keeper.session_id:
        if host != address.to_bytes():
            host_stat = keeper.set(replica.host, address.to_bytes(), host_stat.version)
        return Activation(replica, stat.ephemeral_owner, host_stat.version, stat.version)
    if data.decode(errors="replace") == identity:
        return None
    raise UserError(
        "REPLICA_ALREADY_EXISTS",
        f"Replica {replica.root} is active on another server ({_describe(host)}); "
        "give every server its own {replica}",
    )


def end_former_activation(keeper: Keeper, replica: ReplicaPaths, identity: str) -> None:
    """Ends the activation of a former session of the same identity, which must certainly be over.

    It never ends another server's activation: the expected version fails if the node was made anew meanwhile.
    """
    try:
        data, stat = keeper.get(replica.is_active)
        if data.decode(errors="replace") == identity:
            keeper.delete(replica.is_active, stat.version)
    except (NoNode, BadVersion, KeeperConnectionLoss):
        return


def _describe(host: bytes) -> str:
    try:
        return ReplicaAddress.parse(host).interserver_url
    except CorruptionError:
        return "unknown address"


def _wait_gone(
    keeper: Keeper,
    path: str,
    deadline: float,
    clock: Callable[[], float],
    wait: Callable[[threading.Event, float], object],
    is_stopping: Callable[[], bool],
) -> bool:
    while not is_stopping():
        changed = threading.Event()
        if keeper.exists(path, lambda _, event=changed: event.set()) is None:  # type: ignore[misc]
            return True
        left = deadline - clock()
        if left <= 0:
            return False
        wait(changed, min(left, 0.5))
    return False


def deactivate(keeper: Keeper, activation: Activation) -> None:
    """Ends the activation at a graceful stop. Ignores errors: the session's end does the same."""
    try:
        stat = keeper.exists(activation.replica.is_active)
        if stat is not None and stat.ephemeral_owner == keeper.session_id:
            keeper.multi([*activation.checks, Delete(activation.replica.is_active)])
    except (MultiFailed, KeeperConnectionLoss, KeeperUnavailable, KeeperSessionExpired):
        return


def is_still_active(keeper: Keeper, activation: Activation) -> bool:
    """Asks ZooKeeper, after a ``sync``, whether this activation holds."""
    keeper.sync(activation.replica.root)
    return activation.holds(*keeper.exists_many([activation.replica.is_active, activation.replica.host]))


def list_registered_replicas(keeper: Keeper, table: TablePaths) -> list[str]:
    """Lists the replicas, without those whose drop was interrupted: they lack ``host``, perhaps more."""
    names = keeper.children(table.replicas)
    hosts = keeper.exists_many([table.replica(name).host for name in names])
    return [name for name, host in zip(names, hosts, strict=True) if host is not None]


def read_replica_activity(keeper: Keeper, table: TablePaths) -> dict[str, bool]:
    """Returns every replica of the table and whether it is active now."""
    names = keeper.children(table.replicas)
    stats = keeper.exists_many([table.replica(name).is_active for name in names])
    return {name: stat is not None for name, stat in zip(names, stats, strict=True)}


def read_addresses(keeper: Keeper, table: TablePaths, names: list[str]) -> dict[str, ReplicaAddress]:
    """Returns the addresses of those replicas that have one. Leaves out unreadable ones."""
    found: dict[str, ReplicaAddress] = {}
    for name, answer in zip(names, keeper.get_many([table.replica(n).host for n in names]), strict=True):
        if answer is not None and answer[0]:
            try:
                found[name] = ReplicaAddress.parse(answer[0])
            except CorruptionError:
                continue
    return found


def find_part_holders(keeper: Keeper, table: TablePaths, part: str, *, excluding: str = "") -> list[str]:
    """Lists the active replicas that have exactly this part."""
    names = [name for name in keeper.children(table.replicas) if name != excluding]
    stats = keeper.exists_many(
        [path for n in names for path in (table.replica(n).is_active, table.replica(n).part(part))]
    )
    return [name for i, name in enumerate(names) if stats[2 * i] is not None and stats[2 * i + 1] is not None]


def find_replica_without(keeper: Keeper, table: TablePaths, feature: str) -> str | None:
    """Returns the name of a replica that lacks the feature, or ``None``.

    A replica that never ran counts as a new version.
    """
    names = keeper.children(table.replicas)
    for name, answer in zip(names, keeper.get_many([table.replica(name).host for name in names]), strict=True):
        if answer is not None and answer[0] and feature not in ReplicaAddress.parse(answer[0]).features:
            return name
    return None


def require_feature(keeper: Keeper, table: TablePaths, feature: str, what: str) -> None:
    """Raises ``UserError`` 48 (NOT_IMPLEMENTED) naming a replica that lacks the feature."""
    if (name := find_replica_without(keeper, table, feature)) is not None:
        raise _make_missing_feature_error(name, what)


def _make_missing_feature_error(name: str, what: str) -> UserError:
    return UserError(
        "NOT_IMPLEMENTED",
        f"{what} is not possible yet: replica {name!r} runs a version that does not know it. Upgrade it, or take it "
        "away with SYSTEM DROP REPLICA",
    )


def feature_checks(keeper: Keeper, table: TablePaths, feature: str, what: str) -> list[Op]:
    """Returns checks for a multi that may only happen while all replicas have the feature.

    They fail if a replica came, or was activated again, since. Raises ``UserError`` 48 (NOT_IMPLEMENTED).
    """
    replicas = keeper.get(table.replicas)[1]
    names = keeper.children(table.replicas)
    checks: list[Op] = [Check(table.replicas, replicas.version)]
    for name, answer in zip(names, keeper.get_many([table.replica(n).host for n in names]), strict=True):
        if answer is None:  # it is being dropped
            continue
        data, stat = answer
        if data and feature not in ReplicaAddress.parse(data).features:
            raise _make_missing_feature_error(name, what)
        checks.append(Check(table.replica(name).host, stat.version))
    return checks
