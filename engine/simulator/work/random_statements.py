"""Random statements on whole servers, beside the work of :mod:`engine.simulator.simulation`."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import cast

from engine.simulator.simulated_node import SimulatedNode
from engine.simulator.simulated_servers import SimulatedServer, SimulatedServers
from engine.simulator.simulated_table import TABLE
from engine.simulator.simulation_model import Expectation, Weights
from engine.simulator.work.random_indexes import IndexWork
from engine.simulator.work.random_partitions import PartitionWork
from engine.simulator.work.random_ttl import TtlWork
from recovery import force_restore_flag


@dataclass
class StatementWeights(Weights):
    """The weights of a simulation of whole servers."""

    check: float = 0.2
    sync: float = 0.3
    begin_anew: float = 0.2
    reattach: float = 0.2
    drop: float = 0
    rot: float = 0
    stage: float = 2
    restage: float = 0.5
    commit: float = 1.5
    rollback: float = 0.2
    look: float = 1
    drop_partition: float = 0.2
    detach_partition: float = 1.5
    forget_partition: float = 0.3
    alter: float = 1
    look_at_columns: float = 0.5
    update: float = 1
    delete: float = 0.5
    kill_mutation: float = 0.2
    look_at_rows: float = 0.5
    pass_time: float = 1
    change_index: float = 0.7
    look_by_index: float = 0.5
    step_clock: float = 0.5


@dataclass
class StatementWork(TtlWork, IndexWork, PartitionWork):
    """All kinds of random work; the nodes are servers."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._dropped: SimulatedServer | None = None
        self._must_drop = False
        self._rotten: SimulatedServer | None = None

    def _do_step_clock(self) -> None:
        """Sets the wall clock of a machine, right or wrong."""
        clock = self.random.choice(list(self.cluster)).clock
        before, clock.skew = clock.skew, self.random.choice([0.0, self.cluster.wrong_clocks.skew()])
        if clock.skew != before:
            self.counts["clock stepped back" if clock.skew < before else "clock stepped ahead"] += 1

    def _do_check(self) -> None:
        """Checks that no part is broken, unless it was made so."""
        if server := self._idle():
            broken: list[tuple[object, ...]] = []
            answer = self._guarded(server, lambda: broken.extend(server.check()))
            self.counts[f"check {answer}"] += 1
            self.counts["broken parts found"] += len(broken)
            assert server is self._rotten or not broken, f"{server.name} has broken parts: {broken}"

    def _do_sync(self) -> None:
        """Checks that a synchronised replica has every row acknowledged before."""
        if server := self._idle():
            known = [
                block for block in self.blocks if block.expected is Expectation.ONCE and not block.attempts_under_way
            ]
            answer = self._guarded(server, server.sync)
            self.counts[f"sync {answer}"] += 1
            keys: list[int] = []
            if answer != "ok" or self._guarded(server, lambda: keys.extend(server.keys())) != "ok":
                return
            found = Counter(keys)
            for block in known:
                if block.expected is Expectation.ONCE and not block.is_truncated:
                    assert all(found[key] == 1 for key in block.keys), f"{server.name} is in sync and lacks {block}"

    def _do_begin_anew(self) -> None:
        if server := self._idle():
            self.counts[f"begin anew {self._guarded(server, server.begin_anew)}"] += 1

    def _do_reattach(self) -> None:
        if server := self._idle():
            answer = self._guarded(server, server.reattach)
            self.counts[f"reattach {answer}"] += 1
            if server.is_up and not server.has_table:
                server.crash()  # the next start attaches it

    def _do_drop(self) -> None:
        """Drops and creates a table, which loses as much as a disk. A quorum of two survives it once a round."""
        server = self._idle()
        if server is None or self._has_lost:
            return
        self._dropped = server
        answer = self._guarded(server, server.drop)
        self.counts[f"drop {answer}"] += 1
        self._must_drop = answer != "ok"
        if answer == "ok":
            self._guarded(server, server.create)
        if server.is_up and not server.has_table:
            server.crash()  # the next start creates it

    def _do_wipe(self) -> None:
        if not self._has_lost:
            super()._do_wipe()

    def _do_rot(self) -> None:
        """Flips a bit in a part that another server has too."""
        server = self._idle()
        if server is None or self._has_lost or not server.has_table:
            return
        others = [node.parts() for node in self._up() if node is not server and cast(SimulatedServer, node).has_table]
        if parts := [part for part in server.parts() if any(part in other for other in others)]:
            self._rotten = server
            server.rot(self.random.choice(parts))
            self.counts["rot"] += 1

    def _check_transactions(self, node: SimulatedNode, found: Counter[int]) -> None:
        """Skips servers that fetch lost rows: they show those one by one."""
        if node not in (self._rotten, self._wiped, self._dropped):
            super()._check_transactions(node, found)

    @property
    def _has_lost(self) -> bool:
        """Tells whether a server has lost something in this round, so that the others must not."""
        return any(server is not None for server in (self._wiped, self._dropped, self._rotten))

    def heal(self) -> None:
        """Finishes interrupted drops, and heals."""
        if self._dropped is not None:
            self.cluster.calm()
            self._finish_drop(self._dropped)
        if self._rotten is not None:  # one part may be most of a small table: the operator forces the start
            force_restore_flag.set_flag(self.cluster.ensemble.connect(), TABLE.replica(self._rotten.name))
        super().heal()
        if self._rotten is not None:
            self.counts["broken parts found"] += len(self._rotten.check())
            self.cluster.settle()
        self._dropped = self._rotten = None

    def check(self) -> None:
        """Checks every invariant, and that no part is broken."""
        super().check()
        for server in cast(SimulatedServers, self.cluster).servers:
            assert not (broken := server.check()), f"{server.name} has broken parts after healing: {broken}"

    def _finish_drop(self, server: SimulatedServer) -> None:
        """Repeats an interrupted DROP, which may have left a table that is not in ZooKeeper any more."""
        if self._must_drop and server.has_table:
            server.drop()
        if not server.has_table:
            server.create()
