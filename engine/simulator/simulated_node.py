"""One simulated server with a replica of the table; it can crash, start and exchange parts."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Protocol

import pyarrow as pa

from coordination.keeper.memory_keeper import MemoryEnsemble, MemoryKeeper
from coordination.nodes.replica_activation import ReplicaAddress
from engine.interserver.protocol import StagedCopy
from engine.interserver.replication import Replication
from engine.interserver.transfer import Transfer
from engine.server.background_pool import BackgroundTask
from engine.simulator.replica_agreement import get_active_parts, get_listed_parts
from engine.simulator.simulated_clocks import MachineClock
from engine.simulator.simulated_table import SCHEMA, make_table_definition
from engine.simulator.simulated_transfer import transfer_part
from engine.simulator.step_pool import Crash, StepPool
from engine.tables.replicated.replicated_table import ReplicatedTable
from engine.tables.services import TableServices
from engine.tables.statement_options import InsertOptions, OptimizeOptions
from parts.common.errors import UnavailableError, UserError
from parts.common.part_name import PartName
from parts.store.part_states import PartState
from sql.settings.merge_tree_settings import MergeTreeSettings

_UPTIME_SECONDS = 100_000.0


class NodeCluster(Protocol):
    """The cluster of a node, as the node sees it.

    :class:`engine.simulator.simulated_cluster.SimulatedCluster` implements it.
    """

    root: Path
    now: float
    random: Random
    settings: MergeTreeSettings
    selects_merges: bool
    ensemble: MemoryEnsemble
    zombies: list[int]
    on_copy: Callable[[PartName, SimulatedNode], None]

    @property
    def stack(self) -> list[SimulatedNode]:
        """The nodes whose code runs now, the innermost last."""

    def services(self, pool: StepPool, clock: MachineClock) -> TableServices:
        """Returns the services of a server of the cluster."""

    def failpoint(self, name: str) -> None:
        """Called at each named place where the node may crash or fail."""

    def node_at(self, url: str, asker: SimulatedNode) -> SimulatedNode:
        """Returns the node at an address. Raises 210 if ``asker`` cannot reach it."""


class SimulatedNode:
    """One server with one replica of the table. It can be crashed and started as often as needed."""

    def __init__(self, cluster: NodeCluster, name: str) -> None:
        self.cluster = cluster
        self.name = name
        self.path = cluster.root / name
        self.clock = MachineClock(lambda: cluster.now, _UPTIME_SECONDS * int(name[1:]))
        self.is_up = False
        self.is_frozen = False
        """Whether its background work stands still while it is up."""
        self.force_restore_all = False

    def start(self, *, is_new: bool = False, keeper_is_away: bool = False) -> None:
        """Starts the server. ``is_new`` creates the table; ``keeper_is_away`` starts without a connection."""
        assert not self.is_up
        self.keeper: MemoryKeeper = self.cluster.ensemble.connect()
        if keeper_is_away:
            self.keeper.disconnect()
        self.pool = StepPool(self.clock.monotonic)
        services = self.cluster.services(self.pool, self.clock)
        self.replication = Replication(self.keeper, self, ReplicaAddress("127.0.0.1", int(self.name[1:])), {})
        self.replication.force_restore_all = self.force_restore_all
        self.table = ReplicatedTable(
            make_table_definition(self.name, self.path, self.cluster.settings), services, self.replication
        )
        self.table.merge_steps.is_enabled = self.cluster.selects_merges
        self.is_up = True
        with self.acting():
            if is_new:
                self.table.create()
            self.table.start()

    @contextmanager
    def acting(self) -> Iterator[None]:
        """Marks the block as code of this node."""
        self.cluster.stack.append(self)
        try:
            yield
        finally:
            self.cluster.stack.pop()

    def crash(self) -> str:
        """Ends the process; the disk stays, and the session too for a while. Returns what happened, in a word."""
        self.is_up = False
        self.pool.tasks.clear()
        if self.keeper.session_id:
            self.cluster.zombies.append(self.keeper.session_id)
        self.keeper._closed = True  # no request is sent any more, and no watch fires
        self.keeper._data_watches, self.keeper._child_watches = {}, {}
        return "crash"

    def crash_here(self) -> None:
        """Crashes the node from its own code, and unwinds it."""
        self.crash()
        raise Crash(self.name)

    def stop(self) -> None:
        """Stops the server gracefully."""
        with self.acting():
            self.table.stop()
        self.keeper.close()
        self.crash()

    def restart(self) -> None:
        """Crashes the server if it is up, and starts it."""
        if self.is_up:
            self.crash()
        self.start()

    def wipe(self) -> None:
        """Removes the disk's content; the definition is kept elsewhere."""
        assert not self.is_up
        shutil.rmtree(self.path)

    def step(self, task: BackgroundTask) -> None:
        """Runs one step of one task. A crash in it ends the node, not the caller."""
        if not self.is_up:
            return
        try:
            with self.acting():
                self.pool.run(task)
        except Crash:
            assert not self.is_up

    def step_all(self) -> None:
        """Runs one step of each task."""
        for task in list(self.pool.tasks):
            self.step(task)

    def step_due(self) -> None:
        """Runs what a real pool would run now, which shows tasks that nothing woke."""
        for task in self.pool.iterate_due():
            self.step(task)

    def step_random(self) -> None:
        """Runs one step of a random task."""
        if self.pool.tasks:
            self.step(self.cluster.random.choice(self.pool.tasks))

    def task(self, name: str) -> BackgroundTask:
        """Returns the task whose name ends so."""
        return next(task for task in self.pool.tasks if task.name.endswith(name))

    # -- a client's requests -------------------------------------------------------------------------------------

    def insert(self, partition: int | list[int], keys: list[int], **options: object) -> int:
        """Inserts keys into a partition; returns the rows written (0 for a duplicate)."""
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
        """Returns the rows of these keys."""
        return pa.table(
            {
                "p": pa.array(partitions, pa.uint8()),
                "k": pa.array(keys, pa.uint64()),
                "v": pa.array([f"value {key}" for key in keys], pa.string()),
            },
            schema=SCHEMA.arrow,
        )

    def truncate(self) -> None:
        """Truncates the table."""
        self.call(lambda table: table.truncate())

    def optimize(self) -> None:
        """Merges all parts of each partition."""
        self.call(lambda table: table.optimize(OptimizeOptions(final=True)))

    def call(self, action: Callable[[ReplicatedTable], object]) -> object:
        """Runs the action on the table as this node."""
        with self.acting():
            return action(self.table)

    def keys(self, *, sequential: bool = False) -> list[int]:
        """Returns the keys of all rows, sorted."""
        with self.acting(), self.table.snapshot(sequential_consistency=sequential) as snapshot:
            batches = [batch for part in snapshot.parts for batch in part.read(["k"])]
        return sorted(key for batch in batches for key in batch.column(0).to_pylist())

    # -- contents ------------------------------------------------------------------------------------------------

    @property
    def tables(self) -> list[ReplicatedTable]:
        """All tables that have replicas here."""
        return [self.table]

    def parts(self) -> dict[str, str]:
        """Returns the content hashes of the active parts by name."""
        return get_active_parts(self.table)

    def list_outdated(self) -> set[str]:
        """Returns the names of the outdated parts."""
        return {str(part.name) for part, state in self.table.store.list_parts() if state is PartState.OUTDATED}

    def directories(self) -> list[Path]:
        """Returns every directory of a part, active or not."""
        return sorted(path for path in self.path.iterdir() if PartName.try_parse(path.name) is not None)

    def list_zookeeper_parts(self) -> set[str]:
        """Returns the parts that ZooKeeper lists for this replica."""
        return get_listed_parts(self.keeper, self.table)

    def explain(self) -> object:
        """Describes the node's state, for messages of failed assertions."""
        if not self.is_up:
            return (self.name, "down")
        entries = [(i.entry.type.value, str(i.entry.new_part), i.last_exception, i.postpone_reason)
                   for table in self.tables for i in table.replication.queue.list_entries()]  # fmt: skip
        return (self.name, self.table.state.readonly_reason, entries, sorted(self.parts()))

    # -- the part transport -------------------------------------------------------------------------------------

    def fetch_part(self, base_url: str, endpoint: str, part: PartName, directory: Path, transfer: Transfer) -> None:
        """Copies a part from the node at ``base_url``."""

        def on_file() -> None:
            self.cluster.on_copy(part, self.cluster.node_at(base_url, self))

        transfer_part(self.cluster.node_at(base_url, self).replication, endpoint, part, directory, transfer, on_file)
        self.cluster.failpoint("fetch.after_temporary_part")

    def fetch_parts(
        self, base_url: str, endpoint: str, directories: Mapping[PartName, Path], transfer: Transfer
    ) -> list[PartName]:
        """Copies the parts that the other node has; returns those."""
        came: list[PartName] = []
        for part, directory in directories.items():
            with suppress(UserError):  # the other node does not have it
                self.fetch_part(base_url, endpoint, part, directory, transfer)
                came.append(part)
        return came

    def part_hashes(self, base_url: str, endpoint: str, parts: Sequence[PartName]) -> dict[PartName, str]:
        """Returns the content hashes of the parts on the other node."""
        return self.cluster.node_at(base_url, self).replication.part_hashes(endpoint, parts)

    def stage_copies(
        self, base_url: str, endpoint: str, source: str, staging: str, copies: Sequence[StagedCopy]
    ) -> None:
        """Makes the other node stage parts that a node has staged, unless it is in the middle of something."""
        other = self.cluster.node_at(base_url, self)
        if other in self.cluster.stack:
            raise UnavailableError("NETWORK_ERROR", f"{base_url} did not answer in time")
        try:
            with other.acting():
                other.replication.stage_copies(endpoint, source, staging, copies)
        except Crash:
            if not self.is_up:
                raise
            raise UnavailableError("NETWORK_ERROR", f"{base_url} closed the connection") from None

    def close(self) -> None:
        """Nothing to close."""
        return
