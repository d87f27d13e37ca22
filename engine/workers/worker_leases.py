"""Scan leases of a worker. The replica process holds the parts, so that any worker may read them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from engine.scan.leases import ScanOpening
from engine.scan.slot_planning import Steps
from engine.tables.capabilities.block_history import BlockHistory
from engine.workers.catalog_mirror import WorkerTable
from engine.workers.replica_client import ReplicaProcessClient
from parts.common.part_name import PartName
from parts.read.part_reader import Part


@dataclass(frozen=True)
class RemoteLease:
    """A lease whose parts the replica process holds."""

    parts: Sequence[Part]
    steps: Steps
    metadata_version: int


class WorkerLeases:
    """The leases as a worker takes them. Implements ``engine.scan.leases.Leases``."""

    def __init__(self, replica: ReplicaProcessClient) -> None:
        self._replica = replica

    @contextmanager
    def reading(self, table: WorkerTable, opening: ScanOpening) -> Iterator[RemoteLease]:
        """Holds the execution's lease during one read."""
        number, names, steps, version = self._replica.read_scan(table.uid, opening)
        snapshot = table.open_pinned(names, lambda: self._replica.unpin(number))
        try:
            yield RemoteLease(snapshot.parts, dict(zip(map(PartName.parse, names), steps, strict=True)), version)
        finally:
            snapshot.release()

    def release(self, table: WorkerTable, name: str) -> bool:
        """Ends a lease early."""
        return self._replica.release_scan(table.uid, name)

    def history(self, table: WorkerTable, max_delay_seconds: float) -> BlockHistory:
        """Returns the table's block history."""
        return self._replica.scan_history(table.uid, max_delay_seconds)

    def expire(self) -> None:
        """Nothing to do here: the replica process ends leases."""
