"""Random histories of a source, and links that read and apply it: no rule may be left out.

The second half switches one rule off at a time: then a history must be found in which a target has other rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordination.links.batches import batch_plan
from coordination.links.stream import change_stream, cuts, frontier, gap_check
from coordination.links.stream.change import Change
from tests.links.link_model import PROGRAMS, Run, find_violation, run_choices
from tests.links.source_model import Reader
from tests.portions import one_in

_CHOICES = st.lists(st.integers(0, 9_999), min_size=30, max_size=90)
_ORDER = Reader.ORDER


@pytest.mark.long
@given(st.text("IQJTMDKRA", min_size=1, max_size=5), _CHOICES, st.booleans(), st.booleans(), st.booleans())
@settings(max_examples=150, deadline=None)
def test_targets_show_a_prefix_of_the_source_after_every_batch(
    program: str, choices: list[int], is_ordered: bool, cancels: bool, says_kinds: bool
) -> None:
    run = Run(program, is_ordered=is_ordered, cancels=cancels, says_kinds=says_kinds)
    assert run_choices(run, choices) is None


@given(st.text("IQJT", min_size=1, max_size=4), _CHOICES)
@settings(max_examples=60, deadline=None)
@pytest.mark.long
def test_inserts_of_two_clusters_arrive_once(program: str, choices: list[int]) -> None:
    assert run_choices(Run(program, inserts_at_n=3), choices) is None


@pytest.mark.parametrize("program", one_in(3, PROGRAMS))
def test_many_histories_of_a_program(program: str) -> None:
    assert find_violation(Run, [program], runs=15) is None


def _found(*programs: str, **options: object) -> bool:
    return find_violation(lambda program: Run(program, **options), programs, runs=400) is not None


def _without(*reads: str) -> tuple[str, ...]:
    return tuple(read for read in _ORDER if read not in reads)


@pytest.mark.long
def test_a_cut_between_a_command_and_a_block_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuts, "_inversions", lambda items, is_ordered: [])
    assert _found("IM")
    assert _found("ID")


def test_a_cut_between_blocks_is_noticed_where_their_order_counts() -> None:
    assert _found("II", is_ordered=True, knows_order=False)


@pytest.mark.long
def test_an_undecided_command_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frontier.Lock, "may_be_command", property(lambda lock: False))
    assert _found("IIM")


@pytest.mark.long
def test_an_undecided_block_below_a_mutation_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    real = frontier._Undecided.of

    def commands_alone(observation: frontier.Observation, *, is_ordered: bool) -> frontier._Undecided:
        return replace(real(observation, is_ordered=is_ordered), any_kind={})

    monkeypatch.setattr(frontier._Undecided, "of", commands_alone)
    assert _found("IIM")


@pytest.mark.long
def test_a_lock_without_a_kind_that_is_taken_for_a_block_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frontier.Lock, "may_be_command", property(lambda lock: lock.kind is frontier.LockKind.COMMAND))
    assert _found("IIM", says_kinds=False)


@pytest.mark.long
@pytest.mark.parametrize(
    ("order", "programs"),
    [
        pytest.param(_without("open"), ("Q",), id="open quorums are not read"),
        pytest.param(_without("failed"), ("Q",), id="failed quorums are not read"),
        pytest.param((*_ORDER[:6], "failed", "open", *_ORDER[8:]), ("QM",), id="failed quorums before open ones"),
        pytest.param(_ORDER[:8], ("IM",), id="nothing is read again"),
        pytest.param((*_ORDER[3:6], *_ORDER[:3], *_ORDER[6:]), ("IM",), id="locks before the log"),
        pytest.param(_without("definitions", "definitions 2"), ("AI",), id="definitions are not read"),
    ],
)
def test_another_order_of_reads_is_noticed(order: tuple[str, ...], programs: Sequence[str]) -> None:
    assert _found(*programs, order=order)


@pytest.mark.long
def test_numbers_in_the_order_of_the_stream_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def by_stream(changes: Sequence[Change], firsts: dict[str, int]) -> dict[tuple[str, int], int]:
        given_, next_number = {}, dict(firsts)
        for change in changes:
            for partition_id, number in change.numbers():
                given_[partition_id, number] = next_number[partition_id]
                next_number[partition_id] += 1
        return given_

    monkeypatch.setattr(batch_plan, "_assign_numbers", by_stream)
    assert _found("IM")


@pytest.mark.long
def test_the_first_drop_instead_of_the_last_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        batch_plan, "last_drops", lambda changes: dict(reversed([d for c in changes for d in c.drop_numbers()]))
    )
    assert _found("DID")


@pytest.mark.long
def test_a_change_that_came_by_another_path_and_is_applied_again_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gap_check, "is_known", lambda vector, own, position: False)
    assert _found("I")


@pytest.mark.long
def test_a_relay_that_sends_a_batch_as_its_own_change_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change_stream, "is_batch", lambda entry: False)
    assert _found("II")
