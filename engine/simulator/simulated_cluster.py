"""A cluster in one thread: real tables and real parts on disk, ZooKeeper and the network in memory, time by hand.

Background tasks are run one step at a time, in an order drawn from a seed, so a failing seed replays. Whatever waits
(for a quorum, for ZooKeeper) lets the others work meanwhile. A node crashes at a named failpoint or at a request to
ZooKeeper: :class:`Crash` unwinds its frames, while its session lives on as a zombie until it times out.
"""

from __future__ import annotations

import random
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pyarrow as pa

from coordination.keeper.memory_keeper import Fault, MemoryEnsemble, MemoryKeeper
from coordination.nodes.replica_activation import ReplicaAddress
from engine.interserver.replication import Replication
from engine.interserver.transfer import Transfer
from engine.server.background_pool import BackgroundTask
from engine.simulator.replica_agreement import check_replicas_agree, get_active_parts, get_listed_parts
from engine.simulator.simulated_clocks import MachineClock, WrongClocks
from engine.simulator.simulated_table import SCHEMA, make_table_definition
from engine.simulator.simulated_transfer import transfer_part
from engine.simulator.step_pool import Crash, StepPool
from engine.tables.disk_reservations import DiskReservations
from engine.tables.replicated.replicated_table import ReplicatedTable
from engine.tables.services import TableServices
from engine.tables.statement_options import InsertOptions, OptimizeOptions
from parts.common.errors import UnavailableError, UserError
from parts.common.part_name import PartName
from parts.common.thread_pool import InlineExecutor
from parts.store.part_states import PartState
from sql.settings.merge_tree_settings import MergeTreeSettings

_MAX_DEPTH = 3
_UPTIME_SECONDS = 100_000.0


