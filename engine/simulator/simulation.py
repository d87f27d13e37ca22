"""Random work and random faults on a cluster, checked against a model of what clients were told.

A *block* is the unit that a client inserts: some keys of one partition, perhaps under a deduplication token. For each
block the model knows whether its rows must be there exactly once, must not be there, or may be there once (if the
answer was unknown). A run has rounds of work and faults, then healing. Then every invariant is checked, and what was
unknown becomes known.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from coordination.keeper.interface import SessionState
from coordination.keeper.memory_keeper import Fault
from engine.simulator.concurrent_work import ConcurrentWork
from engine.simulator.rule_coverage import count_rules
from engine.simulator.simulated_cluster import SimulatedCluster
from engine.simulator.simulated_node import SimulatedNode
from engine.simulator.simulated_table import TABLE
from engine.simulator.simulation_model import Block, Expectation, Weights
from engine.simulator.step_pool import Crash
from parts.common.errors import CancelledError, PandoError, UnavailableError, UnknownOutcomeError
from parts.common.part_name import PartName
from recovery import force_restore_flag


@dataclass
class Simulation:
    """The random work on one cluster, and its model."""

    cluster: SimulatedCluster
    weights: Weights = field(default_factory=Weights)
    fault_rate: float = 0.01
    crash_rate: float = 0.003
    quorum: Sequence[int | str] = (0, 0, 0, 2, "auto")
    blocks: list[Block] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.random = self.cluster.random
        count_rules(self.cluster.ensemble, self._count)
        self._concurrent_work = ConcurrentWork(self.random, self._count)
        self._next_key = itertools.count(1)
        self._wiped: SimulatedNode | None = None
        self._truncates_under_way = 0

    def _count(self, rule: str) -> None:
        self.counts[rule] += 1

    def run(self, rounds: int, steps: int) -> None:
        """Runs rounds of random actions, each followed by healing and checks."""
        for _ in range(rounds):
            self.begin_faults()
            for _ in range(steps):
                self.act()
            self.heal()
            self.check()

    def begin_faults(self) -> None:
        """Installs the fault hooks."""
        self.cluster.on_request = self._fault
        self.cluster.on_failpoint = self._perhaps_crash
        self.cluster.on_wait = self._while_waiting
        self.cluster.on_copy = self._copy

    # -- actions -------------------------------------------------------------------------------------------------

    def act(self) -> None:
        """Runs one random action."""
        names = list(vars(self.weights))
        (name,) = self.random.choices(names, [getattr(self.weights, name) for name in names])
        self.cluster.now += self.random.random()
        self._reconnect()
        getattr(self, f"_do_{name}")()

    def _up(self) -> list[SimulatedNode]:
        return [node for node in self.cluster if node.is_up]

    def _guarded(self, node: SimulatedNode, action: Callable[[], object]) -> str:
        """Runs a client's action; returns ``ok``, ``failed`` or ``unknown``."""
        try:
            action()
            return "ok"
        except Crash:
            assert not node.is_up
            return "unknown"
        except (UnknownOutcomeError, CancelledError):
            return "unknown"
        except PandoError as error:
            self.counts[f"error {error.code}"] += 1
            return "failed"

    def _attempt(self, node: SimulatedNode, block: Block, quorum: int | str, is_parallel: bool) -> None:
        block.attempts += 1
        block.attempts_under_way += 1
        block.is_always_quorum &= quorum != 0
        options = {"quorum": quorum, "quorum_parallel": is_parallel, "deduplication_token": block.token}
        insert = partial(node.insert, block.partition, block.keys, quorum_timeout_seconds=20.0, **options)
        answer = self._guarded(node, self._concurrent_work.run_beside(node, insert))
        block.attempts_under_way -= 1
        self.counts[f"insert {answer}"] += 1
        if answer == "ok":
            block.expected = Expectation.MAYBE if block.was_truncated_meanwhile else Expectation.ONCE
            is_safe = not block.was_truncated_meanwhile and not self._truncates_under_way
            block.quorum_acknowledged = block.is_always_quorum and is_safe
        elif answer == "unknown" and block.expected is Expectation.NEVER:
            block.expected = Expectation.MAYBE
        if not block.attempts_under_way:
            block.was_truncated_meanwhile = False

    def _do_insert(self) -> None:
        keys = [next(self._next_key) for _ in range(self.random.randint(1, 3))]
        token = f"token-{keys[0]}" if self.random.random() < 0.3 else ""
        block = Block(self.random.randint(1, 2), keys, token)
        self.blocks.append(block)
        self._insert(block)

    def _do_repeat(self) -> None:
        if blocks := [block for block in self.blocks[-12:] if not (block.is_in_transaction or block.is_retired)]:
            self._insert(self.random.choice(blocks[-8:]))

    def _insert(self, block: Block) -> None:
        if nodes := self._up():
            is_parallel = self.random.random() < 0.6
            self._attempt(self.random.choice(nodes), block, self.random.choice(self.quorum), is_parallel)
            if block.quorum_acknowledged and self.random.random() < 0.5:
                self._do_read()  # replicas outside the quorum are about to get it

    def _do_step(self) -> None:
        if nodes := self._up():
            self.random.choice(nodes).step_random()

    def _do_restart(self) -> None:
        down = [node for node in self.cluster if not node.is_up]
        if down:
            node = self.random.choice(down)
            if self._guarded(node, node.start) == "ok":
                self.counts["restart"] += 1

    def _do_crash(self) -> None:
        nodes = [node for node in self._up() if node not in self.cluster.stack]
        if nodes:
            self.counts[self.random.choice(nodes).crash()] += 1

    def _do_detach(self) -> None:
        """Stops a node gracefully or detaches its table; :meth:`_do_restart` starts it again."""
        nodes = [node for node in self._up() if node not in self.cluster.stack]
        if nodes:
            node = self.random.choice(nodes)
            self._guarded(node, node.stop)
            self.counts["detach"] += 1

    def _do_end_zombies(self) -> None:
        self.cluster.end_zombies()

    def _do_cut(self) -> None:
        self.cluster.cuts.add(frozenset(self.random.sample(sorted(self.cluster.nodes), 2)))

    def _do_mend(self) -> None:
        self.cluster.cuts.clear()

    def _do_wipe(self) -> None:
        """Wipes one disk a round, which a quorum of two survives."""
        down = [node for node in self.cluster if not node.is_up and node not in self.cluster.stack]
        if self._wiped is None and down:
            self._wiped = self.random.choice(down)
            self._wiped.wipe()
            self.counts["wipe"] += 1

    def _do_truncate(self) -> None:
        if self._up():
            node = self.random.choice(self._up())
            answer = self._clear(node, node.truncate, lambda block: True, lambda block: True)
            self.counts[f"truncate {answer}"] += 1

    def _clear(
        self,
        node: SimulatedNode,
        action: Callable[[], object],
        may_go: Callable[[Block], bool],
        is_gone: Callable[[Block], bool],
    ) -> str:
        """Runs an action that drops blocks. ``is_gone`` tells which blocks a successful action has dropped."""
        concerned = list(filter(may_go, self.blocks))
        attempts = {id(block): block.attempts for block in concerned if not block.attempts_under_way}
        for block in concerned:
            block.was_truncated_meanwhile |= block.attempts_under_way > 0
        self._withdraw_promises(concerned)  # also while it runs, because others read meanwhile
        self._truncates_under_way += 1
        answer = self._guarded(node, action)
        self._truncates_under_way -= 1
        concerned = list(filter(may_go, self.blocks))
        for block in concerned:
            if attempts.get(id(block)) == block.attempts and answer == "ok" and is_gone(block):
                block.expected = Expectation.NEVER
            elif block.expected is Expectation.ONCE:
                block.expected = Expectation.MAYBE
            block.was_truncated_meanwhile |= block.attempts_under_way > 0
        self._withdraw_promises(concerned)
        return answer

    @staticmethod
    def _withdraw_promises(blocks: Sequence[Block]) -> None:
        """Withdraws what sequential reads have shown or must show, as it may be truncated."""
        for block in blocks:
            block.quorum_acknowledged = block.seen_sequentially = False
            block.is_truncated = True

    def _do_optimize(self) -> None:
        if nodes := self._up():
            node = self.random.choice(nodes)
            answer = self._guarded(node, node.optimize)
            self.counts[f"optimize {answer}"] += 1

    def _do_read(self) -> None:
        if not self._up():
            return
        node = self.random.choice(self._up())
        expected = [block for block in self.blocks if block.quorum_acknowledged and not block.attempts_under_way]
        keys: list[int] = []
        read = self._concurrent_work.run_beside(node, lambda: keys.extend(node.keys(sequential=True)))
        answer = self._guarded(node, read)
        self.counts[f"read {answer}"] += 1
        if answer != "ok":
            return
        found = Counter(keys)
        twice = [key for key, count in found.items() if count > 1]
        truncated = {key for block in self.blocks if block.is_truncated for key in block.keys}
        # A replica that has not yet dropped truncated rows may have the repeated rows already.
        assert set(twice) <= truncated, f"sequential read of {node.name} shows rows twice: {twice}, {node.explain()}"
        for block in expected:
            if block.quorum_acknowledged:
                assert all(key in found for key in block.keys), f"{node.name} misses confirmed {block}"
        for block in self.blocks:
            block.seen_sequentially |= block.keys[0] in found and not block.is_truncated

    # -- faults --------------------------------------------------------------------------------------------------

    def _fault(self, node: SimulatedNode, kind: str, path: str) -> Fault | None:
        if kind == "sync" and node.keeper.is_lagging:
            self.counts["sync behind a lagging server"] += 1
        depth = len(self.cluster.stack)
        if depth <= 2 and self.random.random() < 0.02:
            self._other_work(node)
        self._concurrent_work.work_at_request(node)
        if self.random.random() < self.crash_rate / 3:
            self.counts[node.crash()] += 1
            raise Crash(node.name)
        is_deletion = kind == "multi" and "/parts/" in path
        if self.random.random() < self.fault_rate * (10 if is_deletion else 1):
            fault = self.random.choice(list(Fault))
            self.counts[fault.name] += 1
            if is_deletion:
                self.counts["fault at a deletion"] += 1
            return fault
        return None

    def _perhaps_crash(self, node: SimulatedNode, name: str) -> None:
        if len(self.cluster.stack) == 1 and self.random.random() < 0.1:
            self._interleave(node)
        if self.random.random() < self.crash_rate * 5:
            self.counts[f"{node.crash()} {name}"] += 1
            raise Crash(node.name)

    def _interleave(self, node: SimulatedNode) -> None:
        """Lets others work in the middle of an action, such as an INSERT that has its number and no part yet."""
        for _ in range(self.random.randint(1, 4)):
            self.random.choice(
                [self._step_other_node, self._step_other_node, self._do_insert, self._do_optimize, self.act]
            )()
            if not node.is_up:
                raise Crash(node.name)

    def _step_other_node(self) -> None:
        """Steps every task of a node that is in the middle of nothing."""
        if others := [node for node in self._up() if node not in self.cluster.stack]:
            self.random.choice(others).step_all()

    def _other_work(self, node: SimulatedNode) -> None:
        others = [other for other in self._up() if other not in self.cluster.stack]
        if others:
            self.random.choice(others).step_random()

    def _copy(self, part: PartName, source: SimulatedNode) -> None:
        """Breaks off a fetch, or lets the source delete outdated parts meanwhile."""
        if self.random.random() < self.fault_rate:
            self.counts["fetch broken off"] += 1
            raise UnavailableError("NETWORK_ERROR", f"{source.name} does not answer any more")
        if self.random.random() < 0.2 and source not in self.cluster.stack:
            source.step(source.task("clean up"))
            if str(part) in source.list_outdated():
                self.counts["outdated part kept for a fetch"] += 1

    def _while_waiting(self) -> None:
        """Lets nodes, and sometimes a client, work while somebody waits."""
        self._reconnect()
        for node in self._up():
            if node not in self.cluster.stack[:-1] and self.random.random() < 0.5:
                node.step_random()
        if len(self.cluster.stack) == 1 and self.random.random() < 0.1:
            self.act()

    def _reconnect(self) -> None:
        """Reconnects nodes, perhaps to a lagging server of ZooKeeper; a lagging one may catch up."""
        for node in self._up():
            if node.keeper.state is not SessionState.CONNECTED and self.random.random() < 0.4:
                if self.random.random() < 0.3:
                    node.keeper.expire()
                node.keeper.reconnect(lagging=self.random.random() < 0.5)
            elif self.random.random() < 0.1:
                node.keeper.catch_up()

    # -- healing and checking ------------------------------------------------------------------------------------

    def heal(self) -> None:
        """Ends all faults, and lets everything settle."""
        self.cluster.on_wait = self.cluster.step_others
        self.cluster.on_copy = lambda part, node: None
        if self._wiped is not None:
            # The loss of one disk may be most of a small table's rows: the operator forces the start.
            force_restore_flag.set_flag(self.cluster.ensemble.connect(), TABLE.replica(self._wiped.name))
            self._wiped = None
        self.cluster.heal()
        self.cluster.settle()

    def check(self) -> None:
        """Checks every invariant; what was unknown becomes known."""
        self.cluster.check_equal()
        for node in self.cluster:
            found = Counter(node.keys())
            assert found == Counter(node.keys(sequential=True)), f"{node.name} hides rows after healing"
            for block in self.blocks:
                self._check_block(node, block, found)
        there = Counter(next(iter(self.cluster)).keys())
        assert set(there) <= self._known_keys()
        for block in self.blocks:
            assert not block.attempts_under_way
            block.expected = Expectation.ONCE if there[block.keys[0]] else Expectation.NEVER
            block.was_truncated_meanwhile = block.is_truncated = False

    def _known_keys(self) -> set[int]:
        return {key for block in self.blocks for key in block.keys}

    def _check_block(self, node: SimulatedNode, block: Block, found: Counter[int]) -> None:
        times = {found[key] for key in block.keys}
        assert len(times) == 1, f"{node.name} has a part of {block}: {times}"
        allowed = {Expectation.ONCE: {1}, Expectation.NEVER: {0}, Expectation.MAYBE: {0, 1}}[block.expected]
        assert times <= allowed, f"{node.name} has {block} {times} times"
        if block.seen_sequentially:
            assert times == {1}, f"{block} was shown by a sequential read and is not on {node.name}"
