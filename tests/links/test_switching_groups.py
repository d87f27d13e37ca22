"""PROMOTE, SWITCH and REJOIN of transactional groups: all tables change over at one moment, at one cut."""

from __future__ import annotations

import threading
from contextlib import suppress
from pathlib import Path

import pytest

from coordination.links.groups.link_group import find_group
from parts.common.errors import PandoError
from tests.links.linked_servers import linked_servers
from tests.links.switched_clusters import Clusters
from tests.links.switched_groups import (
    insert_pair,
    list_takers,
    make_group,
    read_groups,
    read_own_forks,
    require_shown,
    show_pair,
    three,
    wait_to_follow,
    wait_until_rested,
)
from tests.links.test_link_groups import follow
from tests.links.test_links_in_one_process import wait

__all__ = ["three"]


def test_a_group_is_switched_over_and_back(three: Clusters) -> None:
    a, b = make_group(three, "sw", "east")
    assert "SWITCH REPLICATION LINK GROUP sw" in three.refused("east", "SYSTEM PROMOTE REPLICATION LINK GROUP sw")
    insert_pair(three, "west", a, b, 2)
    three.do("west", f"OPTIMIZE TABLE {a} FINAL")  # the newest entry of its log is no change
    facts = three.facts("east", "SYSTEM SWITCH REPLICATION LINK GROUP sw")
    assert facts["group"] == ["sw"]
    assert facts["table"] == [f"default.{a}", f"default.{b}"]
    assert facts["behind the fork"] == ["0 rows, 0 bytes: the source was closed"] * 2
    assert {fork.made_ms > 0 for fork in read_own_forks(three, "east", a, b) if fork} == {True}
    assert show_pair(three, "east", a, b) == [[1, 2], [1, 2]]
    for table in (a, b):
        assert three.refused("west", f"INSERT INTO {table} VALUES (9, '')").startswith("242")
    assert "sw" in read_groups(three, "west")
    assert "sw" not in read_groups(three, "east")
    insert_pair(three, "east", a, b, 3)
    require_shown(three, a, b, [[1, 2, 3], [1, 2, 3]], "west")
    assert three.sql("west", f"SELECT lastCut('{a}') = lastCut('{b}')") == [[1]]
    three.do("west", "SYSTEM SWITCH REPLICATION LINK GROUP sw")
    insert_pair(three, "west", a, b, 4)
    require_shown(three, a, b, [[1, 2, 3, 4], [1, 2, 3, 4]], "west", "east")
    assert "sw" in read_groups(three, "east")


def test_a_group_is_promoted_at_its_last_cut_and_the_old_source_rejoins(three: Clusters) -> None:
    a, b = make_group(three, "pr", "east")
    wait_until_rested(three, "east", a, b)
    insert_pair(three, "west", a, b, 2)
    three.do("west", f"INSERT INTO {a} VALUES (3, 'x')")
    three.part("west")
    facts = three.facts("east", "SYSTEM PROMOTE REPLICATION LINK GROUP pr")
    assert facts["group"] == ["pr"]
    assert len(facts["fork"]) == len(facts["last heartbeat"]) == len(facts["behind the fork"]) == 2
    assert len({fork.rpartition(":")[2] for fork in facts["fork"]}) == 1, "one place of the source"
    assert len(facts["not told yet"]) == 2
    keeper = three.servers["east"][0].engine.replication.require_keeper()
    vectors = [keeper.get(f"/tables/{table}/links/vector")[1].modified_zxid for table in (a, b)]
    assert vectors[0] == vectors[1], "one multi"
    assert show_pair(three, "east", a, b) == [[1], [1]]
    insert_pair(three, "east", a, b, 5)
    three.join()
    wait(lambda: three.is_shut("west", a) and three.is_shut("west", b), "west to hear of the forks")
    assert "REJOIN REPLICATION LINK GROUP pr" in three.refused("west", f"INSERT INTO {a} VALUES (9, '')")
    tail = three.sql("west", "SYSTEM REJOIN REPLICATION LINK GROUP pr FROM CLUSTER east")
    assert [(row[1], row[3]) for row in tail] == [(f"default.{a}", 2), (f"default.{b}", 1)]
    assert show_pair(three, "west", a, b) == [[1, 2, 3], [1, 2]]
    tail = three.sql("west", "SYSTEM REJOIN REPLICATION LINK GROUP pr FROM CLUSTER east DETACH TAIL")
    assert sorted((row[0], row[1], row[3]) for row in tail) == [
        ("block", f"default.{a}", 1), ("block", f"default.{a}", 1), ("block", f"default.{b}", 1),
    ]  # fmt: skip
    assert "pr" in read_groups(three, "west")
    require_shown(three, a, b, [[1, 5], [1, 5]], "west")
    assert three.sql("west", "SYSTEM REJOIN REPLICATION LINK GROUP pr FROM CLUSTER east DETACH TAIL") == []
    three.do("west", "SYSTEM SWITCH REPLICATION LINK GROUP pr")
    insert_pair(three, "west", a, b, 6)
    require_shown(three, a, b, [[1, 5, 6], [1, 5, 6]], "east")


