"""Sweeps of faults over an operation in a colony: it is hit at its n-th request, fsync or file operation."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable

from coordination.keeper.memory_keeper import Fault
from engine.simulator.disk_operations import CHANGES, GROWTH, DiskOperation
from engine.simulator.simulated_cluster import SimulatedCluster
from engine.simulator.simulated_node import SimulatedNode
from engine.simulator.simulated_servers import SimulatedServer, SimulatedServers

FAULTS = [Fault.LOSE_REQUEST, Fault.LOSE_ANSWER, Fault.EXPIRE, Fault.EXPIRE_AFTER, "crash"]
SYNC_FAULTS = [errno.EIO, errno.ENOSPC, "crash", "power cut"]
DISK_FAULTS = {errno.EIO: None, errno.ENOSPC: GROWTH, errno.EROFS: CHANGES}
"""Error → the kinds of file operations that it meets (``None``: all)."""


def hit_request(
    colony: SimulatedCluster, number: int, fault: Fault | str, look: Callable[[], None] = lambda: None
) -> list[str]:
    """From now on, whoever makes the request of this number; 0 hits none. The list gets every request; ``look`` is
    called before each."""
    seen: list[str] = []

    def on_request(node: SimulatedNode, kind: str, path: str) -> Fault | None:
        look()
        seen.append(f"{node.name} {kind} {path}")
        if len(seen) != number:
            return None
        if isinstance(fault, Fault):
            return fault
        node.crash_here()
        return None

    colony.on_request = on_request
    return seen


def hit_sync(servers: SimulatedServers, number: int, fault: int | str) -> list[str]:
    """As :func:`hit_request`, of fsyncs; ``fault`` is an error's number, or how the server ends."""
    seen: list[str] = []

    def on_sync(server: SimulatedServer) -> None:
        seen.append(server.name)
        if len(seen) == number:
            if isinstance(fault, int):
                raise OSError(fault, "fsync failed")
            servers.power_cut_rate = float(fault == "power cut")
            server.crash_here()

    servers.on_sync = on_sync
    return seen


def hit_disk(servers: SimulatedServers, number: int, fault: int) -> list[DiskOperation]:
    """As :func:`hit_request`, of file operations, while ``servers.watch_disks()``. A disk that has become read-only
    (EROFS) stays so until all is calm; other errors come once."""
    seen: list[DiskOperation] = []
    readonly: list[SimulatedServer] = []

    def on_disk(server: SimulatedServer, operation: DiskOperation) -> None:
        seen.append(operation)
        if server in readonly and operation.kind in CHANGES:
            raise OSError(fault, os.strerror(fault), str(operation.path))
        if len(seen) == number:
            if fault == errno.EROFS:
                readonly.append(server)
            raise OSError(fault, os.strerror(fault), str(operation.path))

    servers.on_disk = on_disk
    return seen
