"""One real ZooKeeper for the whole run of this folder (one for each xdist worker), and replicas on one in memory."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from coordination.keeper.embedded_zookeeper import EmbeddedZooKeeper
from coordination.keeper.memory_keeper import MemoryEnsemble
from tests.coordination.members import Member


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedZooKeeper]:
    with EmbeddedZooKeeper(tmp_path_factory.mktemp("zookeeper")) as server:
        yield server


@pytest.fixture
def ensemble() -> MemoryEnsemble:
    return MemoryEnsemble(time.time)


@pytest.fixture
def members(ensemble: MemoryEnsemble) -> list[Member]:
    return [Member(ensemble, name) for name in ("r1", "r2", "r3")]