def test_what_is_refused_by_name(three: Clusters) -> None:
    a, b = make_group(three, "no", "east")
    for verb in ("PROMOTE", "SWITCH"):
        refused = three.refused("east", f"SYSTEM {verb} REPLICATION LINK GROUP nogroup")
        assert refused.startswith("36")
        assert "the groups are:" in refused
        assert "nothing to cancel" in three.refused("east", f"SYSTEM {verb} REPLICATION LINK GROUP no CANCEL")
        refused = three.refused("east", f"SYSTEM {verb} REPLICATION LINK {a}")
        assert refused.startswith("48")
        assert f"SYSTEM {verb} REPLICATION LINK GROUP no " in refused
    for verb in ("PROMOTE", "SWITCH"):
        assert three.refused("west", f"SYSTEM {verb} REPLICATION LINK GROUP no").startswith("36")
    assert three.refused("west", "SYSTEM REJOIN REPLICATION LINK GROUP no FROM CLUSTER east").startswith("36")
    assert three.refused("west", "SYSTEM REJOIN REPLICATION LINK GROUP no FROM CLUSTER nowhere").startswith("36")
    three.do("east", f"ALTER REPLICATION LINK {b} DISABLE")
    refused = three.refused("east", "SYSTEM SWITCH REPLICATION LINK GROUP no")
    assert refused.startswith("36")
    assert f"ALTER REPLICATION LINK {b} ENABLE" in refused
    three.do("east", f"ALTER REPLICATION LINK {b} ENABLE")
    c = "no_c"
    three.make(c)
    three.link("north", c, c, "east")
    three.do("north", f"CREATE REPLICATION LINK GROUP other ({c})")
    three.link("west", c, c, "north")
    three.do("west", f"CREATE REPLICATION LINK GROUP no ({c})")
    refused = three.refused("east", "SYSTEM SWITCH REPLICATION LINK GROUP no")
    assert "DROP REPLICATION LINK GROUP no there" in refused
    assert list_takers(three, a, "west", "east") == ["west"], "a refused SWITCH closes nothing"
    with three.servers["east"][0].client("reader") as client, pytest.raises(PandoError) as error:
        client.execute("SYSTEM PROMOTE REPLICATION LINK GROUP no FORCE")
    assert error.value.code == 164


def test_a_sibling_group_gives_its_cut(three: Clusters) -> None:
    """A table without the tail of the other one is never shown."""
    a, b = make_group(three, "si", "east", "north")
    wait_until_rested(three, "east", a, b)
    insert_pair(three, "west", a, b, 2)
    wait_to_follow(three, "north", a, b)
    three.part("west")
    seen = list[list[list[object]]]()
    with three.doing_at("east", "promote.after_tail_batch", lambda: seen.append(show_pair(three, "east", a, b))):
        facts = three.facts("east", "SYSTEM PROMOTE REPLICATION LINK GROUP si")
    assert seen[0] in ([[1], [1]], [[1, 2], [1, 2]])
    assert ["1 rows were taken" in text for text in facts["taken from a sibling"]] == [True, True]
    assert show_pair(three, "east", a, b) == [[1, 2], [1, 2]]
    insert_pair(three, "east", a, b, 3)
    require_shown(three, a, b, [[1, 2, 3], [1, 2, 3]], "north")
    assert three.sql("north", f"SELECT lastCut('{a}') = lastCut('{b}')") == [[1]]
    three.join()


@pytest.mark.long
def test_siblings_that_stand_alone_give_what_they_have_in_common(three: Clusters) -> None:
    """Of the table that goes further than the other, the rest stays there; its cluster must REJOIN."""
    a, b = make_group(three, "al", "east", alone="north")
    wait_until_rested(three, "east", a, b)
    insert_pair(three, "west", a, b, 2)
    wait_to_follow(three, "north", a, b)
    three.do("north", f"ALTER REPLICATION LINK {b} DISABLE")
    three.do("west", f"INSERT INTO {a} VALUES (3, 'only a')")
    wait_to_follow(three, "north", a)
    three.part("west")
    facts = three.facts("east", "SYSTEM PROMOTE REPLICATION LINK GROUP al")
    assert "1 rows were taken" in facts["taken from a sibling"][0]
    assert "was left there" in facts["taken from a sibling"][0]
    assert show_pair(three, "east", a, b) == [[1, 2], [1, 2]]
    message = f"SELECT message FROM system.replication_links WHERE name = '{a}'"
    wait(lambda: "has 1 rows" in str(three.sql("north", message)), f"north to be refused {three.explain()}")
    three.join()


