"""Sweeps of faults over an operation in a colony: it is hit at its n-th request to ZooKeeper, or at its n-th fsync."""

from __future__ import annotations

import errno
from collections.abc import Callable

from coordination.memory_keeper import Fault
from engine.simulator.colony import Colony, Node
from engine.simulator.servers import Server, Servers

FAULTS = [Fault.LOSE_REQUEST, Fault.LOSE_ANSWER, Fault.EXPIRE, Fault.EXPIRE_AFTER, "crash"]
SYNC_FAULTS = [errno.EIO, errno.ENOSPC, "crash", "power cut"]


def hit_request(colony: Colony, number: int, fault: Fault | str, look: Callable[[], None] = lambda: None) -> list[str]:
    """From now on, whoever makes the request of this number; 0 hits none. The list gets every request; ``look`` is
    called before each."""
    seen: list[str] = []

    def on_request(node: Node, kind: str, path: str) -> Fault | None:
        look()
        seen.append(f"{node.name} {kind} {path}")
        if len(seen) != number:
            return None
        if isinstance(fault, Fault):
            return fault
        node.die()
        return None

    colony.on_request = on_request
    return seen


def hit_sync(servers: Servers, number: int, fault: int | str) -> list[str]:
    """As :func:`hit_request`, of fsyncs; ``fault`` is an error's number, or how the server ends."""
    seen: list[str] = []

    def on_sync(server: Server) -> None:
        seen.append(server.name)
        if len(seen) == number:
            if isinstance(fault, int):
                raise OSError(fault, "fsync failed")
            servers.power_cut_rate = float(fault == "power cut")
            server.die()

    servers.on_sync = on_sync
    return seen
