"""Tables that all clusters write and one commands: every command touches the same rows everywhere, under all faults."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from engine.simulator.links.linked_scenarios import LinkedScale, simulate_links
from engine.simulator.links.linked_variants import COMMANDS, COMMANDS_AND_LOSSES, LinkedVariant
from engine.simulator.links.topology import COMMANDED, Topology
from sql.mutations import part_mutation

pytestmark = pytest.mark.timeout(900)
KINDS = {
    "update ok", "update unknown", "delete ok", "drop partition unknown", "a batch with a mutation", "restart", "crash",
    "a cluster began to keep the places of rows",
}  # fmt: skip


@pytest.mark.parametrize("topology", COMMANDED, ids=lambda topology: topology.name)
def test_commands_touch_the_same_rows(topology: Topology) -> None:
    outcome = simulate_links(3, LinkedScale(rounds=1, steps=150), topology=topology, variant=COMMANDS)
    assert not outcome.failure, "\n".join([*outcome.last, outcome.failure])


@pytest.mark.long
@pytest.mark.parametrize("variant", [COMMANDS, COMMANDS_AND_LOSSES], ids=lambda variant: variant.name)
@pytest.mark.parametrize("topology", COMMANDED, ids=lambda topology: topology.name)
def test_commands_touch_the_same_rows_for_many_seeds(topology: Topology, variant: LinkedVariant) -> None:
    for seed in range(100, 112):
        outcome = simulate_links(seed, topology=topology, variant=variant)
        assert not outcome.failure, "\n".join([f"seed {seed}", *outcome.last, outcome.failure])


@pytest.mark.long
def test_everything_happens() -> None:
    counts: Counter[str] = Counter()
    for seed in range(60):
        counts += simulate_links(seed, topology=COMMANDED[seed % 2], variant=COMMANDS).counts
        if counts.keys() >= KINDS:
            return
    raise AssertionError(f"never happened: {KINDS - counts.keys()}; {counts}")


@pytest.mark.long
def test_commands_that_go_by_numbers_alone_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each cluster numbers the rows of others anew, so they touch other rows in each."""
    monkeypatch.setattr(part_mutation, "find_reached_rows", lambda part, reach: True)
    assert any(simulate_links(s, topology=COMMANDED[s % 2], variant=COMMANDS).failure for s in range(40))


@pytest.mark.long
def test_own_rows_that_are_out_of_reach_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that touches no own rows at a cluster that did not give it differs from those that have them."""
    found = part_mutation.find_reached_rows

    def skipping(part: object, reach: object) -> np.ndarray | bool:
        version = part.row_version  # type: ignore[attr-defined]
        return version.has_places and version.is_mixed and found(part, reach)  # type: ignore[arg-type]

    monkeypatch.setattr(part_mutation, "find_reached_rows", skipping)
    assert any(simulate_links(s, topology=COMMANDED[s % 2], variant=COMMANDS).failure for s in range(20))
