"""Runs a server's pull and queue between two requests of its statements, as its threads would."""

from __future__ import annotations

import random
from collections.abc import Callable

from engine.simulator.simulated_node import SimulatedNode
from engine.simulator.step_pool import Crash
from engine.tables.replicated.replicated_table import ReplicatedTable

_RATE = 0.2
_MAX_DEPTH = 2


class ConcurrentWork:
    """The background work of nodes between the requests of their statements."""

    def __init__(self, rng: random.Random, count: Callable[[str], None]) -> None:
        self._random = rng
        self._count = count
        self._asked: list[SimulatedNode] = []

    def run_beside(self, node: SimulatedNode, statement: Callable[[], object]) -> Callable[[], object]:
        """Wraps a statement so that the node's own work runs between its requests."""

        def asked() -> object:
            self._asked.append(node)
            try:
                return statement()
            finally:
                self._asked.pop()

        return asked

    def work_at_request(self, node: SimulatedNode) -> None:
        """Runs some of the node's work before one of its requests.

        Raises ``Crash`` if that work crashes the node.
        """
        is_free = node in self._asked and len(node.cluster.stack) <= _MAX_DEPTH and not node.pool.running
        if not is_free or self._random.random() >= _RATE or any(map(_holds_lock, node.tables)):
            return
        tasks = [task for task in node.pool.tasks if task.name.endswith("pull log") or ": execute queue" in task.name]
        if tasks:
            node.step(self._random.choice(tasks))
            self._count("own work between two requests of a statement")
        if not node.is_up:
            raise Crash(node.name)


def _holds_lock(table: ReplicatedTable) -> bool:
    """Tells whether the statement holds a lock that the pull or the queue takes.

    Another thread would wait for it now.
    """
    locks = (table.log_pull._pull_lock, table.state.mutations._lock)
    queue_lock = table.replication.queue._lock
    return any(lock.locked() for lock in locks) or table.store.lock._depth > 0 or queue_lock._is_owned()  # type: ignore[attr-defined]
