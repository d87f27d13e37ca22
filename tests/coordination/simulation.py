"""A few replicas on one in-memory ZooKeeper, in one thread, from one seed, with faults at every request.

The store of a replica is a set of part names with the rows they hold. Actors (insert, pull, execute, merge, drop,
clean, recover) run as the server's tasks would; at any request of one actor, others may run (re-entrantly), a
connection may break before or after the request was applied, a session may expire, a server may show the past, a
replica may crash and lose its memory.
After healing, everything must converge and every acknowledged row be there once.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from coordination import queue_io
from coordination.block_numbers import DuplicateBlock
from coordination.cleanup import CleanupSettings, clean_once
from coordination.clone import clone_replica, finish_clone, is_lost
from coordination.drop_range import clear_leftovers, drop_partition
from coordination.insert_commit import InsertRequest, InsertStatus, begin_insert, commit_insert, resolve_insert
from coordination.keeper import KeeperConnectionLoss, KeeperError, MultiFailed, SessionState
from coordination.log_entry import LogEntry
from coordination.memory_keeper import Fault, MemoryEnsemble, MemoryKeeper
from coordination.merge_assignment import assign_merges, merge_entry
from coordination.merge_predicate import build_predicate
from coordination.part_commit import ProducedStatus, commit_produced_part, find_holder
from coordination.part_set import PartSet
from coordination.queue_rules import Action, ActionKind, Limits
from coordination.quorum import confirm_own_parts, plan_quorum
from coordination.quorum_failure import fail_unreachable_part, forget_failed_parts, take_back_failed_parts
from coordination.quorum_wait import wait_for_quorum
from coordination.replica_activity import ReplicaAddress, activate
from coordination.table_nodes import create_table_or_replica
from parts.errors import PandoError, UnavailableError, UnknownOutcomeError
from parts.part_name import PartName
from tests.coordination.rules import watch_rules
from tests.coordination.simulated_replica import DEFINITION, PARTITIONS, TABLE, Crash, History, Replica, Rows, Waiter


class World:
    def __init__(
        self, seed: int, *, replicas: int = 3, fault_rate: float = 0.03, max_logs: int = 40, outage: int = 0
    ) -> None:
        """``outage``: the steps that a crashed replica stays away."""
        self.random = random.Random(seed)
        self.now = 1000.0
        self.outage = outage
        self.fault_rate = fault_rate
        self.settings = CleanupSettings(5, max_logs, 10_000, 10_000_000)
        self.ensemble = MemoryEnsemble(self.clock)
        self.history = History()
        self.dropped: list[PartName] = []
        self.depth = 0
        self.next_block = 0
        self.zombies: list[MemoryKeeper] = []
        """Sessions of crashed processes, which end by their time-out."""
        self.counts: dict[str, int] = {}
        self.replicas = [Replica(self, f"r{i}") for i in range(replicas)]
        for replica in self.replicas:
            create_table_or_replica(replica.keeper, TABLE, replica.name, DEFINITION)
        self.ensemble.faults = self.fault
        watch_rules(self.ensemble, self.count)

    def clock(self) -> float:
        self.now += 0.01
        return self.now

    def count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1

    # --- faults ------------------------------------------------------------------------------------------------

    def fault(self, session: int, kind: str, path: str) -> Fault | None:
        if self.fault_rate == 0:
            return None
        if self.depth < 2 and self.random.random() < 0.08:
            self.depth += 1
            try:
                self.step()
            finally:
                self.depth -= 1
        owner = next((r for r in self.replicas if r.keeper.session_id == session), None)
        if owner is None or self.random.random() >= self.fault_rate:
            return None
        choice = self.random.random()
        if choice < 0.15 and owner.busy:
            self.count("crash")
            owner.is_crashed = True
            raise Crash(owner.name)
        self.count("fault")
        return self.random.choice(list(Fault))

    @contextmanager
    def actor(self, replica: Replica, name: str) -> Iterator[None]:
        """One run of a task: ZooKeeper's errors end it, a crash ends the process."""
        replica.busy.add(name)
        try:
            yield
        except (PandoError, MultiFailed) as error:
            if error.name == "LOGICAL_ERROR":
                raise
            self.count(f"{name}: {type(error).__name__}")
        except Crash as crash:
            # The exception unwinds every actor below it; another replica that is caught in it crashes too.
            replica.is_crashed = True
            replica.busy.discard(name)
            if next(r for r in self.replicas if r.name == crash.args[0]).busy:
                raise
        finally:
            replica.busy.discard(name)

    # --- steps -------------------------------------------------------------------------------------------------

    def step(self) -> None:
        if self.zombies and self.random.random() < 0.2:
            self.zombies.pop().expire()
        replica = self.random.choice(self.replicas)
        if self.random.random() < 0.1:
            replica.keeper.catch_up()
        actors: list[tuple[str, Callable[[Replica], None], float]] = [
            ("insert", self.insert, 3),
            ("pull", self.pull, 2),
            ("execute", self.execute, 5),
            ("merge", self.merge, 1),
            ("drop", self.drop, 0.1),
            ("clean", self.clean, 3 if self.outage else 0.3),
            ("wait", self.wait, 1),
        ]
        if not replica.is_ready:
            replica.steps_away += 1
            if replica.is_crashed and replica.steps_away < self.outage:
                replica.keeper.expire()
                return
            if not replica.busy and self.random.random() < 0.4:
                with self.actor(replica, "recover"):
                    self.recover(replica)
            return
        name, run, _ = self.random.choices(actors, [weight for _, _, weight in actors])[0]
        if name in replica.busy or "recover" in replica.busy or (name == "merge" and "pull" in replica.busy):
            return
        with self.actor(replica, name):
            run(replica)

    def recover(self, replica: Replica) -> None:
        """A new session, or a new process: what the server does before it serves."""
        if replica.is_crashed:
            self.zombies.append(replica.keeper)
            replica.forget()
            replica.busy.add("recover")  # this very step: a second one beside it would be another process
            replica.keeper = self.ensemble.connect()
        if replica.keeper.state is not SessionState.CONNECTED:
            self.reconnect(replica)
        if replica.activation is not None and replica.keeper.session_id == replica.activation.session_id:
            return
        replica.activation = None
        keeper, paths = replica.keeper, replica.paths
        self.settle(replica)
        self.take_back(replica)
        address = ReplicaAddress(replica.name, 1)
        activation = activate(keeper, paths, address, replica.name, wait_seconds=0, clock=self.clock)
        self.take_back(replica)
        if is_lost(keeper, paths):
            self.count("clone")
            self.load_disk(replica)
            local = {part: replica.record(part).content_hash for part in replica.active}
            try:
                result = clone_replica(keeper, paths, local, clock=self.clock)
            except UnavailableError:
                if len(keeper.children(TABLE.replicas)) == len(self.replicas):
                    raise
                raise
            if result.copied_entries:
                self.count("clone took entries over")
            for part in result.parts_to_detach:
                replica.active.remove(part)
                replica.disk.pop(part, None)
            finish_clone(keeper, paths)
        listed = set(queue_io.own_parts(keeper, paths))
        self.load_disk(replica, listed)
        missing = [part for part in PartSet(listed) if part not in replica.active]
        queue_io.load_queue(keeper, paths, replica.queue, [p for p in listed if p not in missing])
        queue_io.requeue_fetch(keeper, paths, replica.queue, missing, self.clock())
        confirm_own_parts(keeper, paths, [str(part) for part in replica.active])
        replica.activation = activation

    def take_back(self, replica: Replica) -> None:
        failed = take_back_failed_parts(replica.keeper, replica.paths)
        for name in failed:
            replica.disk.pop(PartName.parse(name), None)
            replica.active.remove(PartName.parse(name))
        forget_failed_parts(replica.keeper, replica.paths, failed)

    def load_disk(self, replica: Replica, listed: set[PartName] | None = None) -> None:
        """At a process start: pre-active parts that ZooKeeper does not list are put aside."""
        if listed is not None and not replica.loaded_disk:
            for part in list(replica.disk):
                if part not in listed:
                    del replica.disk[part]
            replica.active = PartSet(replica.disk)
            replica.loaded_disk = True
        elif listed is None and not replica.loaded_disk:
            known = set(queue_io.own_parts(replica.keeper, replica.paths))
            replica.active = PartSet(part for part in replica.disk if part in known)

    def settle(self, replica: Replica) -> None:
        """What was left in doubt by the former session of this process."""
        for block, request in list(replica.unresolved):
            result = resolve_insert(replica.keeper, request, resolve_seconds=0, clock=self.clock, sleep=self.no_sleep)
            if result.status is InsertStatus.COMMITTED:
                self.take(replica, request.part)
            elif result.status is InsertStatus.RETRY:
                replica.disk.pop(request.part, None)
            else:
                raise UnavailableError("KEEPER_EXCEPTION", "still unknown")
            replica.unresolved.remove((block, request))
        listed = set(queue_io.own_parts(replica.keeper, replica.paths))
        for item in list(replica.unfinished):
            if item[2] in listed:
                self.take(replica, item[2])
            else:
                replica.disk.pop(item[2], None)
            replica.unfinished.remove(item)

    def no_sleep(self, _: float) -> None:
        return

    def take(self, replica: Replica, part: PartName) -> None:
        """Pre-active → active."""
        replica.active.add(part)

    # --- actors ------------------------------------------------------------------------------------------------

    def insert(self, replica: Replica) -> None:
        if self.next_block and self.random.random() < 0.3:
            number = self.random.randrange(self.next_block)
        else:
            number, self.next_block = self.next_block, self.next_block + 1
        block, partition = f"b{number}", PARTITIONS[number % len(PARTITIONS)]
        self.history.attempted.add(block)
        setting = self.random.choice([0, 0, 0, 2, "auto"])
        is_parallel = self.random.random() < 0.7
        assert replica.activation is not None
        keeper = replica.keeper
        quorum = plan_quorum(keeper, TABLE, setting, is_parallel=is_parallel)
        for _ in range(5):
            taken = begin_insert(keeper, TABLE, partition, block, owner=replica.name, quorum=quorum)
            if isinstance(taken, DuplicateBlock):
                self.count("duplicate")
                self.confirm(replica, block, PartName.parse(taken.part), quorum is not None, is_parallel)
                return
            part = PartName(partition, taken.number, taken.number, 0)
            assert part not in replica.disk
            replica.disk[part] = frozenset([block])
            activation = replica.activation
            if activation is None:
                raise UnavailableError("TABLE_IS_READ_ONLY", "no session")
            record = replica.record(part)
            request = InsertRequest(replica.paths, part, taken, record, self.clock(), activation, block, quorum)
            if not self.commit(replica, block, request):
                continue
            return

    def commit(self, replica: Replica, block: str, request: InsertRequest) -> bool:
        """``False``: take another number."""
        with replica.queue.inserting(request.part):
            try:
                self.history.maybe.add(block)
                result = commit_insert(
                    replica.keeper,
                    request,
                    resolve_seconds=0.05,
                    clock=self.clock,
                    sleep=lambda _: self.maybe_reconnect(replica),
                )
            except PandoError:
                replica.disk.pop(request.part, None)
                raise
            if result.status is InsertStatus.COMMITTED:
                self.take(replica, request.part)
                replica.queue.add_active(request.part)
        if result.status is InsertStatus.COMMITTED:
            self.count("committed")
            is_quorum = request.quorum is not None
            self.confirm(replica, block, request.part, is_quorum, is_quorum and request.quorum.is_parallel)  # type: ignore[union-attr]
        elif result.status is InsertStatus.DUPLICATE:
            replica.disk.pop(request.part, None)
        elif result.status is InsertStatus.RETRY:
            self.count("retry")
            replica.disk.pop(request.part, None)
            return False
        else:
            self.count("unknown insert")
            replica.unresolved.append((block, request))
        return True

    def maybe_reconnect(self, replica: Replica) -> None:
        if replica.keeper.state is SessionState.SUSPENDED and self.random.random() < 0.5:
            self.reconnect(replica)

    def reconnect(self, replica: Replica) -> None:
        """After healing to a server that is up to date, before perhaps to one that lags."""
        replica.keeper.reconnect(lagging=self.fault_rate > 0 and self.random.random() < 0.5)

    def confirm(self, replica: Replica, block: str, part: PartName, is_quorum: bool, is_parallel: bool) -> None:
        if not is_quorum:
            # A duplicate of a pending quorum insert may be given up later: only the waiter may acknowledge it.
            if self.pending(replica, part):
                return
            self.history.acknowledge(block, part)
        elif replica.activation is not None:
            replica.waiters.append(Waiter(block, part, replica.activation, is_parallel))

    def pending(self, replica: Replica, part: PartName) -> bool:
        paths = (TABLE.quorum_parallel_part(str(part)), TABLE.quorum_status, TABLE.quorum_failed_part(str(part)))
        return any(path in self.ensemble.tree for path in paths)

    def wait(self, replica: Replica) -> None:
        for waiter in list(replica.waiters):
            try:
                wait_for_quorum(
                    replica.keeper,
                    TABLE,
                    waiter.part,
                    waiter.activation,
                    is_parallel=waiter.is_parallel,
                    timeout_seconds=0,
                    clock=self.clock,
                )
            except UnknownOutcomeError as error:
                if "Timeout" in error.message and self.random.random() < 0.9:
                    continue
            else:
                if not self.pending(replica, waiter.part):
                    self.count("quorum met")
                    self.history.acknowledge(waiter.block, waiter.part)
            if waiter in replica.waiters:
                replica.waiters.remove(waiter)

    def pull(self, replica: Replica) -> None:
        queue_io.pull_log(replica.keeper, replica.paths, replica.queue)

    def execute(self, replica: Replica) -> None:
        if replica.unresolved and not replica.busy - {"execute"}:
            self.settle(replica)
        action = replica.queue.next_action(replica, Limits(4, 4, 1 << 40))
        if action is None:
            return
        try:
            self.run(replica, action)
        except Crash:
            raise
        except (KeeperError, KeeperConnectionLoss, PandoError) as error:
            replica.queue.fail(action.name, error.message)
            raise

    def run(self, replica: Replica, action: Action) -> None:
        entry, keeper, queue = action.entry, replica.keeper, replica.queue
        assert entry.new_part is not None
        if action.kind is ActionKind.SKIP:
            queue_io.drop_entry(keeper, replica.paths, queue, action.name)
        elif action.kind is ActionKind.DROP_RANGE:
            self.count("drop executed")
            if entry.has_leftovers:
                self.count("leftovers cleared")
                clear_leftovers(keeper, TABLE, entry.new_part)
            gone = replica.active.remove_covered(entry.new_part)
            listed = [p for p in queue_io.own_parts(keeper, replica.paths) if entry.new_part.covers(p)]
            queue_io.remove_parts(keeper, replica.paths, {*gone, *listed})
            queue_io.drop_entries(keeper, replica.paths, queue, [*queue.covered_entries(action.name), action.name])
        elif action.kind is ActionKind.MERGE:
            self.count("merge executed")
            rows = frozenset().union(*(replica.disk[part] for part in entry.source_parts))
            self.produce(replica, action, entry.new_part, rows)
        else:
            self.fetch(replica, action)

    def fetch(self, replica: Replica, action: Action) -> None:
        entry = action.entry
        assert entry.new_part is not None
        holder = find_holder(
            replica.keeper, replica.paths, entry.new_part, replica.queue.virtual_parts(), choose=self.random
        )
        if holder is None:
            if entry.quorum >= 2 and fail_unreachable_part(replica.keeper, replica.paths, entry):
                self.count("quorum failed")
                queue_io.discard_entry(replica.keeper, replica.paths, replica.queue, action.name)
                return
            replica.queue.postpone(action.name, "no active replica has it")
            return
        source = next(r for r in self.replicas if r.name == holder.replica_name)
        if holder.part not in source.disk or source.is_crashed:
            replica.queue.fail(action.name, "the holder does not answer")
            return
        self.count("fetch")
        self.produce(replica, action, holder.part, source.disk[holder.part])

    def produce(self, replica: Replica, action: Action, part: PartName, rows: Rows) -> None:
        replica.disk[part] = rows
        try:
            status = commit_produced_part(
                replica.keeper,
                replica.paths,
                replica.queue,
                action.name,
                action.entry,
                part,
                replica.record(part),
                resolve_seconds=0.05,
                clock=self.clock,
                sleep=lambda _: self.maybe_reconnect(replica),
            )
        except Crash:
            raise
        except BaseException:
            replica.disk.pop(part, None)
            raise
        if status is ProducedStatus.COMMITTED:
            self.take(replica, part)
            replica.queue.finish(action.name)
        elif status is ProducedStatus.UNKNOWN:
            self.count("unknown part")
            replica.unfinished.append((action.name, action.entry, part))
            replica.activation = None
            replica.keeper.expire()
        else:
            assert status is ProducedStatus.DROPPED, "all replicas merge alike"
            replica.disk.pop(part, None)
            queue_io.discard_entry(replica.keeper, replica.paths, replica.queue, action.name)

    def merge(self, replica: Replica) -> None:
        replica.busy.add("pull")
        try:
            predicate = build_predicate(replica.keeper, TABLE, replica.queue, lambda: self.pull(replica))
        finally:
            replica.busy.discard("pull")
        if any(predicate.committing.values()):
            self.count("predicate met a lock")
        entries = []
        for partition in predicate.partition_ids():
            runs = [run for run in predicate.mergeable_runs(partition) if len(run) >= 2]
            if runs:
                run = self.random.choice(runs)
                begin = self.random.randrange(len(run) - 1)
                end = self.random.randrange(begin + 2, len(run) + 1)
                entries.append(merge_entry(run[begin:end], replica.name, self.clock()))
        if entries and assign_merges(replica.keeper, TABLE, predicate.log_version, entries):
            self.count("merge assigned")

    def drop(self, replica: Replica) -> None:
        partition = self.random.choice(PARTITIONS)
        drop_partition(replica.keeper, TABLE, replica.name, partition, clock=self.clock)

    def clean(self, replica: Replica) -> None:
        self.remember_drops()
        report = clean_once(replica.keeper, TABLE, self.settings)
        for name in report.lost_replicas:
            self.count(f"lost {name}")
        covered = [
            p for p in queue_io.own_parts(replica.keeper, replica.paths) if replica.active.covering(p) not in (p, None)
        ]
        queue_io.remove_parts(replica.keeper, replica.paths, covered)
        for part in covered:
            replica.disk.pop(part, None)

    # --- the end -----------------------------------------------------------------------------------------------

    def remember_drops(self) -> None:
        """Drop ranges are taken from the log before it is trimmed."""
        for path, node in list(self.ensemble.tree.items()):
            if path.startswith(TABLE.log + "/"):
                entry = LogEntry.parse(node.data)
                if entry.is_dropping and entry.new_part is not None and entry.new_part not in self.dropped:
                    self.dropped.append(entry.new_part)

    def heal(self) -> None:
        self.fault_rate = 0.0
        for replica in self.replicas:
            replica.keeper.catch_up()
        for _ in range(400):
            while self.zombies:
                self.zombies.pop().expire()
            for replica in self.replicas:
                if not replica.is_ready:
                    with self.actor(replica, "recover"):
                        self.recover(replica)
                    continue
                tasks = [("pull", self.pull), *[("execute", self.execute)] * 10, ("wait", self.wait)]
                for name, run in tasks:
                    with self.actor(replica, name):
                        run(replica)
            self.now += 40
            if self.is_quiet():
                return
        raise AssertionError(f"did not converge: {self.describe()}")

    def is_quiet(self) -> bool:
        head = [len(self.ensemble.tree[r.paths.queue].children) for r in self.replicas]
        newest = max((int(name[4:]) for name in self.ensemble.tree[TABLE.log].children), default=-1)
        pointers = [self.ensemble.tree[r.paths.log_pointer].data for r in self.replicas]
        caught_up = all(pointer and int(pointer) == newest + 1 for pointer in pointers)
        ready = all(r.is_ready and not r.unresolved and not r.waiters for r in self.replicas)
        return not any(head) and caught_up and ready

    def describe(self) -> str:
        return "\n".join(
            f"{r.name} ready={r.is_ready} active={[str(p) for p in r.active]} "
            f"queue={[(str(i.entry.new_part), i.postpone_reason, i.last_exception) for i in r.queue.entries()]} "
            f"waiters={r.waiters}"
            for r in self.replicas
        )