@pytest.mark.long
def test_a_sibling_group_that_missed_two_switches_follows_the_last(three: Clusters) -> None:
    a, b = make_group(three, "tw", "east", "north")
    for table in (a, b):
        three.do("north", f"ALTER REPLICATION LINK {table} DISABLE")
    three.do("east", "SYSTEM SWITCH REPLICATION LINK GROUP tw")
    wait(lambda: "tw" in read_groups(three, "west"), "the group back")
    wait_to_follow(three, "west", a, b)
    three.do("west", "SYSTEM SWITCH REPLICATION LINK GROUP tw")
    insert_pair(three, "west", a, b, 2)
    three.do("north", f"ALTER REPLICATION LINK {b} ENABLE")
    three.do("north", f"ALTER REPLICATION LINK {a} ENABLE")
    require_shown(three, a, b, [[1, 2], [1, 2]], "west", "east", "north")
    assert three.sql("north", f"SELECT lastCut('{a}') = lastCut('{b}')") == [[1]]


@pytest.mark.timeout(60)
def test_a_switch_that_died_goes_on_although_the_source_merged(three: Clusters) -> None:
    """What the source logs when it is closed brings no rows, but the targets must read so far."""
    a, b = make_group(three, "merged", "east")
    insert_pair(three, "west", a, b, 2)
    wait_to_follow(three, "east", a, b)
    with suppress(PandoError), three.dying_at("east", "promote.after_close"):
        three.do("east", "SYSTEM SWITCH REPLICATION LINK GROUP merged")
    three.do("west", f"OPTIMIZE TABLE {a} FINAL")
    three.do("east", "SYSTEM SWITCH REPLICATION LINK GROUP merged")
    insert_pair(three, "east", a, b, 3)
    require_shown(three, a, b, [[1, 2, 3], [1, 2, 3]], "east", "west")


def test_a_switch_takes_the_mutations_of_the_source(three: Clusters) -> None:
    a, b = make_group(three, "mut", "east", "north")
    insert_pair(three, "west", a, b, 2)
    three.do("west", f"ALTER TABLE {a} DELETE WHERE k = 1")
    three.do("east", "SYSTEM SWITCH REPLICATION LINK GROUP mut")
    three.do("east", f"ALTER TABLE {b} DELETE WHERE k = 1")
    insert_pair(three, "east", a, b, 3)
    require_shown(three, a, b, [[2, 3], [2, 3]], "east", "west", "north")


def test_a_table_without_changes_follows_a_switch_without_a_copy(three: Clusters) -> None:
    """Cuts have moved its vector behind the sibling's; there was no change in between, so the sibling lacks none."""
    three.join()
    a, b = "idle_a", "idle_b"
    for table in (a, b):
        three.make(table)
        for cluster in three.servers:
            three.do(cluster, f"INSERT INTO {table} VALUES (1, 'before the links')")
        for target in ("east", "north"):
            link = f"CREATE REPLICATION LINK {table} ON {table} FROM CLUSTER west SETTINGS start_position = 'now'"
            three.do(target, link)
    for target in ("east", "north"):
        three.do(target, f"CREATE REPLICATION LINK GROUP idle ({a}, {b})")
        wait_to_follow(three, target, a, b)
    wait_until_rested(three, "north", a, b)
    for key in (2, 3):
        three.do("west", f"INSERT INTO {a} VALUES ({key}, 'x')")
        wait_to_follow(three, "east", a, b)
    three.do("east", "SYSTEM SWITCH REPLICATION LINK GROUP idle")
    three.do("north", f"ALTER REPLICATION LINK {b} ENABLE")
    insert_pair(three, "east", a, b, 4)
    require_shown(three, a, b, [[1, 2, 3, 4], [1, 4]], "east", "west", "north")


