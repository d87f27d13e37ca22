"""The checker of cuts: it takes every state of a history, and finds every read that is none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.simulator.links.groups.cut_history import Commit, History, Read, find_contradiction, find_wrong_report

HISTORY = [
    Commit(10, {"t": (1, 2)}, name="INSERT"),
    Commit(12, {"u": (3,)}),
    Commit(15, {"t": (4,), "u": (5,)}, {"t": (1, 2)}),
    Commit(20, {}, {"u": (3, 5)}),
]


@pytest.mark.parametrize(
    ("rows", "number"),
    [
        ({}, 0),
        ({"t": [1, 2]}, 1),
        ({"t": [2, 1], "u": [3]}, 2),
        ({"t": [4], "u": [5, 3]}, 3),
        ({"t": [4], "u": []}, 4),
    ],
)
def test_every_state_is_right(rows: Mapping[str, Sequence[int]], number: int) -> None:
    assert History(HISTORY).find_states(rows) == [number]
    assert find_contradiction(HISTORY, [Read("r1", rows)]) == ""


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ({"t": [7]}, "t shows 7, which no commit inserted"),
        ({"t": [1, 1, 2]}, "t shows 1 2 times"),
        ({"t": [1]}, "t shows 1, which commit 1 (INSERT, place 10) inserted and commit 3 (place 15) removed; t lacks"),
        ({"u": [3]}, "u shows 3, which commit 2 (place 12) inserted and commit 4 (place 20) removed; t lacks"),
        ({"t": [1, 2, 4], "u": [3]}, "t shows 1"),
        ({"t": [4], "u": [5]}, "u shows 5, which commit 3 (place 15) inserted and commit 4 (place 20) removed; u"),
    ],
)  # fmt: skip
def test_what_is_no_state_is_told_in_a_few_facts(rows: Mapping[str, Sequence[int]], told: str) -> None:
    found = find_contradiction(HISTORY, [Read("west r1", rows)])
    assert found.startswith("read 1, of west r1: ")
    assert told in found


def test_a_reader_that_goes_back_is_found() -> None:
    reads = [Read("r1", {"t": [1, 2], "u": [3]}), Read("r2", {"t": [1, 2]}), Read("r1", {"t": [1, 2]})]
    assert find_contradiction(HISTORY, reads[:2]) == ""
    found = find_contradiction(HISTORY, reads)
    assert found.startswith("read 3, of r1: it showed commit 2 (place 12) before; t shows 1")
    assert "u lacks 3" in found


def test_a_read_is_the_state_of_the_place_that_it_names() -> None:
    assert find_contradiction(HISTORY, [Read("r1", {"t": [1, 2]}, 11)]) == ""
    found = find_contradiction(HISTORY, [Read("r1", {"t": [1, 2]}, 12)])
    assert "it says that it is at 12, behind commit 2 (place 12); u lacks 3" in found


def test_states_that_look_alike_are_no_way_back() -> None:
    """The first and the last state are empty: who saw the row may see nothing again, and then nothing else."""
    commits = [Commit(1, {"t": (1,)}), Commit(2, {}, {"t": (1,)}), Commit(3, {"t": (2,)})]
    reads = [Read("r", {}), Read("r", {"t": [1]}), Read("r", {}), Read("r", {"t": [2]})]
    assert find_contradiction(commits, reads) == ""
    assert "it showed commit 2" in find_contradiction(commits, [*reads[:3], Read("r", {"t": [1]})])


def test_a_report_is_what_the_lost_commits_inserted() -> None:
    assert find_wrong_report(HISTORY[2:], {"t": 1, "u": 1}) == ""
    assert find_wrong_report([], {}) == ""
    assert find_wrong_report(HISTORY[3:], {}) == "", "what it removed is there again"
    assert find_wrong_report(HISTORY[2:], {"t": 1}).startswith("of u 0 rows are reported, and 1 are lost. Lost are:")
    assert find_wrong_report([], {"t": 1}) == "of t 1 rows are reported, and 0 are lost. Lost are: no commits"


# -- random histories -------------------------------------------------------------------------------------------------


@st.composite
def histories(draw: st.DrawFn) -> list[Commit]:
    """Commits of one to three rows each, some of which remove all rows of a table."""
    commits, there, key = list[Commit](), dict[str, list[int]](), 0
    for place in range(1, draw(st.integers(2, 9))):
        table = draw(st.sampled_from("tuw"))
        removed = there.pop(table, []) if draw(st.integers(0, 4)) == 0 else []
        added = list(range(key, key := key + draw(st.integers(1, 3))))
        there[table] = there.get(table, []) + added
        commits.append(Commit(place * 10, {table: added}, {table: removed} if removed else {}))
    return commits


def _states(commits: Sequence[Commit]) -> list[dict[str, list[int]]]:
    """The states, found in another way than the checker does it."""
    states: list[dict[str, list[int]]] = [{}]
    for commit in commits:
        rows = {table: list(keys) for table, keys in states[-1].items()}
        for table, keys in commit.removed.items():
            rows[table] = [key for key in rows[table] if key not in keys]
        for table, keys in commit.added.items():
            rows.setdefault(table, []).extend(keys)
        states.append(rows)
    return states


def _is_state(rows: Mapping[str, Sequence[int]], states: Sequence[Mapping[str, Sequence[int]]]) -> bool:
    plain = {table: sorted(keys) for table, keys in rows.items() if keys}
    return any(plain == {table: sorted(keys) for table, keys in state.items() if keys} for state in states)


@given(histories(), st.data())
def test_reads_in_order_are_right(commits: list[Commit], data: st.DataObject) -> None:
    states = _states(commits)
    numbers = sorted(data.draw(st.lists(st.integers(0, len(commits)), max_size=6)))
    reads = [Read("r", states[number], number * 10 + 5 if number else 0) for number in numbers]
    assert find_contradiction(commits, reads) == ""


@given(histories(), st.data())
def test_tables_of_two_commits_are_found(commits: list[Commit], data: st.DataObject) -> None:
    """One table is read at another commit than the others."""
    states = _states(commits)
    one, other = (states[data.draw(st.integers(0, len(commits)))] for _ in range(2))
    table = data.draw(st.sampled_from("tuw"))
    mixed = {**one, table: other.get(table, [])}
    assert bool(find_contradiction(commits, [Read("r", mixed)])) == (not _is_state(mixed, states))


@given(histories(), st.data())
def test_a_row_too_many_or_too_few_is_found(commits: list[Commit], data: st.DataObject) -> None:
    states = _states(commits)
    rows = {table: list(keys) for table, keys in data.draw(st.sampled_from(states)).items()}
    table = data.draw(st.sampled_from("tuw"))
    if rows.get(table) and data.draw(st.booleans()):
        del rows[table][data.draw(st.integers(0, len(rows[table]) - 1))]
    else:
        rows.setdefault(table, []).append(data.draw(st.integers(0, 30)))
    assert bool(find_contradiction(commits, [Read("r", rows)])) == (not _is_state(rows, states))


@given(histories(), st.data())
def test_every_step_back_between_different_states_is_found(commits: list[Commit], data: st.DataObject) -> None:
    states = _states(commits)
    later = data.draw(st.integers(1, len(commits)))
    earlier = data.draw(st.integers(0, later - 1))
    reads = [Read("r", states[later], later * 10), Read("r", states[earlier], earlier * 10)]
    assert find_contradiction(commits, reads).startswith("read 2")


@given(histories(), st.data())
def test_a_wrong_report_is_found(commits: list[Commit], data: st.DataObject) -> None:
    lost = commits[data.draw(st.integers(0, len(commits))) :]
    told = {t: sum(len(c.added.get(t, ())) for c in lost) for t in "tuw"}
    assert find_wrong_report(lost, told) == ""
    table, more = data.draw(st.sampled_from("tuw")), data.draw(st.sampled_from((-1, 1)))
    assert table in find_wrong_report(lost, {**told, table: told[table] + more})
