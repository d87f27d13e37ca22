"""Which targets the tracker makes synchronous: scripted outages, and all kinds of histories of health."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordination.links.tracker.mode_plan import TrackedLink, plan_modes
from coordination.links.tracker.observed_health import HealthHistory, Observation
from coordination.links.tracker.seen_positions import SeenPositions
from coordination.links.tracker.tracker import Decision, decide
from coordination.links.tracker.tracker_options import (
    TrackerOptions,
    change_options,
    join_options,
    read_tracker_options,
    with_tracker_options,
)
from coordination.nodes.gate import Gate
from coordination.nodes.gate_link import GateLink, LinkDirection, LinkMode, SyncState
from parts.common.errors import PandoError

DELAY = 3
TARGETS = ("east", "north", "west")
AWAY = "away"


def run(
    options: TrackerOptions,
    looks: Iterable[Mapping[str, str]],
    former: Sequence[str] = (),
    targets: Sequence[str] = TARGETS,
) -> list[tuple[str, ...]]:
    """The choices after one look a second; a look names the troubles."""
    history, choices = HealthHistory(DELAY), []
    for second, troubles in enumerate(looks):
        every = {target: troubles.get(target, "") for target in targets}
        history = history.with_observation(Observation(second, every), 2)
        former = decide(options, targets, history, former).chosen
        choices.append(former)
    return choices


def script(**outages: str) -> list[dict[str, str]]:
    """One character a second: '+' healthy, '-' not."""
    length = max(map(len, outages.values()))
    padded = {name: text.ljust(length, text[-1]) for name, text in outages.items()}
    return [{name: AWAY for name, text in padded.items() if text[at] == "-"} for at in range(length)]


ONE = TrackerOptions(is_enabled=True)
PREFER_WEST = TrackerOptions(is_enabled=True, preferred=("west",))


def test_nothing_is_decided_before_the_delay_was_observed() -> None:
    assert run(ONE, script(east="+++++")) == [(), (), (), ("east",), ("east",)]


def test_a_target_that_stays_away_is_replaced_after_the_delay_and_does_not_come_back() -> None:
    choices = run(ONE, script(east="++++-----++++++++", north="+"))
    assert choices[:7] == [(), (), (), ("east",), ("east",), ("east",), ("east",)]
    assert choices[7:] == [("north",)] * 10


@pytest.mark.parametrize("outage", ["++++-+++++++", "++++--++++++", "++++---+---+---+"])
def test_a_short_outage_moves_nothing(outage: str) -> None:
    assert set(run(ONE, script(east=outage, north="+"))[3:]) == {("east",)}


def test_a_preferred_target_comes_back_when_it_was_healthy_for_the_delay() -> None:
    choices = run(PREFER_WEST, script(west="++++----++-++++++"))
    assert choices[6:14] == [("west",), *[("east",)] * 7]
    assert choices[14:] == [("west",)] * 3


def test_with_nobody_better_the_last_one_stays() -> None:
    choices = run(ONE, script(east="++++-------", north="-", west="-"))
    assert set(choices[3:]) == {("east",)}
    history = HealthHistory(DELAY)
    for second in range(9):
        history = history.with_observation(Observation(second, dict.fromkeys(TARGETS, AWAY)), 2)
    decision = decide(ONE, TARGETS, history, ["east"])
    assert "no other is better" in decision.reasons["east"]
    assert decision.message.startswith("0 of at least 1")


def test_with_a_least_of_none_a_table_goes_on_without_synchronous_targets() -> None:
    options = TrackerOptions(is_enabled=True, least=0, most=1)
    assert run(options, script(east="++++----", north="-", west="-"))[-1] == ()


def test_after_a_gap_nobody_knows_how_a_target_was() -> None:
    history = HealthHistory(DELAY)
    for second in (0, 1, 2, 6):
        history = history.with_observation(Observation(second, {"east": ""}), 2)
    assert decide(ONE, ["east"], history, ()).chosen == ()
    assert "observed for 0 of 3 seconds" in decide(ONE, ["east"], history, ()).reasons["east"]


@pytest.mark.parametrize(
    ("least", "most", "bounds"), [(None, None, (1, 1)), (None, 2, (2, 2)), (2, None, (2, 3)), (1, 2, (1, 2))]
)
def test_bounds_that_are_missing(least: int | None, most: int | None, bounds: tuple[int, int]) -> None:
    assert TrackerOptions(least=least, most=most).find_bounds(3) == bounds


LOOKS = st.lists(
    st.fixed_dictionaries({name: st.sampled_from(["", AWAY]) for name in TARGETS}), min_size=1, max_size=14
)
OPTIONS = st.builds(
    lambda least, more, preferred: TrackerOptions(True, least, least + more, tuple(preferred)),
    st.integers(0, 2), st.integers(0, 2), st.sets(st.sampled_from(TARGETS)),
).filter(lambda options: options.most > 0)  # fmt: skip


def stood(looks: Sequence[Mapping[str, str]], second: int, target: str, trouble: str) -> bool:
    """Whether a target was so for the whole delay."""
    return second >= DELAY and all(look[target] == trouble for look in looks[second - DELAY : second + 1])


@given(OPTIONS, LOOKS, st.sets(st.sampled_from(TARGETS)))
def test_never_too_few_never_too_many_and_nobody_comes_or_goes_for_one_look(
    options: TrackerOptions, looks: list[dict[str, str]], first: set[str]
) -> None:
    assert options.most is not None
    former = tuple(sorted(first))
    least, most = options.find_bounds(len(TARGETS))
    for second, choice in enumerate(run(options, looks, former)):
        well = [target for target in TARGETS if stood(looks, second, target, "")]
        assert len(choice) >= min(least, len(well))
        assert len(choice) <= most
        for target in choice:
            assert target in former or target in well
        for target in set(former) - set(choice):
            made_room = any(other in options.preferred for other in set(choice) - set(former))
            assert stood(looks, second, target, AWAY) or made_room or len(former) > most
        former = choice


@given(LOOKS.filter(lambda looks: len(looks) > DELAY), st.sampled_from([(), ("west",)]))
def test_the_one_synchronous_target_never_goes_back_and_forth(
    looks: list[dict[str, str]], preferred: tuple[str, ...]
) -> None:
    options = TrackerOptions(is_enabled=True, preferred=preferred)
    left_at: dict[str, int] = {}
    former: tuple[str, ...] = ("east",)
    for second, choice in enumerate(run(options, looks, former)):
        for target in set(choice) - set(former):
            assert second - left_at.get(target, -DELAY) >= DELAY
        left_at |= dict.fromkeys(set(former) - set(choice), second)
        former = choice


def link(target: str, mode: LinkMode, state: SyncState, root: str = "/t") -> TrackedLink:
    made = GateLink(f"{target}/l", LinkDirection.OUT, "u", "p", target, mode=mode, state=state)
    return TrackedLink(root, made)


ASYNC, SYNC = LinkMode.ASYNC, LinkMode.SYNC
OFF, ON, TO_ON = SyncState.DISABLED, SyncState.ENABLED, SyncState.ENABLING


def plan(chosen: Sequence[str], links: Mapping[str, Sequence[TrackedLink]], least: int = 1) -> set[tuple[str, str]]:
    wanted = plan_modes(Decision(tuple(chosen), {}, least), links)
    return {(each.tracked.root + ":" + each.tracked.link.name, each.mode.value) for each in wanted}


def test_the_next_link_is_enabled_before_the_former_one_is_disabled() -> None:
    former = [link("east", SYNC, ON)]
    assert plan(["west"], {"east": former, "west": [link("west", ASYNC, OFF)]}) == {("/t:west/l", "sync")}
    assert plan(["west"], {"east": former, "west": [link("west", SYNC, TO_ON)]}) == set()
    assert plan(["west"], {"east": former, "west": [link("west", SYNC, ON)]}) == {("/t:east/l", "async")}


def test_one_that_is_away_goes_at_once_while_enough_others_are_enabled() -> None:
    links = {"east": [link("east", SYNC, ON)], "west": [link("west", SYNC, ON)], "north": [link("north", ASYNC, OFF)]}
    assert plan(["west", "north"], links) == {("/t:north/l", "sync"), ("/t:east/l", "async")}
    assert plan(["west", "north"], links, least=2) == {("/t:north/l", "sync")}


def test_the_tables_of_a_collocation_move_together() -> None:
    links = {
        "east": [link("east", SYNC, ON, root) for root in ("/a", "/b")],
        "west": [link("west", ASYNC, OFF, root) for root in ("/a", "/b")],
    }
    assert plan(["west"], links) == {("/a:west/l", "sync"), ("/b:west/l", "sync")}
    links["west"] = [link("west", SYNC, ON, "/a"), link("west", SYNC, TO_ON, "/b")]
    assert plan(["west"], links) == set()
    links["west"] = [link("west", SYNC, ON, root) for root in ("/a", "/b")]
    assert plan(["west"], links) == {("/a:east/l", "async"), ("/b:east/l", "async")}


def test_a_lag_counts_from_the_look_that_saw_the_first_commit_that_is_missing() -> None:
    seen = SeenPositions(20)
    for second, zxid in ((0, 5), (1, 5), (2, 8), (3, 9)):
        seen = seen.with_newest(second, zxid)
    assert [seen.measure_lag(4, applied) for applied in (9, 8, 5, 4)] == [0, 1, 2, 4]
    assert seen.with_newest(100, 9).measure_lag(100, 4) == 20


def test_options_stand_in_the_gate_and_wrong_ones_are_refused() -> None:
    gate = Gate("1-0")
    changed: dict[str, str | None] = {
        "enable_replicated_table_tracker": "1",
        "max_sync_replica_count": "2",
        "preferred_sync_clusters": "west, north",
        "link_collocation": "orders",
    }
    options = change_options(read_tracker_options(gate), changed)
    assert options == TrackerOptions(True, None, 2, ("west", "north"), "orders")
    kept = Gate.parse(with_tracker_options(gate, options).to_bytes())
    assert read_tracker_options(kept) == options
    assert with_tracker_options(kept, change_options(options, dict.fromkeys(changed))) == gate
    for name, text, code in (
        ("enable_replicated_table_tracker", "perhaps", 467),
        ("max_sync_replica_count", "0", 69),
        ("min_sync_replica_count", "x", 72),
        ("min_sync_replica_count", "3", 36),
        ("preferred_sync_clusters", "a,a", 36),
        ("link_collocation", "a\nb", 36),
    ):
        with pytest.raises(PandoError, match=name) as caught:
            change_options(options, {name: text})
        assert caught.value.code == code, name


def test_the_bounds_of_a_collocation_hold_for_every_table() -> None:
    first = TrackerOptions(True, 1, 3, ("west", "north"), "c")
    second = TrackerOptions(True, 2, None, ("north",), "c")
    assert join_options({"/a": first, "/b": second}) == TrackerOptions(True, 2, 3, ("north",), "c")
    assert join_options({"/a": TrackerOptions(True, 4), "/b": TrackerOptions(True, None, 2)}).find_bounds(9) == (4, 4)
