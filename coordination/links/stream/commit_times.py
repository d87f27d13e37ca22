"""Commit times of a ``last_writer_wins`` table: a later acknowledged INSERT has the later one.

The time of a block is the larger of two: when ZooKeeper made the node of its number, and 1 µs after the largest time in
the table. So it follows real time, and never falls behind a block that was committed before, whichever server took
that, however clocks stand and even if ZooKeeper's clock steps back.

The largest time is in the log, whose entries carry the times of their blocks, and in the node ``commit_time`` for those
that were trimmed::

    <root>/commit_time    {"version":1,"commit_time":1764230400000000,"trimmed":42}

``trimmed`` is the first log entry that was kept. The node is set before entries go, at every trimming, so its version
tells that some went.

Invariants

- Times are asked for after the block's number was taken. That write brought the session's ZooKeeper server up to date:
  every entry of a block that was acknowledged before is read.
- What was read of one session is not used in another: a table that was made anew has another log.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from coordination.inserts.block_numbers import BlockLock
from coordination.keeper.interface import ANY_VERSION, Check, Create, Get, Keeper, SetData, Stat
from coordination.links.cluster_identity import CLUSTER_PATH, ClusterIdentity
from coordination.links.positions import Origin
from coordination.log.log_entry import LogEntry
from coordination.nodes.gate import Gate
from coordination.nodes.paths import TablePaths
from parts.common.errors import CorruptionError

_FORMAT_VERSION = 1
_READ_AHEAD = 8
_NO_CLUSTER = "00000000-0000-0000-0000-000000000000"
"""The cluster of rows that were inserted before the servers had a ``cluster_name``."""
_NO_EPOCH = "0-0000000000000000"


@dataclass(frozen=True, slots=True)
class LargestTime:
    """The content of the node ``commit_time``."""

    commit_time: int = 0
    trimmed: int = 0

    def to_bytes(self) -> bytes:
        """Returns the node's content."""
        document = {"version": _FORMAT_VERSION, "commit_time": self.commit_time, "trimmed": self.trimmed}
        return json.dumps(document, separators=(",", ":")).encode()

    @classmethod
    def parse(cls, data: bytes) -> LargestTime:
        """Parses the node's content. Raises ``CorruptionError``."""
        try:
            document = json.loads(data)
            if document["version"] != _FORMAT_VERSION:
                raise ValueError(f"version {document['version']}, this server understands {_FORMAT_VERSION}")
            return cls(int(document["commit_time"]), int(document["trimmed"]))
        except (ValueError, KeyError, TypeError) as error:
            message = f"Cannot read the commit time {data[:200]!r}: {error}"
            raise CorruptionError(message, name="CORRUPTED_DATA") from error


@dataclass(frozen=True, slots=True)
class CommitVersion:
    """Time, origin and number of a block's commit. ``commit_time`` is in microseconds since 1970."""

    commit_time: int
    origin: str
    block: int


class CommitTimes:
    """The commit times of one table, as one server knows them. Thread-safe."""

    def __init__(self, table: TablePaths) -> None:
        self._table = table
        self._lock = threading.Lock()
        self._session = 0
        self._next_entry = 0
        self._node_version: int | None = None
        self._largest = 0

    def make_version(self, keeper: Keeper, lock: BlockLock, floor: int) -> CommitVersion:
        """Returns the version of a block whose number ``lock`` was just taken.

        ``floor`` is the largest commit time among the rows that the server has.
        """
        table = self._table
        with self._lock:
            taken, identity, root, gate = self._read(keeper, [lock.path, CLUSTER_PATH, table.root, table.gate])
            cluster = ClusterIdentity.parse(identity[0]).uuid if identity is not None else _NO_CLUSTER
            epoch = Gate.parse(gate[0]).epoch if gate is not None else _NO_EPOCH
            origin = Origin.parse(f"{cluster}.{root[1].created_zxid if root is not None else 0}.{epoch}")
            # Without the lock the commit will fail.
            real_time = taken[1].created_ms * 1000 if taken is not None else 0
            self._largest = max(real_time, self._largest + 1, floor + 1)
            return CommitVersion(self._largest, str(origin), lock.number)

    def read_largest(self, keeper: Keeper) -> int:
        """Returns the largest time in the table: a block whose number is taken later gets a larger one."""
        keeper.sync(self._table.root)
        with self._lock:
            self._read(keeper, [])
            return self._largest

    def keep(self, keeper: Keeper, first_kept: int) -> None:
        """Keeps the largest time in its node, before the log entries below ``first_kept`` are deleted.

        Raises ``MultiFailed`` if another replica does so at the same time.
        """
        path = self._table.commit_time
        with self._lock:
            (found,) = self._read(keeper, [path])
            former = LargestTime.parse(found[0]) if found is not None else LargestTime()
            now = LargestTime(max(former.commit_time, self._largest), max(former.trimmed, first_kept)).to_bytes()
            if found is not None:
                keeper.multi([SetData(path, now, found[1].version)])
            else:
                keeper.multi([Check(self._table.replicas), Create(path, now)])

    def _read(self, keeper: Keeper, others: Sequence[str]) -> list[tuple[bytes, Stat] | None]:
        """Reads the entries that came since the last call, and returns ``others`` as they are with them."""
        if keeper.session_id != self._session:
            self._session = keeper.session_id
            self._next_entry, self._node_version, self._largest = 0, None, 0
        while True:
            paths = [self._table.log_entry(self._next_entry + place) for place in range(_READ_AHEAD)]
            # The node comes after the entries: if one of them was trimmed, the node has changed.
            answers = [
                None if answer is None or isinstance(answer, list) else answer
                for answer in keeper.read_many([Get(path) for path in (*others, *paths, self._table.commit_time)])
            ]
            *found, node = answers[len(others) :]
            version = ANY_VERSION if node is None else node[1].version
            if version != self._node_version:
                self._node_version = version
                if node is not None:
                    known = LargestTime.parse(node[0])
                    self._largest = max(self._largest, known.commit_time)
                    self._next_entry = max(self._next_entry, known.trimmed)
                    continue
            if self._note(found) < _READ_AHEAD:
                return answers[: len(others)]

    def _note(self, entries: Iterable[tuple[bytes, Stat] | None]) -> int:
        """Notes the times of the entries up to the first missing one; returns their number."""
        count = 0
        for entry in entries:
            if entry is None:
                break
            self._largest = max(self._largest, LogEntry.parse(entry[0]).commit_time)
            count += 1
        self._next_entry += count
        return count