@pytest.mark.long
def test_a_sibling_group_behind_a_fork_rejoins_as_one(three: Clusters) -> None:
    """One of its tables has rows too many; the other follows, and waits for it."""
    a, b = make_group(three, "be", "east", "north")
    wait_until_rested(three, "east", a, b)
    three.do("west", f"INSERT INTO {a} VALUES (2, 'too many')")
    wait_to_follow(three, "north", a, b)
    three.part("west", "north")
    assert "north" in three.refused("east", "SYSTEM PROMOTE REPLICATION LINK GROUP be")
    facts = three.facts("east", "SYSTEM PROMOTE REPLICATION LINK GROUP be FORCE")
    assert len(facts["not asked"]) == 2
    insert_pair(three, "east", a, b, 3)
    three.join()
    wait(lambda: three.is_shut("north", a), f"north to be refused {three.explain()}")
    assert "REJOIN REPLICATION LINK GROUP be" in three.refused("north", f"INSERT INTO {a} VALUES (9, '')")
    assert "GROUP be" in three.refused("north", f"SYSTEM REJOIN REPLICATION LINK {a} FROM CLUSTER east")
    tail = three.sql("north", "SYSTEM REJOIN REPLICATION LINK GROUP be FROM CLUSTER east")
    assert [row[1] for row in tail] == [f"default.{a}"]
    three.do("north", "SYSTEM REJOIN REPLICATION LINK GROUP be FROM CLUSTER east DETACH TAIL")
    require_shown(three, a, b, [[1, 3], [1, 3]], "north")
    assert "be" in read_groups(three, "north")


@pytest.mark.long
def test_a_promise_of_a_group_is_ended_at_the_sibling(three: Clusters) -> None:
    a, b = make_group(three, "pm", "east", "north")
    three.part("west")
    with three.dying_at("east", "promote.after_promises"), pytest.raises(PandoError):
        three.do("east", "SYSTEM PROMOTE REPLICATION LINK GROUP pm")
    refused = three.refused("north", "SYSTEM PROMOTE REPLICATION LINK GROUP pm")
    assert "SYSTEM PROMOTE REPLICATION LINK GROUP pm CANCEL" in refused
    facts = three.facts("north", "SYSTEM PROMOTE REPLICATION LINK GROUP pm CANCEL")
    assert len(facts["cancelled"]) == 2
    three.do("east", "SYSTEM PROMOTE REPLICATION LINK GROUP pm CANCEL")
    three.join()
    insert_pair(three, "west", a, b, 2)
    require_shown(three, a, b, [[1, 2], [1, 2]], "east", "north")


@pytest.mark.long
def test_the_old_source_of_a_switch_opens_by_force(three: Clusters) -> None:
    """And the other side, which went on with the fork, rejoins."""
    a, b = make_group(three, "fo", "east")
    with three.dying_at("east", "switch.after_closing"), pytest.raises(PandoError):
        three.do("east", "SYSTEM SWITCH REPLICATION LINK GROUP fo")
    three.part("east")
    assert "FORCE" in three.refused("west", "SYSTEM PROMOTE REPLICATION LINK GROUP fo")
    facts = three.facts("west", "SYSTEM PROMOTE REPLICATION LINK GROUP fo FORCE")
    assert facts["table"] == [f"default.{a}", f"default.{b}"]
    insert_pair(three, "west", a, b, 2)
    three.join()


@pytest.mark.long
def test_readers_see_a_prefix_through_a_switch(three: Clusters) -> None:
    _read_through_a_switch(three, "rs", 0)


@pytest.mark.long
def test_readers_of_another_replica_see_a_prefix_through_a_switch(tmp_path: Path) -> None:
    with linked_servers(tmp_path, {"max_poll_seconds": 0.2}, west=1, east=2) as servers:
        _read_through_a_switch(Clusters(servers), "ro", 1)


def _read_through_a_switch(clusters: Clusters, name: str, number: int) -> None:
    """Somebody reads from a server of the target all the time."""
    a, b = make_group(clusters, name, "east")
    server = clusters.servers["east"][number]
    sums = f"SELECT (SELECT toInt64(sum(k)) FROM {a}), (SELECT toInt64(sum(k)) FROM {b})"
    seen, problems, is_over = list[tuple[int, int]](), list[Exception](), threading.Event()

    def read() -> None:
        with server.client() as client:
            try:
                while not is_over.is_set():
                    ((x, y),) = client.rows(sums)
                    seen.append((int(x), int(y)))
            except Exception as error:
                problems.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        history = [(0, 0), (1, 0), (1, 1)]
        for key in range(2, 12):
            insert_pair(clusters, "west", a, b, key)
            history += [(history[-1][0] + key, history[-1][1]), (history[-1][0] + key, history[-1][1] + key)]
        clusters.do("east", f"SYSTEM SWITCH REPLICATION LINK GROUP {name}")
        assert show_pair(clusters, "east", a, b)[0] == list(range(1, 12))
        with server.client() as client:
            assert client.rows(sums) == [[66, 66]], "every replica shows the last cut before the tables change over"
    finally:
        is_over.set()
        reader.join()
    assert not problems
    assert follow(seen, history)
    keeper = server.engine.replication.require_keeper()
    assert find_group(keeper, name) is None
