"""FETCH PARTITION and PART: fetches parts of a table's replicas into ``detached/``.

The parts are those that one replica lists, the one that has executed most of its log. Each is fetched from any replica
that has it, as replicas do from one another, and checked against its own checksums. They are moved to ``detached/``
when all are here. If a part is merged meanwhile, the list is read again. A crash during the move leaves some of them
there.
"""

from __future__ import annotations

import threading
from contextlib import ExitStack
from pathlib import Path

from coordination.keeper.interface import Keeper
from coordination.nodes.paths import TablePaths
from coordination.nodes.replica_activation import find_part_holders, read_addresses
from engine.tables.replicated.follow.part_fetcher import FetchSource, PartFetcher
from engine.tables.services import TableServices
from parts.common.errors import UnavailableError, UserError
from parts.common.part_name import PartName, select_not_covered
from parts.common.query_status import QueryStatus
from parts.store.detached_parts import list_detached_by_users
from parts.store.part_store import PartStore

_ATTEMPTS = 5
_POLL_SECONDS = 0.02


class PartitionFetcher:
    """The fetches of partitions into one table."""

    def __init__(
        self, store: PartStore, services: TableServices, is_stopping: threading.Event, fetcher: PartFetcher
    ) -> None:
        self._store = store
        self._services = services
        self._is_stopping = is_stopping
        self._fetcher = fetcher

    def fetch(self, keeper: Keeper, path: str, wanted: PartName | str, status: QueryStatus) -> None:
        """Fetches parts; see :meth:`engine.tables.capabilities.table_partitions.TablePartitions.fetch`."""
        table = TablePaths(path.rstrip("/"))
        self._require_absent(wanted)
        if keeper.exists(table.replicas) is None:
            raise UserError("KEEPER_EXCEPTION", f"There is no table at {table.root} in ZooKeeper")
        for attempt in range(_ATTEMPTS):
            names = [wanted] if isinstance(wanted, PartName) else _parts_of(keeper, table, wanted)
            try:
                self._fetch_all(keeper, table, names, wanted, status)
                return
            except UnavailableError:
                if attempt == _ATTEMPTS - 1 or isinstance(wanted, PartName):
                    raise

    def _require_absent(self, wanted: PartName | str) -> None:
        """Raises an error if ``detached/`` has the part or partition already."""
        names = list_detached_by_users(self._store.detached())
        if isinstance(wanted, PartName):
            if wanted in names:
                raise UserError("DUPLICATE_DATA_PART", f"Detached part {wanted} already exists")
        elif any(name.partition_id == wanted for name in names):
            raise UserError("PARTITION_ALREADY_EXISTS", f"Detached partition {wanted} already exists")

    def _fetch_all(
        self, keeper: Keeper, table: TablePaths, names: list[PartName], wanted: PartName | str, status: QueryStatus
    ) -> None:
        store = self._store
        with ExitStack() as stack:
            fetched: list[tuple[PartName, Path]] = []
            for name in names:
                status.check()
                directory = self._fetch_one(keeper, table, name, status)
                stack.callback(store.drop_temporary, directory)
                fetched.append((name, directory))
            self._services.failpoint("fetch_partition.after_fetch")
            with store.lock:
                self._require_absent(wanted)
                for name, directory in fetched:
                    store.detached_parts.move_in(directory, name=str(name))
                store.detached_parts.sync()

    def _fetch_one(self, keeper: Keeper, table: TablePaths, name: PartName, status: QueryStatus) -> Path:
        holders = find_part_holders(keeper, table, str(name))
        self._services.random.shuffle(holders)
        known = read_addresses(keeper, table, holders)
        sources = [
            FetchSource(replica, known[replica].interserver_url, root=table.replica(replica).root)
            for replica in holders
            if replica in known
        ]
        if not sources:
            raise UnavailableError("NO_REPLICA_HAS_PART", f"No active replica of {table.root} has part {name}")

        def is_cancelled() -> bool:
            status.check()
            return self._is_stopping.is_set()

        while True:
            with self._services.fetches.try_take() as is_taken:
                if is_taken:
                    return self._fetcher.fetch_from(name, sources, is_cancelled)[0]
            status.check()
            self._services.wait(self._is_stopping, _POLL_SECONDS)


def _parts_of(keeper: Keeper, table: TablePaths, partition_id: str) -> list[PartName]:
    """Returns the partition's parts on the replica that is ahead of the others, in block order."""
    replicas = [table.replica(name) for name in keeper.children(table.replicas)]
    stats = keeper.exists_many([replica.is_active for replica in replicas])
    active = [replica for replica, stat in zip(replicas, stats, strict=True) if stat is not None]
    if not active:
        raise UserError("NO_ACTIVE_REPLICAS", f"No active replicas of {table.root}")
    pointers = keeper.get_many([replica.log_pointer for replica in active])
    queues = keeper.children_many([replica.queue for replica in active])
    done = [
        int(pointer[0] or 0) - len(queue or ()) if pointer is not None else -1
        for pointer, queue in zip(pointers, queues, strict=True)
    ]
    ahead = active[done.index(max(done))]
    listed = [PartName.parse(name) for name in keeper.children(ahead.parts)]
    names = [name for name in listed if name.partition_id == partition_id]
    if not names:
        raise UserError("PARTITION_DOESNT_EXIST", f"Partition {partition_id} of {table.root} does not exist")
    return select_not_covered(names)
