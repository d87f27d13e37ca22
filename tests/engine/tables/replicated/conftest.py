"""``make_colony(replicas, seed, **settings)``: a colony whose failpoints and waits work."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from engine.simulator.simulated_cluster import SimulatedCluster


@pytest.fixture
def make_colony(tmp_path: Path) -> Callable[..., SimulatedCluster]:
    def make(replicas: int = 3, seed: int = 0, **settings: object) -> SimulatedCluster:
        return SimulatedCluster(tmp_path, replicas, seed, **settings)  # type: ignore[arg-type]

    return make
