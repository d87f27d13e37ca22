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

from coordination.keeper.interface import MultiFailed, SessionState
from coordination.keeper.memory_keeper import Fault, MemoryEnsemble, MemoryKeeper
from coordination.log.log_entry import LogEntry
from coordination.replicas.cleanup import CleanupSettings
from engine.simulator.rule_coverage import count_rules
from parts.common.errors import PandoError
from parts.common.part_name import PartName
from tests.coordination.real_time import create_table_or_replica
from tests.coordination.simulated_inserts import insert, wait
from tests.coordination.simulated_replica import DEFINITION, TABLE, Crash, History, Replica
from tests.coordination.simulated_session import recover
from tests.coordination.simulated_tasks import clean, drop, execute, merge, pull


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
        count_rules(self.ensemble, self.count)

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
        actors: list[tuple[str, Callable[[World, Replica], None], float]] = [
            ("insert", insert, 3),
            ("pull", pull, 2),
            ("execute", execute, 5),
            ("merge", merge, 1),
            ("drop", drop, 0.1),
            ("clean", clean, 3 if self.outage else 0.3),
            ("wait", wait, 1),
        ]
        if not replica.is_ready:
            replica.steps_away += 1
            if replica.is_crashed and replica.steps_away < self.outage:
                replica.keeper.expire()
                return
            if not replica.busy and self.random.random() < 0.4:
                with self.actor(replica, "recover"):
                    recover(self, replica)
            return
        name, run, _ = self.random.choices(actors, [weight for _, _, weight in actors])[0]
        if name in replica.busy or "recover" in replica.busy or (name == "merge" and "pull" in replica.busy):
            return
        with self.actor(replica, name):
            run(self, replica)

    def maybe_reconnect(self, replica: Replica) -> None:
        if replica.keeper.state is SessionState.SUSPENDED and self.random.random() < 0.5:
            self.reconnect(replica)

    def reconnect(self, replica: Replica) -> None:
        """After healing to a server that is up to date, before perhaps to one that lags."""
        replica.keeper.reconnect(lagging=self.fault_rate > 0 and self.random.random() < 0.5)

    def remember_drops(self) -> None:
        """Drop ranges are taken from the log before it is trimmed."""
        for path, node in list(self.ensemble.tree.items()):
            if path.startswith(TABLE.log + "/"):
                entry = LogEntry.parse(node.data)
                if entry.removed_ranges and entry.new_part not in self.dropped:
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
                        recover(self, replica)
                    continue
                tasks = [("pull", pull), *[("execute", execute)] * 10, ("wait", wait)]
                for name, run in tasks:
                    with self.actor(replica, name):
                        run(self, replica)
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
            f"queue={[(str(i.entry.new_part), i.postpone_reason, i.last_exception) for i in r.queue.list_entries()]} "
            f"waiters={r.waiters}"
            for r in self.replicas
        )
