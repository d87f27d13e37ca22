"""Linked clusters in one thread: a seed replays, and links keep their promises under faults of every kind."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from coordination.links.stream import frontier, gap_check
from engine.simulator.links.linked_scenarios import LinkedScale, simulate_links
from engine.simulator.links.linked_variants import ALTERS, BOUNDS, COPIES, LOSSES, PLAIN, VARIANTS, LinkedVariant
from engine.simulator.links.topology import ONE_WAY, RING, TOPOLOGIES, Topology
from tests.portions import one_in

pytestmark = pytest.mark.timeout(900)
"""Seeds take several times as long beside other tests."""

SMALL = LinkedScale(rounds=1, steps=80)
KINDS = {
    "insert ok", "insert unknown", "update ok", "delete ok", "truncate ok", "drop partition ok", "restart", "crash",
    "power cut", "LOSE_ANSWER", "LOSE_REQUEST", "EXPIRE", "LAG", "fsync failed", "a vector moved",
    "rows of another cluster were seen", "a write at a target was refused", "a route was slow", "a route was cut",
    "a route was cut one way", "a message was lost", "a server was busy", "link DISABLE ok", "link ENABLE ok",
    "a batch", "a batch of several changes", "a batch of several origins", "a batch with a drop",
    "a batch with a mutation", "a batch came second", "a commit met a moved gate", "a server took the lead of a link",
    "a whole cluster lost its power", "a server crashed while it answered", "a quorum part was given up",
}  # fmt: skip
VARIANT_KINDS = {
    PLAIN.name: set(),
    COPIES.name: {
        "link BOOTSTRAP ok", "a table was closed for a copy", "a copy was committed", "a link was bootstrap",
        "a stopped link was copied", "a target's table was made anew",
    },
    ALTERS.name: {
        "alter ADD ok", "alter ADD unknown", "alter DROP ok", "a batch with an ALTER", "a link was paused",
        "a copy was committed", "a target's table was made anew",
    },
    LOSSES.name: {"wipe", "a quorum part was given up", "a batch"},
    BOUNDS.name: {"a link was stopped", "a copy was committed", "a stopped link was copied"},
}  # fmt: skip
"""By variant, what must happen in it, besides what happens in all."""


@pytest.mark.long
def test_a_seed_replays_byte_for_byte() -> None:
    first, other, second = (simulate_links(seed, SMALL) for seed in (7, 8, 7))
    assert first.digest == second.digest != other.digest
    assert first.lines > 500


@pytest.mark.parametrize("topology", one_in(2, TOPOLOGIES), ids=lambda topology: topology.name)
@pytest.mark.parametrize("seed", one_in(4, range(4)))
def test_promises_hold(topology: Topology, seed: int) -> None:
    outcome = simulate_links(seed, topology=topology)
    assert not outcome.failure, "\n".join([*outcome.last, outcome.failure])


@pytest.mark.parametrize("variant", one_in(2, VARIANTS[1:]), ids=lambda variant: variant.name)
@pytest.mark.parametrize("topology", one_in(6, TOPOLOGIES), ids=lambda topology: topology.name)
@pytest.mark.long
def test_promises_hold_in_every_variant(topology: Topology, variant: LinkedVariant) -> None:
    if not variant.fits(topology):
        pytest.skip("the topology promises nothing here")
    outcome = simulate_links(1, topology=topology, variant=variant)
    assert not outcome.failure, "\n".join([*outcome.last, outcome.failure])


@pytest.mark.long
@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.name)
def test_what_a_variant_is_for_happens_in_it(variant: LinkedVariant) -> None:
    counts: Counter[str] = Counter()
    for seed in range(120):
        topology = TOPOLOGIES[seed % len(TOPOLOGIES)]
        if variant.fits(topology):
            outcome = simulate_links(seed, topology=topology, variant=variant)
            assert not outcome.failure, "\n".join([f"seed {seed}", *outcome.last, outcome.failure])
            counts += outcome.counts
        if seed >= 12 and counts.keys() >= VARIANT_KINDS[variant.name]:
            return
    raise AssertionError(f"never happened: {VARIANT_KINDS[variant.name] - counts.keys()}; {counts}")


@pytest.mark.long
@pytest.mark.parametrize("topology", TOPOLOGIES, ids=lambda topology: topology.name)
def test_promises_hold_for_many_seeds(topology: Topology) -> None:
    for seed in range(100, 124):
        outcome = simulate_links(seed, topology=topology)
        assert not outcome.failure, "\n".join([f"seed {seed}", *outcome.last, outcome.failure])


@pytest.mark.long
def test_everything_happens() -> None:
    counts: Counter[str] = Counter()
    for seed in range(120):
        counts += simulate_links(seed).counts
        if counts.keys() >= KINDS:
            return
    raise AssertionError(f"never happened: {KINDS - counts.keys()}; {counts}")


@pytest.mark.long
def test_changes_that_come_back_to_their_origin_and_are_taken_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a ring a table must drop what it made itself."""
    monkeypatch.setattr(gap_check, "is_known", lambda vector, own, position: vector.covers(position))
    assert any(simulate_links(seed, topology=RING).failure for seed in range(10))


@pytest.mark.long
def test_blocks_that_are_sent_before_their_quorum_is_met_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    of = frontier._Undecided.of

    def ignoring_quorums(observation: frontier.Observation, *, is_ordered: bool) -> frontier._Undecided:
        return of(replace(observation, open_quorums=frozenset()), is_ordered=is_ordered)

    monkeypatch.setattr(frontier._Undecided, "of", ignoring_quorums)
    scale = LinkedScale(quorum=(2,))
    assert any(simulate_links(seed, scale, topology=ONE_WAY).failure for seed in range(60))
