"""Leases of scans as a worker takes them: the replica process holds the parts, so that any worker may read them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from engine.tables.table import Table
from engine.workers.mirror import MirrorCatalog, MirrorTable
from engine.workers.requests import RemoteReplica
from parts.part_name import PartName
from parts.reader import Part
from sql.relation import PartsSnapshot


@dataclass(frozen=True)
class RemoteLease:
    id: str
    table: Table
    parts: Mapping[PartName, Part]


class WorkerLeases:
    """Implements ``engine.scan.leases.Leases``."""

    def __init__(self, replica: RemoteReplica, catalog: MirrorCatalog) -> None:
        self._replica = replica
        self._catalog = catalog

    def open(self, table: Table, snapshot: PartsSnapshot, seconds: float, tasks: int) -> RemoteLease:
        assert isinstance(table, MirrorTable)
        lease_id = self._replica.open_lease(table.uid, [str(part.name) for part in snapshot.parts], seconds, tasks)
        snapshot.release()
        return RemoteLease(lease_id, table, {})

    @contextmanager
    def reading(self, lease_id: str, task: int | None) -> Iterator[RemoteLease | None]:
        found = self._replica.read_lease(lease_id, task)
        table = self._catalog.by_uid(found[1]) if found is not None else None
        if found is None or table is None:
            yield None
            return
        number, _, names = found
        is_whole = False
        snapshot = table.opened(names, lambda: self._replica.let_go(number, is_whole=is_whole))
        try:
            yield RemoteLease(lease_id, table, {part.name: part for part in snapshot.parts})
            is_whole = True
        finally:
            snapshot.release()

    def release(self, lease_id: str) -> bool:
        return self._replica.release_lease(lease_id)

    def expire(self) -> None:
        """The replica process does."""
