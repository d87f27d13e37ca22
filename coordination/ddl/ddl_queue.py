"""The queue of distributed DDL in ZooKeeper, whose statements each server executes in order.

::

    <path>/query-NNNNNNNNNN          a statement (``ddl_entry``); empty while it is being removed
           active/<host>             ephemeral: the server executes it now; holds the server's UUID
           began/<host>              written before a server executes it; holds the name of its process
           finished/<host>           the outcome there
           shards/<n>/lock           ephemeral: the replica of the shard that executes it for all of them
           shards/<n>/began          as above, of that replica
           shards/<n>/executed       its outcome, which the other replicas copy
    <replicas path>/<host>/active    ephemeral: a server that reads the queue

Invariants
- Nodes below an entry are written in a multi that checks that the entry exists and is not being removed.
- ``began`` is durable before anything is done. A server that finds it written by another process than its own knows
  that the statement may have been executed.
- ``finished`` and ``executed`` are written once and never changed.

``engine.distributed_ddl`` decides which server executes an entry. Source: ClickHouse documentation, "Distributed DDL".
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from coordination.ddl.ddl_entry import DdlEntry, DdlHost, DdlOutcome
from coordination.keeper.interface import (
    Check,
    Create,
    Delete,
    Keeper,
    KeeperConnectionLoss,
    KeeperError,
    MultiFailed,
    NodeExists,
    NoNode,
    Op,
    Watch,
    check_not_exists,
)
from parts.common.errors import PandoError
from parts.common.safe_names import check_znode_path

_NAME = re.compile(r"query-\d{10}\Z")
_PARTS = ("active", "began", "finished", "shards")
_WRITTEN_ONCE = 0
"""The version of an entry that is not being removed."""


class EntryGone(PandoError):
    """The entry was removed from the queue, or is being removed."""

    def __init__(self, name: str) -> None:
        super().__init__("UNFINISHED", f"The entry {name} is no longer in the queue of distributed DDL")


@dataclass(frozen=True, slots=True)
class DdlStatus:
    """The progress of an entry: host ids, their outcomes, and the times they finished (ZooKeeper's)."""

    active: frozenset[str]
    finished: dict[str, DdlOutcome]
    finished_ms: dict[str, int]


class DdlQueue:
    """The queue at ``path``; ``replicas_path`` lists its readers.

    Both are configured in ``distributed_ddl``.
    """

    def __init__(self, path: str, replicas_path: str) -> None:
        check_znode_path("path of distributed_ddl", path)
        check_znode_path("replicas_path of distributed_ddl", replicas_path)
        self.path = path
        self._replicas_path = replicas_path

    def entry_path(self, name: str) -> str:
        """Returns the path of an entry."""
        return f"{self.path}/{name}"

    # -- entries --------------------------------------------------------------------------------------------------

    def add(self, keeper: Keeper, entry: DdlEntry) -> str:
        """Adds an entry and returns its name. After a lost connection it may have been added."""
        keeper.create_parents(self.path)
        name = keeper.create(f"{self.path}/query-", entry.encode(), sequential=True).rpartition("/")[2]
        with contextlib.suppress(KeeperError, KeeperConnectionLoss, EntryGone):  # otherwise a server makes them
            self._make_parts(keeper, name, len(entry.shards))
        return name

    def _make_parts(self, keeper: Keeper, name: str, shards: int) -> None:
        base = self.entry_path(name)
        ops: list[Op] = [Check(base, _WRITTEN_ONCE), *(Create(f"{base}/{part}") for part in _PARTS)]
        ops += [Create(f"{base}/shards/{number}") for number in range(shards)]
        try:
            keeper.multi(ops)
        except MultiFailed as error:
            if not isinstance(error.cause, NodeExists):
                raise EntryGone(name) from None

    def names(self, keeper: Keeper, watch: Watch | None = None) -> list[str]:
        """Lists the names of all entries, in the order of the queue."""
        try:
            found = keeper.children(self.path, watch)
        except NoNode:
            keeper.create_parents(self.path)
            found = keeper.children(self.path, watch)
        return [name for name in found if _NAME.match(name)]

    def read(self, keeper: Keeper, names: Sequence[str]) -> list[tuple[bytes, str]]:
        """Reads entries, each with its identity. Both are empty if the entry is removed or being removed.

        No other entry of that name, even in another ZooKeeper's history, has the same identity.
        """
        found = keeper.get_many([self.entry_path(name) for name in names])
        return [
            (answer[0], f"{answer[1].created_zxid}.{answer[1].created_ms}") if answer is not None else (b"", "")
            for answer in found
        ]

    def status(self, keeper: Keeper, name: str, watch: Watch | None = None) -> DdlStatus:
        """Returns the progress. ``watch`` is called when a server finishes or the entry is removed."""
        base = self.entry_path(name)
        try:
            hosts = keeper.children(f"{base}/finished", watch)
        except NoNode:
            return DdlStatus(frozenset(), {}, {})
        answers = dict(zip(hosts, keeper.get_many([f"{base}/finished/{host}" for host in hosts]), strict=True))
        known = {host: answer for host, answer in answers.items() if answer is not None}
        active = keeper.children_many([f"{base}/active"])[0] or []
        return DdlStatus(
            frozenset(active),
            {host: DdlOutcome.decode(data) for host, (data, _) in known.items()},
            {host: stat.created_ms for host, (_, stat) in known.items()},
        )

    # -- what a server does with one ------------------------------------------------------------------------------

    def is_finished(self, keeper: Keeper, name: str, host: DdlHost) -> bool:
        """Tells whether the host has finished the entry."""
        return keeper.exists(f"{self.entry_path(name)}/finished/{host.id}") is not None

    def begin(self, keeper: Keeper, name: str, entry: DdlEntry, host: DdlHost, process: str) -> str:
        """Notes that ``process`` begins. Returns the process that began first."""
        return self._begin(keeper, name, entry, f"{self.entry_path(name)}/began/{host.id}", process)

    def begin_shard(self, keeper: Keeper, name: str, entry: DdlEntry, shard: int, process: str) -> str:
        """Notes that ``process`` begins for its shard. Returns the process that began first."""
        return self._begin(keeper, name, entry, f"{self._shard(name, shard)}/began", process)

    def _begin(self, keeper: Keeper, name: str, entry: DdlEntry, path: str, process: str) -> str:
        try:
            self._below(keeper, name, entry, [Create(path, process.encode())])
        except NodeExists:
            return keeper.get(path)[0].decode()
        return process

    def become_active(self, keeper: Keeper, name: str, entry: DdlEntry, host: DdlHost, server: str) -> bool:
        """Marks the host as active. Returns ``False`` while another server claims to be this host.

        ``server`` is this server's UUID.
        """
        path = f"{self.entry_path(name)}/active/{host.id}"
        return self._own(keeper, path, server, lambda op: self._below(keeper, name, entry, [op]))

    def lock_shard(self, keeper: Keeper, name: str, entry: DdlEntry, shard: int, server: str) -> bool:
        """Locks the shard. Returns ``False`` while another replica has the lock, or when it has finished."""
        path, executed = f"{self._shard(name, shard)}/lock", f"{self._shard(name, shard)}/executed"
        if keeper.exists(executed) is not None:
            return False
        return self._own(
            keeper, path, server, lambda op: self._below(keeper, name, entry, [*check_not_exists(executed), op])
        )

    def _own(self, keeper: Keeper, path: str, server: str, create: Callable[[Create], object]) -> bool:
        """Creates an ephemeral node of this session. Returns ``False`` if another server has it.

        A node that this server's former session left is deleted: the server alone uses its directory, so nobody works
        for that session any more.
        """
        try:
            create(Create(path, server.encode(), ephemeral=True))
            return True
        except NodeExists:
            pass
        with contextlib.suppress(NoNode):
            data, stat = keeper.get(path)
            if stat.ephemeral_owner == keeper.session_id:
                return True
            if data.decode() == server:
                keeper.delete(path, stat.version)
        return False

    def unlock_shard(self, keeper: Keeper, name: str, shard: int) -> None:
        """Unlocks a shard for which nothing was done: another replica may try."""
        base = self._shard(name, shard)
        keeper.multi([Delete(f"{base}/began"), Delete(f"{base}/lock")])

    def read_outcome(self, keeper: Keeper, name: str, shard: int, watch: Watch | None = None) -> DdlOutcome | None:
        """Returns the outcome of the shard; ``None`` if there is none yet."""
        path = f"{self._shard(name, shard)}/executed"
        if keeper.exists(path, watch) is None:
            return None
        answer = keeper.get_many([path])[0]
        return DdlOutcome.decode(answer[0]) if answer is not None else None

    def finish(self, keeper: Keeper, name: str, entry: DdlEntry, hosts: Sequence[DdlHost], outcome: DdlOutcome) -> None:
        """Writes the outcome of the hosts, and that they are no longer active."""
        for host in hosts:
            base, data = self.entry_path(name), outcome.encode()
            with contextlib.suppress(NodeExists):
                self._below(keeper, name, entry, [Create(f"{base}/finished/{host.id}", data)])
            with contextlib.suppress(NoNode):
                keeper.delete(f"{base}/active/{host.id}")

    def finish_shard(self, keeper: Keeper, name: str, entry: DdlEntry, shard: int, outcome: DdlOutcome) -> DdlOutcome:
        """Writes the shard's outcome. Returns the one that counts, which was written first."""
        base = self._shard(name, shard)
        try:
            self._below(keeper, name, entry, [Create(f"{base}/executed", outcome.encode())])
        except NodeExists:
            outcome = DdlOutcome.decode(keeper.get(f"{base}/executed")[0])
        lock = keeper.exists(f"{base}/lock")
        if lock is not None and lock.ephemeral_owner == keeper.session_id:
            with contextlib.suppress(NoNode):
                keeper.delete(f"{base}/lock")
        return outcome

    def _shard(self, name: str, shard: int) -> str:
        return f"{self.entry_path(name)}/shards/{shard}"

    def _below(self, keeper: Keeper, name: str, entry: DdlEntry, ops: Sequence[Op]) -> None:
        """Writes below an entry. Raises :class:`NodeExists` if a node exists, and :class:`EntryGone`."""
        base = self.entry_path(name)
        for _ in range(2):
            try:
                keeper.multi([Check(base, _WRITTEN_ONCE), *ops])
                return
            except MultiFailed as error:
                if error.index and isinstance(error.cause, NodeExists):
                    raise error.cause from None
                if not error.index or not isinstance(error.cause, NoNode):
                    raise EntryGone(name) from None
                self._make_parts(keeper, name, len(entry.shards))
        raise EntryGone(name)

    # -- who reads the queue --------------------------------------------------------------------------------------

    def announce(self, keeper: Keeper, host_id: str, server: str) -> bool:
        """Announces that the server reads the queue, as long as the session lives.

        Returns ``False`` while another server announces the same host.
        """
        base = f"{self._replicas_path}/{host_id}"
        keeper.create_parents(base)
        return self._own(keeper, f"{base}/active", server, lambda op: keeper.create(op.path, op.data, ephemeral=True))

    def list_readers(self, keeper: Keeper, host_ids: Sequence[str]) -> set[str]:
        """Returns those of the hosts that read the queue now."""
        found = keeper.exists_many([f"{self._replicas_path}/{host_id}/active" for host_id in host_ids])
        return {host_id for host_id, stat in zip(host_ids, found, strict=True) if stat is not None}
