"""Random faults of all servers of a world, of their disks and ZooKeepers; others work in between."""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from coordination.keeper.interface import SessionState
from coordination.keeper.memory_keeper import Fault
from engine.simulator.links.linked_world import LinkedWorld
from engine.simulator.simulated_node import SimulatedNode
from engine.simulator.simulated_servers import SimulatedServer
from engine.simulator.step_pool import Crash
from parts.common.errors import UnavailableError
from parts.common.part_name import PartName

_MAX_DEPTH = 2
_LINK_FACTOR = 20
"""How much more often the commit of a link fails than another request."""


@dataclass(frozen=True, slots=True)
class FaultRates:
    """How often something goes wrong."""

    request: float = 0.002
    """Of a request to ZooKeeper: it is lost, or its answer, or the session expires."""
    crash: float = 0.0005
    """Of a server at a request or an fsync; at a named step five times as often."""
    beside: float = 0.02
    """Others work before a request; at a named step five times as often."""
    sync: float = 0.002
    """An fsync fails."""
    copy: float = 0.02
    """A fetch is broken off at a file."""


class WorldFaults:
    """The faults of one run. ``beside`` does what clients do while a server is in the middle of something."""

    def __init__(
        self, world: LinkedWorld, rates: FaultRates, counts: Counter[str], beside: Callable[[SimulatedNode], None]
    ) -> None:
        self._world = world
        self._random = world.random
        self._rates = rates
        self._counts = counts
        self._beside = beside

    def begin(self) -> None:
        """Installs the faults."""
        for cluster in self._world.clusters.values():
            cluster.on_request = self._fail_request
            cluster.on_failpoint = self._pass_step
            cluster.on_copy = self._copy
            cluster.on_sync = self._sync
            cluster.on_wait = self._wait

    def reconnect(self) -> None:
        """Reconnects servers, perhaps to a ZooKeeper server that lags behind; one that lags may catch up."""
        for node in self._world:
            if node.is_up and node.keeper.state is not SessionState.CONNECTED and self._random.random() < 0.5:
                if self._random.random() < 0.3:
                    node.keeper.expire()
                node.keeper.reconnect(lagging=self._random.random() < 0.3)
            elif node.is_up and self._random.random() < 0.1:
                node.keeper.catch_up()

    def step_somebody(self) -> None:
        """Runs a few tasks of a server that is in the middle of nothing."""
        stack = self._world.timeline.stack
        free = [node for node in self._world if node.is_up and not node.is_frozen and node not in stack]
        if free:
            node = self._random.choice(free)
            for _ in range(self._random.randint(1, 4)):
                node.step_random()

    # -- hooks --------------------------------------------------------------------------------------------------------

    def _fail_request(self, node: SimulatedNode, kind: str, path: str) -> Fault | None:
        self._work_beside(node, self._rates.beside)
        self._perhaps_crash(node, "a request", self._rates.crash)
        is_of_link = kind == "multi" and "/links/" in path  # rare among all requests, and what this is about
        if self._random.random() < self._rates.request * (_LINK_FACTOR if is_of_link else 1):
            fault = self._random.choice(list(Fault))
            self._counts[fault.name] += 1
            return fault
        return None

    def _pass_step(self, node: SimulatedNode, name: str) -> None:
        self._work_beside(node, self._rates.beside * 5)
        self._perhaps_crash(node, name, self._rates.crash * 5)

    def _sync(self, server: SimulatedServer) -> None:
        self._perhaps_crash(server, "an fsync", self._rates.crash)
        if self._random.random() < self._rates.sync:
            self._counts["an fsync failed"] += 1
            raise OSError(self._random.choice([errno.EIO, errno.ENOSPC]), "fsync failed")

    def _copy(self, part: PartName, source: SimulatedNode) -> None:
        if self._random.random() < self._rates.copy:
            self._counts["a fetch was broken off"] += 1
            raise UnavailableError("NETWORK_ERROR", f"{source.name} does not answer any more")

    def _wait(self) -> None:
        self._world.timeline.now += self._random.random() / 2  # who waits looks more rarely, which costs less
        self.reconnect()
        for _ in range(3):
            self.step_somebody()

    def _work_beside(self, node: SimulatedNode, rate: float) -> None:
        if len(self._world.timeline.stack) <= _MAX_DEPTH and self._random.random() < rate:
            self.step_somebody()
            self._beside(node)
            if not node.is_up:
                raise Crash(node.name)

    def _perhaps_crash(self, node: SimulatedNode, where: str, rate: float) -> None:
        if self._random.random() < rate:
            self._counts[f"{node.crash()} at {where}"] += 1
            raise Crash(node.name)
