"""Random work on whole servers: which of them is idle, and fsyncs that fail or crash them."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import cast

from engine.simulator.simulated_node import SimulatedNode
from engine.simulator.simulated_servers import SimulatedServer, SimulatedServers
from engine.simulator.simulation import Simulation
from engine.simulator.step_pool import Crash


class ServerWork(Simulation):
    """A simulation whose nodes are servers."""

    def begin_faults(self) -> None:
        """Installs the fault hooks, those of fsyncs too."""
        super().begin_faults()
        cast(SimulatedServers, self.cluster).on_sync = self._perhaps_fail_sync

    def _perhaps_fail_sync(self, server: SimulatedServer) -> None:
        if self.random.random() < self.crash_rate:
            self.counts[f"{server.crash()} at an fsync"] += 1
            raise Crash(server.name)
        if self.random.random() < self.fault_rate:
            self.counts["fsync failed"] += 1
            raise OSError(self.random.choice([errno.EIO, errno.ENOSPC]), "fsync failed")

    def _guarded(self, node: SimulatedNode, action: Callable[[], object]) -> str:
        try:
            return super()._guarded(node, action)
        except OSError:  # from a start or a stop; statements raise PandoError
            return "failed"

    def _idle(self) -> SimulatedServer | None:
        """Returns a server that is up and in the middle of nothing."""
        servers = [cast(SimulatedServer, node) for node in self._up() if node not in self.cluster.stack]
        return self.random.choice(servers) if servers else None
