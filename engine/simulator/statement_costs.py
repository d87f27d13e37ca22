"""Measures what statements and background work on a replicated table cost.

It counts requests to ZooKeeper and CPU time, on simulated servers without faults, whose background tasks run when they
are due. Every request to a node of the table counts, no matter which task made it, one for each path of a pipeline.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from coordination.keeper.memory_keeper import Fault
from engine.simulator.simulated_disk import SimulatedDisk, record_syncs
from engine.simulator.simulated_node import SimulatedNode
from engine.simulator.simulated_servers import SimulatedServer, SimulatedServers
from engine.simulator.trace import Trace
from engine.tables.replicated.replicated_table import ReplicatedTable
from parts.common.thread_pool import run_jobs_inline

_ROOT = "/tables/costs"
_TICK_SECONDS = 0.01
"""The time that a round of tasks takes."""
_MAX_ROUNDS = 100_000
_AGE_SECONDS = 3600.0


@dataclass
class Cost:
    """The cost of some work."""

    requests: int = 0
    cpu_seconds: float = 0.0


class TimedServers(SimulatedServers):
    """Servers whose tasks wait until they are due."""

    def __init__(self, root: Path, replicas: int, disks: dict[Path, SimulatedDisk]) -> None:
        super().__init__(root, replicas, 0, Trace(None), disks)
        self.power_cut_rate = 0.0

    def step_others(self) -> None:
        """Steps the tasks that are due."""
        for node in self:
            if node.is_up and node not in self.stack[:-1]:
                for task in node.pool.list_due():
                    node.step(task)


class CountedTable:
    """The table ``costs`` on some servers; statements go to the first."""

    def __init__(self, servers: TimedServers) -> None:
        self.servers = servers
        self.first: SimulatedServer = servers.servers[0]
        self.on_request: Callable[[str, str], None] = lambda kind, path: None
        """Called with kind and path of every request that counts."""
        self._cost = Cost()
        servers.on_request = self._count

    def _count(self, node: SimulatedNode, kind: str, path: str) -> Fault | None:
        if path == _ROOT or path.startswith(f"{_ROOT}/"):
            self._cost.requests += 1
            self.on_request(kind, path)
        return None

    def create(self, columns: str, rest: str, engine: str = "ReplicatedMergeTree") -> None:
        """Creates the table on all servers."""
        for server in self.servers.servers:
            server.sql(f"CREATE TABLE costs ({columns}) ENGINE = {engine}('{_ROOT}', '{{replica}}') {rest}")

    def of(self, server: SimulatedServer) -> ReplicatedTable:
        """Returns the table on a server."""
        found = server.engine.catalog.table("default", "costs")
        assert isinstance(found, ReplicatedTable)
        return found

    @property
    def table(self) -> ReplicatedTable:
        """The table on the first server."""
        return self.of(self.first)

    def select_merges(self, are_selected: bool) -> None:
        """Turns the background selection of merges on or off."""
        for server in self.servers.servers:
            self.of(server).merge_steps.is_enabled = are_selected

    @contextmanager
    def measure_cost(self) -> Iterator[Cost]:
        """Measures the cost of the block."""
        self._cost, started = Cost(), time.process_time()
        yield self._cost
        self._cost.cpu_seconds = time.process_time() - started
        self._cost = Cost()

    def work_until(self, condition: Callable[[], bool]) -> None:
        """Runs background work of all servers until the condition holds."""
        for _ in range(_MAX_ROUNDS):
            if condition():
                return
            self.servers.now += _TICK_SECONDS
            self.servers.step_others()
        raise AssertionError(
            f"it does not end: {[self.of(server).replication.queue.list_entries() for server in self.servers.servers]}"
        )

    def settle(self) -> None:
        """Runs background work until all replicas have the same parts and nothing to do."""
        self.work_until(lambda: all(map(self._is_idle, self.servers.servers)) and self._are_equal())

    def _is_idle(self, server: SimulatedServer) -> bool:
        state = self.of(server).state
        return state.activation is not None and not state.queue.list_entries()

    def _are_equal(self) -> bool:
        parts = [{part.name for part in self.of(server).store.list_active()} for server in self.servers.servers]
        return all(found == parts[0] for found in parts)


@contextmanager
def counted_table(
    root: Path, columns: str, rest: str, *, replicas: int = 1, engine: str = "ReplicatedMergeTree"
) -> Iterator[CountedTable]:
    """Makes a table without background merges. ``rest`` follows the engine in CREATE TABLE."""
    disks: dict[Path, SimulatedDisk] = {}
    with contextlib.ExitStack() as stack:
        stack.enter_context(record_syncs(disks))
        stack.enter_context(run_jobs_inline())
        servers = TimedServers(root, replicas, disks)
        stack.callback(servers.end)
        made = CountedTable(servers)
        made.create(columns, rest, engine)
        # Parts take their ages from the real clock's file times; they must be old enough for merges.
        servers.now = made.table.store.path.stat().st_mtime + _AGE_SECONDS
        made.select_merges(False)
        yield made
