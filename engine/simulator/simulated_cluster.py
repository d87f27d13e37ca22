"""A cluster in one thread: real tables and parts, ZooKeeper and network in memory, simulated time.

Background tasks run one step at a time, in an order drawn from a seed, so a failing seed can be replayed. While
something waits (for a quorum, for ZooKeeper), others run. A node crashes at a named failpoint or at a request to
ZooKeeper. :class:`Crash` unwinds its frames, while its session lives on as a zombie until it times out.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from coordination.keeper.memory_keeper import Fault, MemoryEnsemble
from engine.simulator.replica_agreement import check_replicas_agree, get_active_parts
from engine.simulator.simulated_clocks import MachineClock, WrongClocks
from engine.simulator.simulated_node import SimulatedNode
from engine.simulator.step_pool import Crash, StepPool
from engine.simulator.timeline import Timeline
from engine.tables.disk_reservations import DiskReservations
from engine.tables.services import TableServices
from parts.common.errors import UnavailableError
from parts.common.part_name import PartName
from parts.common.thread_pool import InlineExecutor
from sql.settings.merge_tree_settings import MergeTreeSettings

_MAX_DEPTH = 3
_QUIET_ROUNDS = 3


class SimulatedCluster:
    """Some replicas of one table. ``now`` is the time; every machine has clocks of its own."""

    def __init__(
        self,
        root: Path,
        replicas: int,
        seed: int = 0,
        *,
        selects_merges: bool = False,
        queue_wait_seconds: float = 600.0,
        has_wrong_clocks: bool = False,
        timeline: Timeline | None = None,
        first_session: int = 0,
        **settings: object,
    ) -> None:
        """Makes and starts the nodes.

        ``selects_merges``: merges are selected in the background too, not only by OPTIMIZE. ``has_wrong_clocks``: the
        wall clocks of servers and ZooKeeper differ from the time; otherwise only a step makes them wrong. Clusters that
        meet share a ``timeline``, and number their sessions from different numbers (``first_session``).
        """
        self.root = root
        self.queue_wait_seconds = queue_wait_seconds
        self.selects_merges = selects_merges
        self.timeline = timeline or Timeline()
        self.random = random.Random(seed)
        self.services_random = random.Random(seed)
        self.wrong_clocks = WrongClocks(random.Random(seed))
        self.has_wrong_clocks = has_wrong_clocks
        keeper_skew = self.wrong_clocks.skew() if has_wrong_clocks else 0.0
        self.ensemble = MemoryEnsemble(lambda: self.now + keeper_skew, first_session)
        self.ensemble.faults = self._on_request
        self.settings = MergeTreeSettings(**{"fsync_after_insert": False, "fsync_part_directory": False, **settings})  # type: ignore[arg-type]
        self.nodes: dict[str, SimulatedNode] = {}
        self.cuts: set[frozenset[str]] = set()
        """The pairs of nodes that cannot reach each other."""
        self.zombies: list[int] = []  # sessions of crashed processes
        self.on_failpoint: Callable[[SimulatedNode, str], None] = lambda node, name: None
        self.on_request: Callable[[SimulatedNode, str, str], Fault | None] = lambda node, kind, path: None
        self.on_copy: Callable[[PartName, SimulatedNode], None] = lambda part, node: None
        """Called before each file of a part that is fetched from the node."""
        self.on_wait: Callable[[], None] = self.step_others
        self.settle_step: Callable[..., None] = SimulatedNode.step_due
        """How a node is stepped until nothing is left to do; once more with all its tasks then."""
        for number in range(1, replicas + 1):
            self.add_node(f"r{number}")

    @property
    def now(self) -> float:
        """The time."""
        return self.timeline.now

    @now.setter
    def now(self, seconds: float) -> None:
        self.timeline.now = seconds

    @property
    def stack(self) -> list[SimulatedNode]:
        """The nodes whose code runs now, the innermost last."""
        return self.timeline.stack

    def services(self, pool: StepPool, clock: MachineClock) -> TableServices:
        """Returns the services of a server of the cluster."""
        return TableServices(
            clock=clock.wall,
            housekeeping=pool,  # type: ignore[arg-type]
            workers=pool,  # type: ignore[arg-type]
            writers=InlineExecutor(),
            monotonic=clock.monotonic,
            wait=self.wait,
            wait_for=lambda condition, predicate, seconds: predicate(),  # nothing else runs meanwhile
            random=self.services_random,
            failpoint=self.failpoint,
            queue_wait_seconds=self.queue_wait_seconds,
            disk=DiskReservations(lambda path: 1 << 50),
        )

    def make_node(self, name: str) -> SimulatedNode:
        """Makes a node of this cluster."""
        return SimulatedNode(self, name)

    def add_node(self, name: str) -> SimulatedNode:
        """Makes, adds and starts a node."""
        node = self.nodes[name] = self.make_node(name)
        if self.has_wrong_clocks:
            node.clock.skew = self.wrong_clocks.skew()
        node.start(is_new=True)
        return node

    def __iter__(self) -> Iterator[SimulatedNode]:
        return iter(self.nodes.values())

    # -- hooks of nodes ------------------------------------------------------------------------------------------

    def _on_request(self, session: int, kind: str, path: str) -> Fault | None:
        if not self.stack or self.stack[-1].keeper.session_id != session:
            return None
        return self.on_request(self.stack[-1], kind, path)

    def failpoint(self, name: str) -> None:
        """Called at each named place where the running node may crash or fail."""
        if self.stack:
            self.on_failpoint(self.stack[-1], name)

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Lets time pass for a waiting node, and others run. Returns whether the event is set."""
        self.now += max(seconds, 0.001)
        if not event.is_set() and len(self.stack) < _MAX_DEPTH:
            self.on_wait()
        if self.stack and not self.stack[-1].is_up:
            raise Crash(self.stack[-1].name)
        return event.is_set()

    def step_others(self) -> None:
        """Steps all tasks of nodes that are not waiting."""
        for node in list(self):
            # A node that is deeper in the stack may hold a lock of its own.
            if node.is_up and not node.is_frozen and node not in self.stack[:-1]:
                node.step_all()

    def node_at(self, url: str, asker: SimulatedNode) -> SimulatedNode:
        """Returns the node at an address. Raises 210 if ``asker`` cannot reach it."""
        port = int(url.rpartition(":")[2])
        node = self.nodes.get(f"r{port}")
        if node is None or not node.is_up or frozenset((node.name, asker.name)) in self.cuts:
            raise UnavailableError("NETWORK_ERROR", f"{url} does not answer")
        return node

    def end_zombies(self) -> None:
        """Times out the sessions of crashed processes."""
        while self.zombies:
            self.ensemble.end_session(self.zombies.pop())

    def end(self) -> None:
        """Crashes all nodes, which releases what they hold."""
        for node in self:
            if node.is_up:
                node.crash()

    # -- healing -------------------------------------------------------------------------------------------------

    def settle(self, rounds: int = 60) -> None:
        """Steps all nodes until nothing is left to do.

        Raises ``AssertionError`` if that takes too many rounds.
        """
        quiet = 0  # rounds in which nothing was left to do
        for _ in range(rounds):
            step = SimulatedNode.step_all if quiet == _QUIET_ROUNDS - 1 else self.settle_step
            for node in self:
                if node.is_up:
                    self.now += 7.0
                    step(node)
            quiet = quiet + 1 if self.is_idle() and not self.parts_moved() else 0
            if quiet >= _QUIET_ROUNDS:
                return
        raise AssertionError(f"the queues do not drain: {[node.explain() for node in self]}")

    def is_idle(self) -> bool:
        """Tells whether nothing is left to do for any table."""
        return all(
            table.state.activation is not None
            and not table.replication.queue.list_entries()
            and not len(table.part_checks)
            and not table.session.restart_requested.is_set()
            and all(mutation.is_done or mutation.failure.part for mutation in table.mutations.shown())
            for table in (table for node in self if node.is_up for table in node.tables)
        )

    def parts_moved(self) -> bool:
        """Tells whether any table's parts changed since the last call."""
        state = [sorted(get_active_parts(table).items()) for node in self if node.is_up for table in node.tables]
        moved = state != getattr(self, "_last_state", None)
        self._last_state = state
        return moved

    def heal(self) -> None:
        """Ends all faults, and lets everything settle."""
        self.calm()
        self.settle()

    def calm(self) -> None:
        """Ends all faults, and starts or reconnects everything that was cut, stopped or crashed."""
        self.on_failpoint = lambda node, name: None
        self.on_request = lambda node, kind, path: None
        self.cuts.clear()
        self.end_zombies()
        for node in self:
            node.is_frozen = False
            if not node.is_up:
                node.start()
            node.keeper.reconnect()

    def check_equal(self) -> None:
        """Checks that replicas agree; see :mod:`engine.simulator.replica_agreement`."""
        check_replicas_agree(next(iter(self)).keeper, [table for node in self for table in node.tables])
