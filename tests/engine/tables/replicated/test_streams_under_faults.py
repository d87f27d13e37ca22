"""A stream reads on while everything fails: of what was not truncated it has delivered each row that is there once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from engine.simulator.simulated_cluster import SimulatedCluster
from engine.simulator.simulation import Simulation
from engine.simulator.simulation_model import Weights
from parts.common.errors import PandoError
from tests.engine.tables.replicated.test_block_history import KEPT, Stream
from tests.engine.tables.replicated.test_colony_simulation import SETTINGS
from tests.portions import one_in

GONE = 33


@dataclass
class StreamWeights(Weights):
    stream: float = 4


@dataclass
class StreamSimulation(Simulation):
    stream: Stream = field(default_factory=Stream)
    truncated: set[int] = field(default_factory=set)
    """Keys that may have been there before a TRUNCATE, and come again."""
    _is_streaming: bool = False

    def _do_truncate(self) -> None:
        self.counts["truncate"] += 1
        super()._do_truncate()
        self.truncated |= {key for block in self.blocks for key in block.keys}

    def _do_stream(self) -> None:
        """Others may act while it waits, but a stream runs one batch at a time."""
        if not self._is_streaming:
            self._is_streaming = True
            try:
                self._run_batch()
            finally:
                self._is_streaming = False

    def _run_batch(self) -> None:
        """Planned on one replica, read on another. One that fails is planned anew."""
        nodes = [node for node in self._up() if node not in self.cluster.stack]
        if not nodes:
            return
        planner, reader = self.random.choice(nodes), self.random.choice(nodes)
        end: dict[str, int] = {}
        limit = self.random.choice((None, 2))
        if self._guarded(planner, lambda: end.update(self.stream.look(planner, limit))) != "ok" or not reader.is_up:
            return
        keys: list[int] = []
        may_lack_rows = False

        def read() -> None:
            nonlocal may_lack_rows
            try:
                keys.extend(self.stream.read(reader, end))
            except PandoError as error:
                if error.code != GONE or not self.counts["truncate"]:
                    raise
                self.counts["rows gone"] += 1
                may_lack_rows = True
                keys.extend(self.stream.read(reader, end, may_lack_rows=True))

        answer = self._guarded(reader, read)
        self.counts[f"stream {answer}"] += 1
        if answer == "ok":
            self.stream.keys += keys
            self.stream.blocks = {name: max(end.get(name, -1), self.stream.blocks.get(name, -1)) for name in end}

    def check(self) -> None:
        super().check()
        before = None
        while before != self.stream.blocks:
            before = dict(self.stream.blocks)
            self._do_stream()
        there = Counter(next(iter(self.cluster)).keys())
        delivered = Counter(self.stream.keys)
        keys = {key for block in self.blocks for key in block.keys} - self.truncated
        for key in keys:
            assert delivered[key] == there[key], f"{key} is there {there[key]} times, came {delivered[key]} times"
        for key in there:
            assert delivered[key], f"{key} never came"


SCENARIOS = {
    "faults": (StreamWeights(truncate=0), (0, 0, 0, 2, "auto")),
    "truncates": (StreamWeights(truncate=0.3), (0, 0, 0, 2, "auto")),
    "lost disks": (StreamWeights(truncate=0, wipe=2, crash=1), (2, 2, "auto")),
}


@pytest.mark.parametrize("scenario", one_in(3, SCENARIOS))
@pytest.mark.parametrize("seed", one_in(3, range(4)))
def test_every_row_that_is_there_came_once(
    make_colony: Callable[..., SimulatedCluster], seed: int, scenario: str
) -> None:
    weights, quorum = SCENARIOS[scenario]
    colony = make_colony(3, seed, selects_merges=True, **SETTINGS, **KEPT)
    simulation = StreamSimulation(colony, weights, quorum=quorum)
    simulation.run(2, 150)
    assert simulation.counts["stream ok"] > 2
    assert weights.truncate or not simulation.counts["error 33"]