class SimulatedCluster:
    """Some replicas of one table. ``now`` is the time, of which every machine has clocks of its own."""

    def __init__(
        self,
        root: Path,
        replicas: int,
        seed: int = 0,
        *,
        selects_merges: bool = False,
        queue_wait_seconds: float = 600.0,
        has_wrong_clocks: bool = False,
        **settings: object,
    ) -> None:
        """``selects_merges``: merges are chosen in the background too, not only by OPTIMIZE. ``has_wrong_clocks``: the
        wall clocks of the servers and of ZooKeeper differ from the time; otherwise only what steps them."""
        self.root = root
        self.queue_wait_seconds = queue_wait_seconds
        self.selects_merges = selects_merges
        self.now = 1_700_000_000.0
        self.random = random.Random(seed)
        self.services_random = random.Random(seed)
        self.wrong_clocks = WrongClocks(random.Random(seed))
        self.has_wrong_clocks = has_wrong_clocks
        keeper_skew = self.wrong_clocks.skew() if has_wrong_clocks else 0.0
        self.ensemble = MemoryEnsemble(clock=lambda: self.now + keeper_skew)
        self.ensemble.faults = self._on_request
        self.settings = MergeTreeSettings(**{"fsync_after_insert": False, "fsync_part_directory": False, **settings})  # type: ignore[arg-type]
        self.nodes: dict[str, SimulatedNode] = {}
        self.stack: list[SimulatedNode] = []
        """The nodes whose code runs now, the innermost last."""
        self.cuts: set[frozenset[str]] = set()
        """Pairs of nodes that cannot reach each other."""
        self.zombies: list[int] = []  # sessions of processes that are gone
        self.on_failpoint: Callable[[SimulatedNode, str], None] = lambda node, name: None
        self.on_request: Callable[[SimulatedNode, str, str], Fault | None] = lambda node, kind, path: None
        self.on_copy: Callable[[PartName, SimulatedNode], None] = lambda part, node: None
        """Before each file of a part that is fetched from the node."""
        self.on_wait: Callable[[], None] = self.step_others
        self.settle_step: Callable[..., None] = SimulatedNode.step_all
        for number in range(1, replicas + 1):
            self.add_node(f"r{number}")

    def services(self, pool: StepPool, clock: MachineClock) -> TableServices:
        """What a server of the colony lives on."""
        return TableServices(
            clock=clock.wall,
            housekeeping=pool,  # type: ignore[arg-type]
            workers=pool,  # type: ignore[arg-type]
            writers=InlineExecutor(),
            monotonic=clock.monotonic,
            wait=self.wait,
            wait_for=lambda condition, predicate, seconds: predicate(),  # nobody else works meanwhile
            random=self.services_random,
            failpoint=self.failpoint,
            queue_wait_seconds=self.queue_wait_seconds,
            disk=DiskReservations(lambda path: 1 << 50),
        )

    def make_node(self, name: str) -> SimulatedNode:
        return SimulatedNode(self, name)

    def add_node(self, name: str) -> SimulatedNode:
        node = self.nodes[name] = self.make_node(name)
        if self.has_wrong_clocks:
            node.clock.skew = self.wrong_clocks.skew()
        node.start(is_new=True)
        return node

    def __iter__(self) -> Iterator[SimulatedNode]:
        return iter(self.nodes.values())

    # -- what happens around a node ------------------------------------------------------------------------------

    def _on_request(self, session: int, kind: str, path: str) -> Fault | None:
        if not self.stack or self.stack[-1].keeper.session_id != session:
            return None
        return self.on_request(self.stack[-1], kind, path)

    def failpoint(self, name: str) -> None:
        if self.stack:
            self.on_failpoint(self.stack[-1], name)

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Time passes for somebody who waits; others work."""
        self.now += max(seconds, 0.001)
        if not event.is_set() and len(self.stack) < _MAX_DEPTH:
            self.on_wait()
        if self.stack and not self.stack[-1].is_up:
            raise Crash(self.stack[-1].name)
        return event.is_set()

    def step_others(self) -> None:
        for node in list(self):
            # A node that is deeper in the stack may hold a lock of its own.
            if node.is_up and not node.is_frozen and node not in self.stack[:-1]:
                node.step_all()

    def node_at(self, url: str, asker: SimulatedNode) -> SimulatedNode:
        port = int(url.rpartition(":")[2])
        node = self.nodes.get(f"r{port}")
        if node is None or not node.is_up or frozenset((node.name, asker.name)) in self.cuts:
            raise UnavailableError("NETWORK_ERROR", f"{url} does not answer")
        return node

    def end_zombies(self) -> None:
        """The sessions of crashed processes time out."""
        while self.zombies:
            self.ensemble.end_session(self.zombies.pop())

    def end(self) -> None:
        """Lets go of what the nodes hold."""
        for node in self:
            if node.is_up:
                node.crash()

    # -- healing -------------------------------------------------------------------------------------------------

    def settle(self, rounds: int = 60) -> None:
        quiet = 0  # rounds in which there was nothing to do any more
        for _ in range(rounds):
            for node in self:
                if node.is_up:
                    self.now += 7.0
                    self.settle_step(node)
            quiet = quiet + 1 if self._is_idle() and not self._parts_moved() else 0
            if quiet >= 3:
                return
        raise AssertionError(f"the queues do not drain: {[node.explain() for node in self]}")

    def _is_idle(self) -> bool:
        return all(
            table.state.activation is not None
            and not table.queue.entries()
            and not len(table.part_checks)
            and not table.session.restart_requested.is_set()
            and all(mutation.is_done or mutation.failure.part for mutation in table.mutations.shown())
            for table in (table for node in self if node.is_up for table in node.tables)
        )

    def _parts_moved(self) -> bool:
        state = [sorted(get_active_parts(table).items()) for node in self if node.is_up for table in node.tables]
        moved = state != getattr(self, "_last_state", None)
        self._last_state = state
        return moved

    def heal(self) -> None:
        self.calm()
        self.settle()

    def calm(self) -> None:
        """No more faults; everything that was cut, stopped or crashed comes back."""
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
        """See :mod:`engine.simulator.replica_agreement`."""
        check_replicas_agree(next(iter(self)).keeper, [table for node in self for table in node.tables])


class SimulatedNode:
    """One server with one replica of the table; ``crash`` and ``start`` as often as wanted."""

    def __init__(self, colony: SimulatedCluster, name: str) -> None:
        self.colony = colony
        self.name = name
        self.path = colony.root / name
        self.clock = MachineClock(lambda: colony.now, _UPTIME_SECONDS * int(name[1:]))
        self.is_up = False
        self.is_frozen = False
        """Up, but its background work stands still."""
        self.force_restore_all = False

    def start(self, *, is_new: bool = False, keeper_is_away: bool = False) -> None:
        assert not self.is_up
        self.keeper: MemoryKeeper = self.colony.ensemble.connect()
        if keeper_is_away:
            self.keeper.disconnect()
        self.pool = StepPool(self.clock.monotonic)
        services = self.colony.services(self.pool, self.clock)
        self.replication = Replication(self.keeper, self, ReplicaAddress("127.0.0.1", int(self.name[1:])), {})
        self.replication.force_restore_all = self.force_restore_all
        self.table = ReplicatedTable(
            make_table_definition(self.name, self.path, self.colony.settings), services, self.replication
        )
        self.table.merge_steps.are_selected = self.colony.selects_merges
        self.is_up = True
        with self.acting():
            if is_new:
                self.table.create()
            self.table.start()

    @contextmanager
    def acting(self) -> Iterator[None]:
        """This node's code runs. A crash ends here."""
        self.colony.stack.append(self)
        try:
            yield
        finally:
            self.colony.stack.pop()

    def crash(self) -> str:
        """The process is gone; the disk stays, the session too for a while. Returns what happened, in a word."""
        self.is_up = False
        self.pool.tasks.clear()
        if self.keeper.session_id:
            self.colony.zombies.append(self.keeper.session_id)
        self.keeper._closed = True  # no request gets out any more, and no watch comes in
        self.keeper._data_watches, self.keeper._child_watches = {}, {}
        return "crash"

    def crash_here(self) -> None:
        """To be called from this node's own code: crashes and unwinds."""
        self.crash()
        raise Crash(self.name)

    def stop(self) -> None:
        with self.acting():
            self.table.stop()
        self.keeper.close()
        self.crash()

    def restart(self) -> None:
        if self.is_up:
            self.crash()
        self.start()

    def wipe(self) -> None:
        """The disk is lost; the definition is kept elsewhere."""
        assert not self.is_up
        shutil.rmtree(self.path)

    def step(self, task: BackgroundTask) -> None:
        """One step of one task; a crash in it is the node's end, not the caller's."""
        if not self.is_up:
            return
        try:
            with self.acting():
                self.pool.run(task)
        except Crash:
            assert not self.is_up

    def step_all(self) -> None:
        for task in list(self.pool.tasks):
            self.step(task)

    def step_due(self) -> None:
        """What a real pool would run now: what sleeps on though something happened is missed."""
        for task in self.pool.each_due():
            self.step(task)

    def step_random(self) -> None:
        if self.pool.tasks:
            self.step(self.colony.random.choice(self.pool.tasks))

    def task(self, name: str) -> BackgroundTask:
        return next(task for task in self.pool.tasks if task.name.endswith(name))

    # -- what a client does --------------------------------------------------------------------------------------

    def insert(self, partition: int | list[int], keys: list[int], **options: object) -> int:
        """Rows written (0 for a duplicate)."""
        block = self.block([partition] * len(keys) if isinstance(partition, int) else partition, keys)
        with self.acting():
            sink = self.table.begin_insert(InsertOptions(**options))  # type: ignore[arg-type]
            try:
                sink.write(block)
                return sink.commit().written_rows
            finally:
                sink.abort()

    @staticmethod
    def block(partitions: list[int], keys: list[int]) -> pa.Table:
        return pa.table(
            {
                "p": pa.array(partitions, pa.uint8()),
                "k": pa.array(keys, pa.uint64()),
                "v": pa.array([f"value {key}" for key in keys], pa.string()),
            },
            schema=SCHEMA.arrow,
        )

    def truncate(self) -> None:
        self.call(lambda table: table.truncate())

    def optimize(self) -> None:
        self.call(lambda table: table.optimize(OptimizeOptions(final=True)))

    def call(self, action: Callable[[ReplicatedTable], object]) -> object:
        with self.acting():
            return action(self.table)

    def keys(self, *, sequential: bool = False) -> list[int]:
        with self.acting(), self.table.snapshot(sequential_consistency=sequential) as snapshot:
            batches = [batch for part in snapshot.parts for batch in part.read(["k"])]
        return sorted(key for batch in batches for key in batch.column(0).to_pylist())

    # -- what there is -------------------------------------------------------------------------------------------

    @property
    def tables(self) -> list[ReplicatedTable]:
        """All that have replicas here."""
        return [self.table]

    def parts(self) -> dict[str, str]:
        return get_active_parts(self.table)

    def outdated(self) -> set[str]:
        return {str(part.name) for part, state in self.table.store.list_parts() if state is PartState.OUTDATED}

    def directories(self) -> list[Path]:
        """Every directory of a part, active or not."""
        return sorted(path for path in self.path.iterdir() if PartName.try_parse(path.name) is not None)

    def listed(self) -> set[str]:
        return get_listed_parts(self.keeper, self.table)

    def explain(self) -> object:
        if not self.is_up:
            return (self.name, "down")
        entries = [(i.entry.type.value, str(i.entry.new_part), i.last_exception, i.postpone_reason)
                   for table in self.tables for i in table.queue.entries()]  # fmt: skip
        return (self.name, self.table.state.readonly_reason, entries, sorted(self.parts()))

    # -- the part transport -------------------------------------------------------------------------------------

    def fetch_part(self, base_url: str, endpoint: str, part: PartName, directory: Path, transfer: Transfer) -> None:
        def on_file() -> None:
            self.colony.on_copy(part, self.colony.node_at(base_url, self))

        transfer_part(self.colony.node_at(base_url, self).replication, endpoint, part, directory, transfer, on_file)
        self.colony.failpoint("fetch.after_temporary_part")

    def fetch_parts(
        self, base_url: str, endpoint: str, directories: Mapping[PartName, Path], transfer: Transfer
    ) -> list[PartName]:
        came: list[PartName] = []
        for part, directory in directories.items():
            with suppress(UserError):  # it is not there
                self.fetch_part(base_url, endpoint, part, directory, transfer)
                came.append(part)
        return came

    def part_hashes(self, base_url: str, endpoint: str, parts: Sequence[PartName]) -> dict[PartName, str]:
        return self.colony.node_at(base_url, self).replication.part_hashes(endpoint, parts)

    def close(self) -> None:
        return
