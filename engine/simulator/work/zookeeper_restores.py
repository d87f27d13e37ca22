"""Resets ZooKeeper to an older snapshot during random work, and runs SYSTEM RESTORE REPLICA.

A snapshot is taken at one moment and put back some steps later; some servers are down meanwhile. Refused replicas are
restored under faults. The rest are restored after the healing, in any order, until none is refused. A replica whose
refusal has no proof that ZooKeeper was reset, and names the flag ``force_restore_data``, gets the flag. Then it is
checked that all replicas hold the same, and:

1. A block that was acknowledged and not dropped, and that every server had when ZooKeeper was reset (or since), is
   there exactly once.
2. Any other block that was acknowledged and not dropped is there once, or its rows are in ``detached/`` of a server.
   Its part may share block numbers with parts of the first restored replica, for example.
3. No block is there twice.

The sessions of the snapshot come back with it, and end by their time-out, as ZooKeeper ends them. The statement waits
for that. A session that lasted longer would be a server, active and in agreement with ZooKeeper, whose table others
join.

Not promised: a block that was dropped, or whose INSERT got no answer or an error, may be there once. Drops and the ends
of INSERTs are forgotten too. ZooKeeper also forgets the ids of blocks. A block that was inserted before the reset, or
before a replica was restored, is therefore not inserted again: it would rightly be there twice. The same holds for a
dropped block. If the drop is forgotten, both copies are there, and both were acknowledged.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from coordination.keeper.memory_tree import Snapshot
from engine.simulator.simulated_node import SimulatedNode
from engine.simulator.simulated_servers import SimulatedServer, SimulatedServers
from engine.simulator.simulation import Simulation
from engine.simulator.simulation_model import Block, Expectation
from engine.simulator.work.random_partitions import read_keys
from engine.simulator.work.random_statements import StatementWeights, StatementWork
from parts.read.part_reader import open_part
from parts.store.detached_parts import DETACHED
from recovery import force_restore_flag

_MAX_RESTORES = 2
_PASSES = 20
_SESSION_SECONDS = 1.5
"""The time-out of a session in memory, and a tick."""


@dataclass
class RestoreWeights(StatementWeights):
    """The weights without work that only ZooKeeper knows: transactions, mutations, ALTERs."""

    restart: float = 4
    end_zombies: float = 2
    take_snapshot: float = 1
    put_back: float = 1
    restore: float = 2
    stage: float = 0
    restage: float = 0
    commit: float = 0
    rollback: float = 0
    alter: float = 0
    update: float = 0
    delete: float = 0
    kill_mutation: float = 0
    change_index: float = 0
    detach_partition: float = 0
    pass_time: float = 0


@dataclass
class RestoreWork(StatementWork):
    """Random resets of ZooKeeper; the nodes are servers."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._snapshot: Snapshot | None = None
        self._is_past = False
        """True from the reset of ZooKeeper until all is healed."""
        self._past_sessions: list[int] = []
        self._past_sessions_end = 0.0
        self._everywhere: set[Block] = set()
        self._somewhere: set[Block] = set()
        """Acknowledged blocks that were not dropped.

        Those in ``_everywhere`` must be active; those in ``_somewhere`` may be in ``detached/`` instead.
        """

    # -- actions -------------------------------------------------------------------------------------------------

    def _do_insert(self) -> None:
        """Inserts rows that never expire."""
        Simulation._do_insert(self)

    def _do_take_snapshot(self) -> None:
        self._snapshot = self.cluster.ensemble.snapshot()

    def _do_put_back(self) -> None:
        if self._snapshot is None or self.counts["put back"] == _MAX_RESTORES:
            return
        self.counts["put back"] += 1
        self._is_past = True
        idle = [node for node in self._up() if node not in self.cluster.stack]
        down = self.random.sample(idle, self.random.choice([0, self.random.randint(0, len(idle))]))
        self._forget()
        for node in down:
            node.crash()
        self._past_sessions = self.cluster.ensemble.restore(self._snapshot)
        self._past_sessions_end = self.cluster.now + _SESSION_SECONDS
        self.cluster.zombies += self._past_sessions

    def _reconnect(self) -> None:
        """Ends the snapshot's sessions in time. Called between all steps and while somebody waits."""
        if self.cluster.now >= self._past_sessions_end:
            self._end_past_sessions()
        super()._reconnect()

    def _end_past_sessions(self) -> None:
        for session in self._past_sessions:
            self.cluster.ensemble.end_session(session)
        self._past_sessions = []

    def _forget(self) -> None:
        """Adapts the promises for each block: ZooKeeper forgets, or has forgotten."""
        held = self._held_by_all()
        for block in self.blocks:
            block.is_retired = True
            block.attempts += 1  # a statement that runs now may fail to drop it
            block.was_truncated_meanwhile |= block.attempts_under_way > 0
            if block.expected is Expectation.ONCE:
                (self._everywhere if block.keys[0] in held else self._somewhere).add(block)
            block.expected = Expectation.MAYBE
        self._withdraw_promises(self.blocks)

    def _held_by_all(self) -> set[int]:
        """Returns the keys on every disk; none while a server is down."""
        servers = cast(SimulatedServers, self.cluster).servers
        if not all(server.is_up and server.has_table for server in servers):
            return set()
        return set.intersection(*(read_keys(server.table.store.list_active()) for server in servers))

    def _clear(
        self,
        node: SimulatedNode,
        action: Callable[[], object],
        may_go: Callable[[Block], bool],
        is_gone: Callable[[Block], bool],
    ) -> str:
        self._release(may_go)
        answer = super()._clear(node, action, may_go, is_gone)
        self._release(may_go)
        return answer

    def _release(self, may_go: Callable[[Block], bool]) -> None:
        dropped = set(filter(may_go, self.blocks))
        for block in dropped:
            block.is_retired = True
        self._everywhere -= dropped
        self._somewhere -= dropped

    def _do_read(self) -> None:
        if not self._is_past:
            super()._do_read()

    def _do_restore(self) -> None:
        server = self._idle()
        if self._is_past and server is not None and server.has_table and _is_refused(server):
            self._restore(server)

    def _restore(self, server: SimulatedServer) -> None:
        self._forget()
        answer = self._guarded(server, lambda: server.sql("SYSTEM RESTORE REPLICA t"))
        self._forget()
        self.counts[f"restore {answer}"] += 1

    def _do_what_it_says(self, server: SimulatedServer) -> None:
        """Restores a server, or sets the flag that its refusal names."""
        self._restore(server)
        reason = server.table.state.readonly_reason
        if _is_refused(server) and "ZooKeeper is from the past" not in reason and "force_restore_data" in reason:
            force_restore_flag.set_flag(self.cluster.ensemble.connect(), server.table.replication.replica)
            self.counts["force_restore_data"] += 1

    # -- healing and checking --------------------------------------------------------------------------------------

    def heal(self) -> None:
        """Restores all refused replicas, and heals."""
        if self._is_past:
            self.cluster.on_wait = self.cluster.step_others
            self.cluster.on_copy = lambda part, node: None
            self.cluster.calm()
            self._restore_all()
        super().heal()

    def _restore_all(self) -> None:
        servers = cast(SimulatedServers, self.cluster).servers
        order = self.random.sample(servers, len(servers))
        self._forget()
        for _ in range(_PASSES):
            for _ in range(3):
                self.cluster.step_others()
                self.cluster.now += 7.0
            if not (refused := list(filter(_is_refused, order))):
                return
            for server in refused:
                if _is_refused(server):
                    self._do_what_it_says(server)
        raise AssertionError(f"not restored: {[server.explain() for server in order]}")

    def check(self) -> None:
        """Checks every invariant, and that acknowledged blocks are not lost."""
        for block in self._everywhere:
            block.expected = Expectation.ONCE
        there = set(next(iter(self.cluster)).keys())
        detached = [_detached_keys(server) for server in cast(SimulatedServers, self.cluster).servers]
        super().check()
        for block in self._somewhere - self._everywhere:
            is_kept = any(keys.issuperset(block.keys) for keys in detached)
            assert block.keys[0] in there or is_kept, f"{block} was acknowledged, and no disk has it"
            self.counts["a block in detached"] += block.keys[0] not in there
        self.counts["blocks that all had"] += len(self._everywhere)
        self._everywhere, self._somewhere = set(), set()
        self._is_past = False


def _is_refused(server: SimulatedServer) -> bool:
    return server.table.state.activation is None


def _detached_keys(server: SimulatedServer) -> set[int]:
    directory = server.table.store.path / DETACHED
    return read_keys([open_part(directory / name) for name in server.table.store.list_detached()])
