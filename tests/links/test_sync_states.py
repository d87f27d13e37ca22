"""The states of a link's mode at its source, and that several links change together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordination.links.sync import sync_states
from coordination.nodes.gate import CommitKind, Gate
from coordination.nodes.gate_link import GateLink, LinkDirection, LinkMode, SyncState

WEST = GateLink("west/l", LinkDirection.OUT, "u", "p", "west")
NORTH = GateLink("north/l", LinkDirection.OUT, "v", "q", "north")
OPEN = Gate("1-0").with_link(WEST).with_link(NORTH)
Step = Callable[[Gate, GateLink], Gate]


def to_mode(mode: LinkMode, *, is_paused: bool | None = None) -> Step:
    return lambda gate, link: sync_states.request_mode(gate, link, mode, is_paused=is_paused)


TO_SYNC, TO_ASYNC = to_mode(LinkMode.SYNC), to_mode(LinkMode.ASYNC)
STEPS: dict[str, Step] = {
    "sync": TO_SYNC,
    "async": TO_ASYNC,
    "pause": to_mode(LinkMode.SYNC, is_paused=True),
    "resume": to_mode(LinkMode.SYNC, is_paused=False),
    "shut": sync_states.shut_for_enabling,
    "give up": sync_states.give_up_enabling,
    "enable": sync_states.finish_enabling,
    "disabled": sync_states.finish_disabling,
}


def go(gate: Gate, *steps: Step, name: str = "west/l") -> Gate:
    for step in steps:
        link = gate.find_link(name)
        assert link is not None
        gate = step(gate, link)
    return gate


def state(gate: Gate, name: str = "west/l") -> tuple[SyncState, bool]:
    """Returns the link's state, and whether INSERTs wait."""
    link = gate.find_link(name)
    assert link is not None
    return link.state, gate.find_bar(CommitKind.ROWS) is not None


def test_a_link_becomes_synchronous_behind_a_bar() -> None:
    gate = go(OPEN, TO_SYNC)
    assert state(gate) == (SyncState.ENABLING, False)
    assert go(gate, sync_states.finish_enabling) == gate  # nobody has looked behind a bar
    gate = go(gate, sync_states.shut_for_enabling)
    assert state(gate) == (SyncState.ENABLING, True)
    assert state(go(gate, sync_states.give_up_enabling)) == (SyncState.ENABLING, False)
    gate = go(gate, sync_states.finish_enabling)
    assert state(gate) == (SyncState.ENABLED, False)
    assert [link.name for link in gate.sync_targets] == ["west/l"]


def test_a_link_becomes_asynchronous_behind_a_bar() -> None:
    gate = go(OPEN, TO_SYNC, sync_states.shut_for_enabling, sync_states.finish_enabling, TO_ASYNC)
    assert state(gate) == (SyncState.DISABLING, True)
    assert not gate.sync_targets
    again = go(gate, TO_SYNC)
    assert state(again) == (SyncState.DISABLING, True)  # the target may not know yet
    assert state(go(again, sync_states.finish_disabling)) == (SyncState.ENABLING, False)
    assert go(gate, sync_states.finish_disabling) == OPEN


@pytest.mark.parametrize("shut", [[], [sync_states.shut_for_enabling]])
def test_a_link_that_was_not_synchronous_yet_goes_back_at_once(shut: list[Step]) -> None:
    assert go(OPEN, TO_SYNC, *shut, TO_ASYNC) == OPEN


@given(st.lists(st.tuples(st.sampled_from(["west/l", "north/l"]), st.sampled_from(sorted(STEPS))), max_size=12))
def test_whatever_is_asked_for(steps: list[tuple[str, str]]) -> None:
    gate = OPEN
    for name, step in steps:
        before = gate
        gate = go(gate, STEPS[step], name=name)
        assert Gate.parse(gate.to_bytes()) == gate
        for link in gate.links:
            was = before.find_link(link.name)
            assert was is not None
            is_shut, was_shut = sync_states.is_shut(gate, link), sync_states.is_shut(before, was)
            if link.state is SyncState.ENABLED and was.state is not SyncState.ENABLED:
                assert was.state is SyncState.ENABLING
                assert was_shut
            if was.state is SyncState.ENABLED and link.state is not SyncState.ENABLED:
                assert link.state is SyncState.DISABLING
            if was.state is SyncState.DISABLING and link.state is not SyncState.DISABLING:
                assert step == "disabled"
            assert is_shut if link.state is SyncState.DISABLING else link.state is SyncState.ENABLING or not is_shut
            if link.name != name:
                assert (link, is_shut) == (was, was_shut)


def test_modes_are_written_and_later_keys_kept() -> None:
    link = replace(WEST, mode=LinkMode.SYNC, state=SyncState.DISABLED, is_paused=True, timeout_seconds=2.5)
    link = replace(link, extra=(("later", 1),))
    document = link.to_json()
    assert (document["mode"], document["paused"], document["timeout"], document["later"]) == ("sync", True, 2.5, 1)
    assert GateLink.of(link.name, document) == link
    assert not {"mode", "state", "paused", "timeout"} & WEST.to_json().keys()
