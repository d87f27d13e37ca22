"""Histories on two replicas and in ClickHouse: equal rows, definitions and content hashes after every step.

``python -m tests.alter histories 0:20000 --replicas`` runs many.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.alter.following import Follower
from tests.alter.replicas import following_replicas
from tests.portions import one_in

pytestmark = pytest.mark.long

HISTORIES, BLOCKS, STEPS = 60, 6, 10


@pytest.fixture(scope="module")
def follower(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Follower]:
    with following_replicas(tmp_path_factory.mktemp("histories")) as made:
        yield made


@pytest.mark.parametrize("block", one_in(BLOCKS, range(BLOCKS)))
def test_histories(follower: Follower, block: int) -> None:
    for seed in range(block, HISTORIES, BLOCKS):
        difference = follower.follow(seed, STEPS)
        assert not difference, difference
