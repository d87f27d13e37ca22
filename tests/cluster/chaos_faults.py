"""What ``tests.cluster.chaos`` does to the processes of a cluster, one fault after the other.

- SIGKILL of a replica, which is started again.
- A pause of a replica (SIGSTOP of its process and its workers) that lasts longer than its ZooKeeper session: when it
  goes on it must notice that it is no longer active before it commits anything.
- SIGKILL of the ZooKeeper, which is started again on the same data, at times later than the sessions last.
"""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable
from contextlib import suppress

from engine.cluster.cluster import ZOOKEEPER, Cluster
from engine.cluster.os_processes import list_process_tree

SESSION_SECONDS = 4.0
_REST_SECONDS = 4.0
"""After a ZooKeeper has come back or a replica has gone on: sessions and queues must begin to move again."""


class Faults:
    """``wait`` sleeps for so many seconds, or until the run ends; ``count`` notes what was done."""

    def __init__(
        self, cluster: Cluster, rng: random.Random, wait: Callable[[float], object], count: Callable[[str], None]
    ) -> None:
        self._cluster = cluster
        self._random = rng
        self._wait = wait
        self._count = count
        self._replicas = [status.name for status in cluster.status() if status.name != ZOOKEEPER]
        self._kinds: dict[Callable[[], None], int] = {self.kill: 8, self._pause: 2, self._kill_zookeeper: 1}

    def next(self) -> None:
        """Waits a little and carries out one fault; everybody runs again when it returns."""
        self._wait(self._random.uniform(0.5, 4))
        self._random.choices(list(self._kinds), list(self._kinds.values()))[0]()

    def kill(self) -> None:
        name = self._random.choice(self._replicas)
        self._cluster.kill(name)
        self._count("SIGKILL")
        self._wait(self._random.uniform(0, 1))
        self._cluster.restart(name)

    def _pause(self) -> None:
        name = self._random.choice(self._replicas)
        pid = next(status.pid for status in self._cluster.status() if status.name == name)
        stopped = list(list_process_tree(pid))
        self._signal(stopped, signal.SIGSTOP)
        try:
            self._wait(SESSION_SECONDS * self._random.uniform(1.2, 2))
        finally:
            self._signal(stopped, signal.SIGCONT)
        self._count("pause longer than a session")
        self._wait(_REST_SECONDS)

    def _kill_zookeeper(self) -> None:
        self._cluster.kill(ZOOKEEPER)
        self._count("SIGKILL of ZooKeeper")
        self._wait(self._random.choice((0, SESSION_SECONDS / 2, SESSION_SECONDS * 2)))
        self._cluster.restart(ZOOKEEPER)
        self._wait(_REST_SECONDS)

    @staticmethod
    def _signal(pids: list[int], number: signal.Signals) -> None:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
