"""Histories here and in ClickHouse: equal rows and an equal definition after every step.

``python -m tests.alter histories 0:20000`` runs many.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.alter.following import Follower, following
from tests.portions import one_in

HISTORIES, BLOCKS, STEPS = 300, 75, 10


@pytest.fixture(scope="module")
def follower(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Follower]:
    with following(tmp_path_factory.mktemp("histories")) as made:
        yield made


@pytest.mark.parametrize("block", one_in(BLOCKS, range(BLOCKS)))
def test_histories(follower: Follower, block: int) -> None:
    for seed in range(block, HISTORIES, BLOCKS):
        difference = follower.follow(seed, STEPS)
        assert not difference, difference
