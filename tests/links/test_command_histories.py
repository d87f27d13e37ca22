"""Commands touch the same rows at every cluster, in whatever order rows, commands and marks arrive."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordination.links import commands
from coordination.links.positions import Origin
from coordination.links.version_vector import VersionVector
from coordination.nodes.gate_commands import CommandSource
from parts.common.command_reach import CommandReach
from tests.links.command_model import LINKS, CommandMesh, Rules
from tests.links.source_model import make_origin

CHAIN = ((0, 1), (1, 0), (1, 2), (2, 1))
PAIR = ((0, 1), (1, 0))
WEST, EAST = make_origin(1), make_origin(2)


def run(choices: list[int], mesh: CommandMesh) -> str | None:
    for choice in choices:
        actions = mesh.actions()
        actions[choice % len(actions)]()
    return mesh.settle()


@pytest.mark.long
@given(st.lists(st.integers(0, 9_999), max_size=60))
@settings(max_examples=60, deadline=None)
def test_all_clusters_touch_the_same_rows(choices: list[int]) -> None:
    assert run(choices, CommandMesh()) is None


def find_violation(runs: int, rules: Rules, links: tuple[tuple[int, int], ...] = LINKS) -> str | None:
    for seed in range(runs):
        chance = random.Random(seed)
        problem = run([chance.randrange(10_000) for _ in range(60)], CommandMesh(rules, links))
        if problem is not None:
            return f"seed {seed}: {problem}"
    return None


@pytest.mark.parametrize("links", [LINKS, CHAIN, PAIR], ids=["mesh", "chain", "pair"])
def test_many_histories(links: tuple[tuple[int, int], ...]) -> None:
    assert find_violation(40, Rules(), links) is None


def test_commands_come_everywhere() -> None:
    """The model would prove little if commands were refused, or touched nothing."""
    touched = 0
    for seed in range(20):
        chance, mesh = random.Random(seed), CommandMesh()
        run([chance.randrange(10_000) for _ in range(80)], mesh)
        tables = [table.list_touched() for table in mesh.tables]
        assert all(each.keys() == tables[0].keys() for each in tables)
        touched += sum(map(len, tables[0].values()))
    assert touched > 20


@pytest.mark.long
@pytest.mark.parametrize(
    "rules",
    [
        Rules(reads_before=False),
        Rules(counts_at_home=False),
        Rules(waits=False, checks_marks=False),
    ],
    ids=["the vector is read late", "the reach does not count at home", "nobody waits for marks"],
)
def test_a_rule_that_is_left_out_is_noticed(rules: Rules) -> None:
    assert find_violation(600, rules) is not None


@pytest.mark.long
def test_a_late_command_is_refused_where_it_would_touch_other_rows() -> None:
    """If commands do not wait for marks, the cluster that wrote one later does not carry them out."""
    assert find_violation(200, Rules(waits=False)) is None


# -- the decisions ------------------------------------------------------------------------------------------------


def began(**zxids: int) -> CommandSource:
    origins = {"west": WEST, "east": EAST}
    return CommandSource("west", "x").with_began({str(origins[name]): zxid for name, zxid in zxids.items()})


def vector(origin: Origin, applied: int, **kind: bool) -> VersionVector:
    entry = {"applied": applied, **kind}
    document = {"version": 1, "origins": {str(origin): entry}}
    return VersionVector.parse(str(document).replace("'", '"').replace("True", "true").encode())


def test_who_is_waited_for() -> None:
    names = {EAST.cluster: "east"}

    def missing(source: CommandSource, known: VersionVector, *peers: str) -> list[str]:
        return commands.list_unready(source, WEST, known, peers, names)

    assert missing(began(west=0), VersionVector()) == []
    assert missing(began(), VersionVector()) == [WEST.cluster], "its own mark"
    assert missing(began(west=0), vector(EAST, 5)) == ["east"], "whose rows are here"
    assert missing(began(west=0), VersionVector(), EAST.cluster) == ["east"], "the other end of a link"
    assert missing(began(west=0, east=7), vector(EAST, 7), EAST.cluster) == []
    assert missing(began(west=0), vector(EAST, 5, forgotten=True)) == []
    assert missing(began(west=0), vector(EAST, 5, place=True)) == [], "no row of it is here"


def test_a_reach_has_what_is_here() -> None:
    reach = commands.make_reach(WEST, 9, vector(EAST, 5))
    assert [reach.find_last(str(WEST)), reach.find_last(str(EAST))] == [9, 5]
    assert not reach.covers(str(make_origin(3)), 1)
    assert commands.make_reach(WEST, 9, vector(EAST, 5, place=True)) == CommandReach.of({str(WEST): 9})


def test_a_command_must_reach_the_own_rows_without_places() -> None:
    reach = CommandReach.of({str(EAST): 5})
    assert commands.explain_unreached(began(east=5), EAST, reach) == ""
    assert "up to 5" in commands.explain_unreached(began(east=6), EAST, reach)
    assert "repeat the ALTER" in commands.explain_unreached(began(), EAST, reach)
