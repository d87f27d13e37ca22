"""Records of the parts that a distributed scan reads, the same for all replicas and tasks.

The tasks of a job read at different times from different replicas, and some of them again. They must all see one state
of the table. The first to open the execution writes ``scans/<name>`` with the parts it saw; all others read that.

Invariants

- A record never changes: the first one stays.
- A record is removed after a day without use, or after an hour if there are many. A later task fails: a repeated task
  finds no record and must not make one (``engine.scan.leases``).
"""

from __future__ import annotations

import contextlib

from coordination.keeper.interface import BadVersion, Keeper, KeeperConnectionLoss, NodeExists, NoNode
from coordination.nodes.paths import TablePaths
from coordination.nodes.table_lists import create_lists

UNUSED_RECORD_SECONDS = 86_400.0
UNUSED_RECORD_SECONDS_WHEN_MANY = 3_600.0
MANY_RECORDS = 1_000
_ATTEMPTS = 5


class KeeperScanRecords:
    """Implements ``ScanRecords`` (``engine.tables.capabilities.scan_records``) in ZooKeeper.

    Raises the keeper's errors.
    """

    def __init__(self, keeper: Keeper, table: TablePaths) -> None:
        self._keeper = keeper
        self._table = table

    def find(self, name: str) -> bytes | None:
        """Returns the record, also if another client has just written it; ``None`` if there is none."""
        self._keeper.sync(self._table.root)
        answer = self._keeper.get_many([self._table.scan(name)])[0]
        return answer[0] if answer is not None else None

    def record(self, name: str, content: bytes) -> bytes:
        """Writes the record if there is none. Returns the one that counts."""
        path = self._table.scan(name)
        for attempt in range(_ATTEMPTS):
            try:
                self._keeper.create(path, content)
                return content
            except NoNode:
                create_lists(self._keeper, self._table, self._table.scans)
            except KeeperConnectionLoss:
                if attempt == _ATTEMPTS - 1:
                    raise
            except NodeExists:
                return self._keeper.get(path)[0]
        raise KeeperConnectionLoss(path)

    def touch(self, name: str) -> None:
        """Marks the record as used."""
        path = self._table.scan(name)
        content, stat = self._keeper.get(path)
        self._keeper.set(path, content, stat.version)


def delete_unused_scan_records(keeper: Keeper, table: TablePaths) -> int:
    """Deletes unused records and returns how many.

    Ages are measured against the record that was used last, on ZooKeeper's clock.
    """
    paths = [table.scan(name) for name in keeper.children_many([table.scans])[0] or ()]
    found = [(path, stat) for path, stat in zip(paths, keeper.exists_many(paths), strict=True) if stat is not None]
    newest_ms = max((stat.modified_ms for _, stat in found), default=0)
    kept_ms = 1000 * (UNUSED_RECORD_SECONDS if len(found) <= MANY_RECORDS else UNUSED_RECORD_SECONDS_WHEN_MANY)
    removed = 0
    for path, stat in found:
        if newest_ms - stat.modified_ms > kept_ms:
            with contextlib.suppress(NoNode, BadVersion):
                keeper.delete(path, stat.version)
                removed += 1
    return removed
