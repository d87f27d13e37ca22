"""PROMOTE, SWITCH and REJOIN between real engines of one process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from coordination.inserts.quorum import QuorumStatus
from coordination.nodes.gate import Gate
from engine.links.switching import answers
from parts.common.errors import PandoError
from tests.links.switched_clusters import Clusters, link_table, three_clusters
from tests.links.test_links_in_one_process import wait
from tests.portions import one_in


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clusters]:
    with three_clusters(tmp_path_factory.mktemp("three")) as found:
        yield found


def test_a_planned_switch_and_back(three: Clusters) -> None:
    link_table(three, "a", "east", "north")
    assert "SWITCH" in three.refused("east", "SYSTEM PROMOTE REPLICATION LINK a_east")
    assert "rows" not in three.refused("west", "SYSTEM REJOIN REPLICATION LINK a_east FROM CLUSTER east")
    three.do("west", "INSERT INTO a VALUES (3, 'z')")
    facts = three.facts("east", "SYSTEM SWITCH REPLICATION LINK a_east")
    assert facts["behind the fork"] == ["0 rows, 0 bytes: the source was closed"]
    assert three.keys("east", "a") == [1, 2, 3]
    three.do("east", "INSERT INTO a VALUES (3, 'z')")  # the client's repeat, which got no answer at west
    assert three.keys("east", "a") == [1, 2, 3]
    three.do("east", "INSERT INTO a VALUES (4, 'e')")
    assert three.refused("west", "INSERT INTO a VALUES (5, 'w')").startswith("242")
    assert three.refused("north", "INSERT INTO a VALUES (5, 'w')").startswith("242")
    wait(lambda: [k for k in three.must_be_equal("a") if k < 1000] == [1, 2, 3, 4], "all rows")
    three.do("west", "SYSTEM SWITCH REPLICATION LINK a_east")
    assert three.writable("a") == ["west"]
    three.must_be_equal("a")


def test_a_forced_promotion_and_the_old_source_back(three: Clusters) -> None:
    link_table(three, "b", "east")
    three.do("east", "ALTER REPLICATION LINK b_east DISABLE")
    three.do("west", "INSERT INTO b VALUES (3, 'lost'), (4, 'lost')")
    three.do("west", "ALTER TABLE b DELETE WHERE k = 1")
    three.part("west")
    facts = three.facts("east", "SYSTEM PROMOTE REPLICATION LINK b_east")
    assert facts["not told yet"][0].startswith("cluster west")
    assert "UTC" in facts["last heartbeat"][0]
    three.do("east", "INSERT INTO b VALUES (5, 'new')")
    three.do("west", "INSERT INTO b VALUES (6, 'nobody told west')")
    three.join()
    wait(lambda: three.is_shut("west", "b"), "west to hear of the fork")
    assert three.writable("b") == ["east", "north"]  # north has a table of its own
    behind = [k for k in three.keys("west", "b") if k not in (1, 2)]
    tail = three.sql("west", "SYSTEM REJOIN REPLICATION LINK b_east FROM CLUSTER east")
    assert sum(int(row[3]) for row in tail) == len(behind)
    assert "mutation" in {row[0] for row in tail}
    assert set(behind) <= set(three.keys("west", "b"))  # it only shows
    assert three.refused("west", "SYSTEM REJOIN REPLICATION LINK b_east FROM CLUSTER east SEND TAIL").startswith("48")
    epoch = three.gate("west", "b").epoch
    detached = three.sql("west", "SYSTEM REJOIN REPLICATION LINK b_east FROM CLUSTER east DETACH TAIL")
    assert three.gate("west", "b").epoch != epoch  # positions of the tail are compared with nothing any more
    blocks = [row for row in detached if row[0] == "block"]
    assert sum(int(row[3]) for row in blocks) == len(behind)
    assert all(Path(str(row[7])).is_dir() for row in blocks)
    wait(lambda: not set(three.keys("west", "b")) & set(behind), f"the copy: {three.explain()}")
    assert {1, 2, 5} <= set(three.must_be_equal("b", "west", "east"))
    assert three.writable("b") == ["east", "north"]


@pytest.mark.long
def test_from_one_to_the_other_and_back(three: Clusters) -> None:
    """A to B to A, by force each time, with rows left behind each time."""
    link_table(three, "c", "east")
    sources = [("west", "east"), ("east", "west"), ("west", "east")]
    for number, (old, new) in enumerate(sources):
        three.part(old)
        three.do(old, f"INSERT INTO c VALUES ({100 + number}, 'left behind')")
        three.do(new, "SYSTEM PROMOTE REPLICATION LINK c_east FORCE")
        three.do(new, f"INSERT INTO c VALUES ({200 + number}, 'new')")
        three.join()
        wait(lambda old=old: three.is_shut(old, "c"), "the old source to close")  # type: ignore[misc]
        rows = three.sql(old, f"SYSTEM REJOIN REPLICATION LINK c_east FROM CLUSTER {new} DETACH TAIL")
        assert sum(int(row[3]) for row in rows) == 1, rows
        three.do(new, f"INSERT INTO c VALUES ({300 + number}, 'more')")
        wait(lambda old=old, n=number: 300 + n in three.keys(old, "c"), f"the rejoin {three.explain()}")  # type: ignore[misc]
        assert not set(three.must_be_equal("c", "west", "east")) & {100, 101, 102}
    epochs = three.sql("west", "SELECT position FROM system.link_positions WHERE table = 'c'")
    assert len({str(position).partition(":")[0] for (position,) in epochs}) == len(epochs)


def test_a_sibling_that_is_further_ahead_gives_its_tail(three: Clusters) -> None:
    link_table(three, "d", "east", "north")
    three.do("east", "ALTER REPLICATION LINK d_east DISABLE")
    three.do("west", "INSERT INTO d VALUES (3, 'north has it')")
    three.do("west", "ALTER TABLE d DELETE WHERE k = 2")
    three.do("north", "SYSTEM WAIT REPLICATION LINK d_north TIMEOUT 30")
    three.part("west")
    facts = three.facts("east", "SYSTEM PROMOTE REPLICATION LINK d_east")
    assert "1 rows were taken" in facts["taken from a sibling"][0]
    three.do("east", "INSERT INTO d VALUES (4, 'e')")
    wait(lambda: three.must_be_equal("d", "east", "north") == [1, 3, 4], f"north follows {three.explain()}")
    three.join()


def test_without_every_promise_only_force_goes_on(three: Clusters) -> None:
    link_table(three, "e", "east", "north")
    three.do("east", "ALTER REPLICATION LINK e_east DISABLE")
    three.do("west", "INSERT INTO e VALUES (3, 'too many')")
    three.do("north", "SYSTEM WAIT REPLICATION LINK e_north TIMEOUT 30")
    three.do("north", "ALTER REPLICATION LINK e_north DISABLE")
    three.part("west", "north")
    refused = three.refused("east", "SYSTEM PROMOTE REPLICATION LINK e_east")
    assert "north" in refused
    assert "FORCE" in refused
    assert three.refused("east", "INSERT INTO e VALUES (9, '')").startswith("242")
    facts = three.facts("east", "SYSTEM PROMOTE REPLICATION LINK e_east FORCE")
    assert facts["not asked"][0].startswith("cluster north")
    three.do("east", "INSERT INTO e VALUES (4, 'e')")
    three.join()
    three.do("north", "ALTER REPLICATION LINK e_north ENABLE")
    shown = "SELECT message FROM system.replication_links WHERE name = 'e_north'"
    wait(lambda: "1 rows" in str(three.sql("north", shown)), f"north to be refused {three.explain()}")
    (row,) = three.sql("north", "SYSTEM REJOIN REPLICATION LINK e_north FROM CLUSTER east")
    assert (row[0], row[3]) == ("blocks", 1)
    three.do("north", "SYSTEM REJOIN REPLICATION LINK e_north FROM CLUSTER east DETACH TAIL")
    wait(lambda: three.keys("north", "e") == [1, 2, 4], f"north rejoins {three.explain()}")


def test_who_is_promoted_itself_promises_nothing(three: Clusters) -> None:
    link_table(three, "f", "east", "north")
    three.part("west")
    with three.dying_at("north", "promote.after_promise"), pytest.raises(PandoError):
        three.do("north", "SYSTEM PROMOTE REPLICATION LINK f_north")
    refused = three.refused("east", "SYSTEM PROMOTE REPLICATION LINK f_east")
    assert "has promised cluster north" in refused
    three.do("east", "SYSTEM PROMOTE REPLICATION LINK f_east CANCEL")
    refused = three.refused("east", "SYSTEM PROMOTE REPLICATION LINK f_east")
    assert "is being promoted itself" in refused
    assert "north" in refused
    assert "nothing to cancel" in three.refused("east", "SYSTEM PROMOTE REPLICATION LINK f_east CANCEL")
    three.do("north", "SYSTEM PROMOTE REPLICATION LINK f_north")
    three.do("north", "INSERT INTO f VALUES (3, 'n')")
    wait(lambda: three.keys("east", "f") == [1, 2, 3], f"east follows north {three.explain()}")
    three.join()


_PROMOTE_STEPS = (
    "promote.after_promise", "promote.after_promises", "promote.after_close", "promote.before_fork",
    "promote.after_fork", "promote.before_telling",
)  # fmt: skip


@pytest.mark.parametrize("step", one_in(3, _PROMOTE_STEPS))
def test_a_promote_that_dies_is_repeated(three: Clusters, step: str) -> None:
    table = f"g{_PROMOTE_STEPS.index(step)}"
    link_table(three, table, "east", "north")
    three.part("west")
    with three.dying_at("east", step), pytest.raises(PandoError):
        three.do("east", f"SYSTEM PROMOTE REPLICATION LINK {table}_east")
    with suppress(PandoError):  # after its fork the link is gone, and whoever has not heard is told by itself
        three.do("east", f"SYSTEM PROMOTE REPLICATION LINK {table}_east")
    three.do("east", f"INSERT INTO {table} VALUES (3, 'e')")
    wait(lambda: three.keys("north", table) == [1, 2, 3], f"north follows {three.explain()}")
    three.join()


_SWITCH_STEPS = (
    ("east", "switch.after_asking"),
    ("west", "switch.source_closed"),
    ("east", "switch.after_closing"),
    ("east", "switch.before_fork"),
    ("east", "promote.after_close"),
    ("east", "promote.after_fork"),
    ("west", "switch.source_turned"),
)


@pytest.mark.parametrize(("cluster", "step"), one_in(7, _SWITCH_STEPS))
def test_a_switch_that_dies_goes_on_from_its_ticket(three: Clusters, cluster: str, step: str) -> None:
    table = f"h{_SWITCH_STEPS.index((cluster, step))}"
    link_table(three, table, "east")
    with three.dying_at(cluster, step), suppress(PandoError):
        three.do("east", f"SYSTEM SWITCH REPLICATION LINK {table}_east")
    writable = three.writable(table)
    assert len(writable) <= 2, "north has a table of its own"
    assert not {"west", "east"} <= set(writable)
    with suppress(PandoError):  # it may have ended by itself
        three.do("east", f"SYSTEM SWITCH REPLICATION LINK {table}_east")
    wait(lambda: three.writable(table) == ["east", "north"], f"east to be the source {three.explain()}")
    three.must_be_equal(table, "west", "east")


def test_a_switch_that_died_closed_goes_on_though_the_source_has_merged(three: Clusters) -> None:
    """What it had taken all of was asked for again: the merge, which its closed table did not take."""
    link_table(three, "sm", "east")
    with three.dying_at("east", "promote.after_close"), pytest.raises(PandoError):
        three.do("east", "SYSTEM SWITCH REPLICATION LINK sm_east")
    three.do("west", "OPTIMIZE TABLE sm FINAL")
    three.do("east", "SYSTEM SWITCH REPLICATION LINK sm_east SETTINGS receive_timeout = 10")
    three.do("east", "INSERT INTO sm VALUES (3, 'e')")
    assert three.must_be_equal("sm", "west", "east") == [1, 2, 3]


@pytest.mark.parametrize(("cluster", "step"), one_in(2, _SWITCH_STEPS[2:4]))
def test_a_switch_is_cancelled(three: Clusters, cluster: str, step: str) -> None:
    table = f"i{_SWITCH_STEPS.index((cluster, step))}"
    link_table(three, table, "east")
    with three.dying_at(cluster, step), pytest.raises(PandoError):
        three.do("east", f"SYSTEM SWITCH REPLICATION LINK {table}_east")
    assert "SWITCH" in three.refused("west", f"INSERT INTO {table} VALUES (9, '')")
    with three.dying_at("east", "switch.after_void"), pytest.raises(PandoError):
        three.do("east", f"SYSTEM SWITCH REPLICATION LINK {table}_east CANCEL")
    assert three.refused("west", f"INSERT INTO {table} VALUES (9, '')").startswith("242")
    assert "was cancelled" in three.refused("east", f"SYSTEM SWITCH REPLICATION LINK {table}_east")
    three.do("east", f"SYSTEM SWITCH REPLICATION LINK {table}_east CANCEL")
    assert three.writable(table) == ["west", "north"]
    three.do("east", f"SYSTEM SWITCH REPLICATION LINK {table}_east")
    assert three.writable(table) == ["east", "north"]
    three.must_be_equal(table, "west", "east")


def test_a_ticket_that_is_void_makes_no_fork(three: Clusters) -> None:
    """CANCEL comes just before the fork."""
    link_table(three, "o", "east")
    cancel = "SYSTEM SWITCH REPLICATION LINK o_east CANCEL"
    with three.doing_at("east", "switch.before_fork", lambda: three.do("east", cancel)):
        assert "its ticket is void" in three.refused("east", "SYSTEM SWITCH REPLICATION LINK o_east")
    assert three.writable("o") == ["west", "north"]


def test_what_comes_just_before_the_bar_is_taken(three: Clusters, monkeypatch: pytest.MonkeyPatch) -> None:
    link_table(three, "p", "east")
    close, done = answers.close_for_switch, list[int]()

    def insert_and_close(*given: Any, **named: Any) -> Gate:
        if not done:
            done.append(1)
            three.do("west", "INSERT INTO p VALUES (3, 'before the bar')")
        return close(*given, **named)

    monkeypatch.setattr(answers, "close_for_switch", insert_and_close)
    three.do("east", "SYSTEM SWITCH REPLICATION LINK p_east")
    assert three.keys("east", "p") == [1, 2, 3]
    wait(lambda: three.must_be_equal("p", "west", "east") == [1, 2, 3], "west to follow")


def test_a_switch_waits_for_open_quorums(three: Clusters, monkeypatch: pytest.MonkeyPatch) -> None:
    link_table(three, "q", "east")
    waiting = [QuorumStatus("all_7_7_0", 2, ("r1",), "r1")] * 2
    monkeypatch.setattr(answers, "read_pending_quorums", lambda *_: [(waiting.pop(), "", 0)] if waiting else [])
    three.do("east", "SYSTEM SWITCH REPLICATION LINK q_east")
    assert not waiting


def test_one_side_of_a_switch_is_gone_for_good(three: Clusters) -> None:
    link_table(three, "j", "east")
    with three.dying_at("east", "switch.after_closing"), pytest.raises(PandoError):
        three.do("east", "SYSTEM SWITCH REPLICATION LINK j_east")
    three.part("east")
    assert "FORCE" in three.refused("west", "SYSTEM PROMOTE REPLICATION LINK j_east")
    three.do("west", "SYSTEM PROMOTE REPLICATION LINK j_east FORCE")
    three.do("west", "INSERT INTO j VALUES (3, 'w')")
    assert three.keys("west", "j") == [1, 2, 3]
    three.join()


_REJOIN_STEPS = (
    "rejoin.after_meeting", "rejoin.after_block", "rejoin.after_detaching", "rejoin.after_settling",
    "rejoin.before_turn", "rejoin.after_turn",
)  # fmt: skip


@pytest.mark.parametrize("step", one_in(6, _REJOIN_STEPS))
@pytest.mark.long
def test_a_rejoin_that_dies_is_repeated(three: Clusters, step: str) -> None:
    table = f"k{_REJOIN_STEPS.index(step)}"
    link_table(three, table, "east")
    three.part("west")
    three.do("west", f"INSERT INTO {table} VALUES (3, 'tail')")
    three.do("west", f"INSERT INTO {table} VALUES (4, 'tail')")
    three.do("east", f"SYSTEM PROMOTE REPLICATION LINK {table}_east")
    three.do("east", f"INSERT INTO {table} VALUES (5, 'e')")
    west, east = three.servers["west"][0], three.servers["east"][0]
    west.know(
        west=[west.url], east=[east.url], north=["http://127.0.0.1:9"]
    )  # east does not reach west: it is not told
    statement = f"SYSTEM REJOIN REPLICATION LINK {table}_east FROM CLUSTER east DETACH TAIL"
    with three.dying_at("west", step), pytest.raises(PandoError):
        three.do("west", statement)
    three.do("west", statement)
    wait(lambda: three.keys("west", table) == [1, 2, 5], f"west rejoins {three.explain()}")
    folder = west.table(table).definition.data_path / "detached"
    assert len([each for each in folder.iterdir() if each.name.startswith("tail-")]) == 2
    west.know(**{name: [each.url for each in servers] for name, servers in three.servers.items()})
    three.join()


def test_a_bar_of_a_synchronous_link_goes_with_it(three: Clusters) -> None:
    """Its source was lost while the link became asynchronous."""
    link_table(three, "n", "east")
    three.do("west", "ALTER REPLICATION LINK 'east/n_east' MODE sync")
    state = "SELECT state FROM system.replication_links WHERE name = 'east/n_east'"
    wait(lambda: three.sql("west", state) == [["enabled"]], "the synchronous link")
    three.part("east")
    three.do("west", "ALTER REPLICATION LINK 'east/n_east' MODE async")
    three.join()
    three.do("east", "SYSTEM PROMOTE REPLICATION LINK n_east FORCE")
    wait(lambda: three.is_shut("west", "n"), "west to hear of the fork")
    three.do("west", "SYSTEM REJOIN REPLICATION LINK n_east FROM CLUSTER east DETACH TAIL")
    three.do("east", "INSERT INTO n VALUES (3, 'e')")
    wait(lambda: three.keys("west", "n") == [1, 2, 3], f"west rejoins {three.explain()}")
    three.do("west", "SYSTEM SWITCH REPLICATION LINK n_east")
    three.do("west", "INSERT INTO n VALUES (4, 'w')")


@pytest.mark.long
def test_what_is_refused_by_name(three: Clusters) -> None:
    three.join()
    three.make("m")
    three.link("east", "m", "m", "west")
    for verb in ("PROMOTE", "SWITCH"):
        assert three.refused("east", f"SYSTEM {verb} REPLICATION LINK unknown").startswith("36")
        assert three.refused("east", f"SYSTEM {verb} REPLICATION LINK GROUP g").startswith("36")
    zeros = "00000000-0000-0000-0000-000000000000"
    three.do("east", f"ALTER REPLICATION LINK m MODIFY SETTING upstream_replica_id = '{zeros}'")
    assert "several writers" in three.refused("east", "SYSTEM PROMOTE REPLICATION LINK m FORCE")
    three.do("east", "ALTER REPLICATION LINK m MODIFY SETTING upstream_replica_id = ''")
    three.link("north", "m2", "m", "east")
    assert "itself the target" in three.refused("north", "SYSTEM SWITCH REPLICATION LINK m2")
    assert three.refused("west", "SYSTEM PROMOTE REPLICATION LINK m").startswith("36")
    with three.servers["east"][0].client("reader") as client, pytest.raises(PandoError) as error:
        client.execute("SYSTEM PROMOTE REPLICATION LINK m FORCE")
    assert error.value.code == 164
