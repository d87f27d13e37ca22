"""PROMOTE, SWITCH and REJOIN of transactional groups: all tables change over at one moment, at one cut."""

from __future__ import annotations

import errno
import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from coordination.keeper.interface import SessionState
from coordination.keeper.memory_keeper import Fault, MemoryEnsemble
from coordination.links.groups.link_group import find_group
from coordination.links.stream.change import Block, Change
from coordination.links.switching.lineage import EpochFork, Lineage
from engine.links.link_upstream import LinkUpstream
from engine.tables.replicated.links.switching import replica_switching
from parts.common.errors import PandoError, UnavailableError
from tests.links.linked_servers import linked_servers
from tests.links.switched_clusters import Clusters
from tests.links.test_link_groups import follow
from tests.links.test_links_in_one_process import wait
from tests.portions import one_in


@pytest.fixture
def three(tmp_path: Path) -> Iterator[Clusters]:
    """Made anew for each test: the groups of tests before would go on asking their sources."""
    world = {"max_poll_seconds": 0.2}
    with linked_servers(tmp_path, world, west=1, east=1, north=1) as servers:
        yield Clusters(servers)


def _grouped(three: Clusters, name: str, *targets: str, alone: str = "") -> tuple[str, str]:
    """Two tables of west with a row each, and at these clusters links of them in a group.

    At the cluster ``alone`` the links are in none.
    """
    three.join()
    a, b = f"{name}_a", f"{name}_b"
    for table in (a, b):
        three.make(table)
        for target in (*targets, alone) if alone else targets:
            three.link(target, table, table, "west")
    for target in targets:
        three.do(target, f"CREATE REPLICATION LINK GROUP {name} ({a}, {b})")
    _insert_pair(three, "west", a, b, 1)
    for target in (*targets, alone) if alone else targets:
        _follow(three, target, a, b)
    others = len(targets) + bool(alone) - 1
    for table in (a, b) if others else ():
        wait(lambda table=table: _count_siblings(three, targets[0], table) == others, "the siblings to be known")  # type: ignore[misc]
    return a, b


def _count_siblings(three: Clusters, cluster: str, link: str) -> int:
    progress = three.servers[cluster][0].links.find_progress(link)
    return len(json.loads(progress.siblings or "[]")) if progress is not None else 0


def _follow(three: Clusters, cluster: str, *tables: str) -> None:
    for table in tables:
        three.do(cluster, f"SYSTEM WAIT REPLICATION LINK {table} TIMEOUT 30")


def _rest(three: Clusters, cluster: str, a: str, b: str) -> None:
    """Disables a link, and waits until its group rests."""
    three.do(cluster, f"ALTER REPLICATION LINK {b} DISABLE")
    message = f"SELECT message FROM system.replication_links WHERE name = '{a}' AND direction = 'in'"
    wait(lambda: f"link {b} is disabled" in str(three.sql(cluster, message)), "the group to rest")


def _insert_pair(three: Clusters, cluster: str, a: str, b: str, key: int) -> None:
    three.do(cluster, f"INSERT INTO {a} VALUES ({key}, 'x')")
    three.do(cluster, f"INSERT INTO {b} VALUES ({key}, 'x')")


def _show(three: Clusters, cluster: str, a: str, b: str) -> list[list[object]]:
    """Keys of both tables, in one statement."""
    arrays = (f"(SELECT arraySort(groupArray(k)) FROM {table})" for table in (a, b))
    try:
        return list(three.sql(cluster, f"SELECT {', '.join(arrays)}")[0])  # type: ignore[arg-type]
    except PandoError as error:
        if error.code != 369:
            raise
        return []


def _must_show(three: Clusters, a: str, b: str, keys: list[list[int]], *clusters: str) -> None:
    for cluster in clusters:
        wait(
            lambda cluster=cluster: _show(three, cluster, a, b) == keys,  # type: ignore[misc]
            f"{cluster} to show {keys}, not {_show(three, cluster, a, b)} {three.explain()}",
        )


def _groups(three: Clusters, cluster: str) -> list[object]:
    return [row[0] for row in three.sql(cluster, "SHOW REPLICATION LINK GROUPS")]


def _own_forks(three: Clusters, cluster: str, *tables: str) -> list[EpochFork | None]:
    """By table the fork that began its present epoch."""
    found: list[EpochFork | None] = []
    for table in tables:
        gate = three.gate(cluster, table)
        found.append(next((fork for fork in Lineage.read(gate).forks if str(fork.by.epoch) == gate.epoch), None))
    return found


def _takers(three: Clusters, table: str, *clusters: str) -> list[str]:
    return [name for name in three.writable(table) if name in clusters]


def test_a_group_is_switched_over_and_back(three: Clusters) -> None:
    a, b = _grouped(three, "sw", "east")
    assert "SWITCH REPLICATION LINK GROUP sw" in three.refused("east", "SYSTEM PROMOTE REPLICATION LINK GROUP sw")
    _insert_pair(three, "west", a, b, 2)
    three.do("west", f"OPTIMIZE TABLE {a} FINAL")  # the newest entry of its log is no change
    facts = three.facts("east", "SYSTEM SWITCH REPLICATION LINK GROUP sw")
    assert facts["group"] == ["sw"]
    assert facts["table"] == [f"default.{a}", f"default.{b}"]
    assert facts["behind the fork"] == ["0 rows, 0 bytes: the source was closed"] * 2
    assert {fork.made_ms > 0 for fork in _own_forks(three, "east", a, b) if fork} == {True}
    assert _show(three, "east", a, b) == [[1, 2], [1, 2]]
    for table in (a, b):
        assert three.refused("west", f"INSERT INTO {table} VALUES (9, '')").startswith("242")
    assert "sw" in _groups(three, "west")
    assert "sw" not in _groups(three, "east")
    _insert_pair(three, "east", a, b, 3)
    _must_show(three, a, b, [[1, 2, 3], [1, 2, 3]], "west")
    assert three.sql("west", f"SELECT lastCut('{a}') = lastCut('{b}')") == [[1]]
    three.do("west", "SYSTEM SWITCH REPLICATION LINK GROUP sw")
    _insert_pair(three, "west", a, b, 4)
    _must_show(three, a, b, [[1, 2, 3, 4], [1, 2, 3, 4]], "west", "east")
    assert "sw" in _groups(three, "east")


def test_a_group_is_promoted_at_its_last_cut_and_the_old_source_rejoins(three: Clusters) -> None:
    a, b = _grouped(three, "pr", "east")
    _rest(three, "east", a, b)
    _insert_pair(three, "west", a, b, 2)
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
    assert _show(three, "east", a, b) == [[1], [1]]
    _insert_pair(three, "east", a, b, 5)
    three.join()
    wait(lambda: three.is_shut("west", a) and three.is_shut("west", b), "west to hear of the forks")
    assert "REJOIN REPLICATION LINK GROUP pr" in three.refused("west", f"INSERT INTO {a} VALUES (9, '')")
    tail = three.sql("west", "SYSTEM REJOIN REPLICATION LINK GROUP pr FROM CLUSTER east")
    assert [(row[1], row[3]) for row in tail] == [(f"default.{a}", 2), (f"default.{b}", 1)]
    assert _show(three, "west", a, b) == [[1, 2, 3], [1, 2]]
    tail = three.sql("west", "SYSTEM REJOIN REPLICATION LINK GROUP pr FROM CLUSTER east DETACH TAIL")
    assert sorted((row[0], row[1], row[3]) for row in tail) == [
        ("block", f"default.{a}", 1), ("block", f"default.{a}", 1), ("block", f"default.{b}", 1),
    ]  # fmt: skip
    assert "pr" in _groups(three, "west")
    _must_show(three, a, b, [[1, 5], [1, 5]], "west")
    assert three.sql("west", "SYSTEM REJOIN REPLICATION LINK GROUP pr FROM CLUSTER east DETACH TAIL") == []
    three.do("west", "SYSTEM SWITCH REPLICATION LINK GROUP pr")
    _insert_pair(three, "west", a, b, 6)
    _must_show(three, a, b, [[1, 5, 6], [1, 5, 6]], "east")


def test_what_is_refused_by_name(three: Clusters) -> None:
    a, b = _grouped(three, "no", "east")
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
    assert _takers(three, a, "west", "east") == ["west"], "a refused SWITCH closes nothing"
    with three.servers["east"][0].client("reader") as client, pytest.raises(PandoError) as error:
        client.execute("SYSTEM PROMOTE REPLICATION LINK GROUP no FORCE")
    assert error.value.code == 164


@pytest.mark.long
def test_a_table_that_has_not_entered_is_not_promoted(three: Clusters) -> None:
    a, b = _grouped(three, "en", "east")
    c = "en_c"
    three.make(c)
    three.link("east", c, c, "west")
    _follow(three, "east", c)
    _rest(three, "east", a, b)
    three.do("east", f"ALTER REPLICATION LINK GROUP en ADD {c}")
    three.part("west")
    for force in ("", " FORCE"):
        refused = three.refused("east", f"SYSTEM PROMOTE REPLICATION LINK GROUP en{force}")
        assert refused.startswith("36")
        assert f"GROUP en REMOVE {c}" in refused
    three.do("east", f"ALTER REPLICATION LINK GROUP en REMOVE {c}")
    three.do("east", "SYSTEM PROMOTE REPLICATION LINK GROUP en")
    _insert_pair(three, "east", a, b, 2)
    three.join()


_PROMOTE_STEPS = (
    "promote.before_fork", "promote.after_mark", "promote.after_promise", "promote.after_promises",
    "promote.after_close", "promote.after_fork", "promote.before_telling",
)  # fmt: skip


@pytest.mark.parametrize("step", _PROMOTE_STEPS)
@pytest.mark.long
def test_a_promote_that_dies_is_repeated(three: Clusters, step: str) -> None:
    name = f"pd{_PROMOTE_STEPS.index(step)}"
    a, b = _grouped(three, name, "east", "north")
    three.part("west")
    with three.dying_at("east", step), pytest.raises(PandoError):
        three.do("east", f"SYSTEM PROMOTE REPLICATION LINK GROUP {name}")
    forks = _own_forks(three, "east", a, b)
    assert len({fork is None for fork in forks}) == 1, "one fork for both"
    with suppress(PandoError):  # whoever has not heard may be told by itself
        three.do("east", f"SYSTEM PROMOTE REPLICATION LINK GROUP {name}")
    _insert_pair(three, "east", a, b, 3)
    _must_show(three, a, b, [[1, 3], [1, 3]], "east", "north")
    assert name in _groups(three, "north")
    three.join()


@pytest.mark.parametrize("step", _PROMOTE_STEPS[:5])
@pytest.mark.long
def test_a_promote_that_died_is_cancelled(three: Clusters, step: str) -> None:
    name = f"pc{_PROMOTE_STEPS.index(step)}"
    a, b = _grouped(three, name, "east", "north")
    three.part("west")
    with three.dying_at("east", step), pytest.raises(PandoError):
        three.do("east", f"SYSTEM PROMOTE REPLICATION LINK GROUP {name}")
    three.do("east", f"SYSTEM PROMOTE REPLICATION LINK GROUP {name} CANCEL")
    three.join()
    _insert_pair(three, "west", a, b, 3)
    _must_show(three, a, b, [[1, 3], [1, 3]], "east", "north")


_SWITCH_STEPS = (
    ("east", "switch.before_fork"),
    ("east", "switch.after_asking"),
    ("west", "switch.source_closed"),
    ("east", "switch.after_closing"),
    ("east", "promote.after_close"),
    ("east", "promote.before_fork"),
    ("east", "promote.after_fork"),
    ("east", "promote.before_telling"),
    ("west", "switch.source_turned"),
)


@pytest.mark.parametrize(("cluster", "step"), _SWITCH_STEPS)
@pytest.mark.long
def test_a_switch_that_dies_goes_on_from_its_ticket(three: Clusters, cluster: str, step: str) -> None:
    name = f"sd{_SWITCH_STEPS.index((cluster, step))}"
    a, b = _grouped(three, name, "east")
    with three.dying_at(cluster, step), suppress(PandoError):
        three.do("east", f"SYSTEM SWITCH REPLICATION LINK GROUP {name}")
    takers = [_takers(three, table, "west", "east") for table in (a, b)]
    assert all(len(each) <= 1 for each in takers)
    assert takers[0] == takers[1] or ["east"] in takers, takers  # it may be told by itself between the two looks
    with suppress(PandoError):  # it may have ended by itself
        three.do("east", f"SYSTEM SWITCH REPLICATION LINK GROUP {name}")
    for table in (a, b):
        wait(lambda table=table: _takers(three, table, "west", "east") == ["east"], f"east {three.explain()}")  # type: ignore[misc]
    wait(lambda: name in _groups(three, "west"), "the group back")
    wait(lambda: _show(three, "west", a, b) == _show(three, "east", a, b), f"equal tables {three.explain()}")


@pytest.mark.parametrize(("cluster", "step"), one_in(2, _SWITCH_STEPS[:6:3]))
def test_a_switch_is_cancelled(three: Clusters, cluster: str, step: str) -> None:
    name = f"sc{_SWITCH_STEPS.index((cluster, step))}"
    a, b = _grouped(three, name, "east")
    with three.dying_at(cluster, step), pytest.raises(PandoError):
        three.do("east", f"SYSTEM SWITCH REPLICATION LINK GROUP {name}")
    for table in (a, b):
        assert f"SWITCH REPLICATION LINK GROUP {name}" in three.refused("west", f"INSERT INTO {table} VALUES (9, '')")
    with three.dying_at("east", "switch.after_void"), pytest.raises(PandoError):
        three.do("east", f"SYSTEM SWITCH REPLICATION LINK GROUP {name} CANCEL")
    for table in (a, b):
        assert three.refused("west", f"INSERT INTO {table} VALUES (9, '')").startswith("242")
    assert "was cancelled" in three.refused("east", f"SYSTEM SWITCH REPLICATION LINK GROUP {name}")
    three.do("east", f"SYSTEM SWITCH REPLICATION LINK GROUP {name} CANCEL")
    for table in (a, b):
        assert _takers(three, table, "west", "east") == ["west"]
    three.do("east", f"SYSTEM SWITCH REPLICATION LINK GROUP {name}")
    for table in (a, b):
        assert _takers(three, table, "west", "east") == ["east"]


@pytest.mark.long
def test_a_ticket_that_is_void_makes_no_fork(three: Clusters) -> None:
    a, b = _grouped(three, "vo", "east")
    cancel = "SYSTEM SWITCH REPLICATION LINK GROUP vo CANCEL"
    with three.doing_at("east", "promote.before_fork", lambda: three.do("east", cancel)):
        assert "its ticket is void" in three.refused("east", "SYSTEM SWITCH REPLICATION LINK GROUP vo")
    for table in (a, b):
        assert _takers(three, table, "west", "east") == ["west"]


_REJOIN_STEPS = (
    "rejoin.before_turn", "rejoin.after_meeting", "rejoin.after_block", "rejoin.after_detaching",
    "rejoin.after_settling", "rejoin.after_turn",
)  # fmt: skip


@pytest.mark.parametrize("step", _REJOIN_STEPS)
@pytest.mark.long
def test_a_rejoin_that_dies_is_repeated(three: Clusters, step: str) -> None:
    name = f"rd{_REJOIN_STEPS.index(step)}"
    a, b = _grouped(three, name, "east")
    _rest(three, "east", a, b)
    _insert_pair(three, "west", a, b, 2)
    three.part("west")
    three.do("east", f"SYSTEM PROMOTE REPLICATION LINK GROUP {name}")
    _insert_pair(three, "east", a, b, 3)
    statement = f"SYSTEM REJOIN REPLICATION LINK GROUP {name} FROM CLUSTER east DETACH TAIL"
    with three.dying_at("west", step), pytest.raises(PandoError):
        three.do("west", statement)
    turned = [any(link.group for link in three.gate("west", table).links) for table in (a, b)]
    assert turned[0] == turned[1]
    three.do("west", statement)
    _must_show(three, a, b, [[1, 3], [1, 3]], "west")
    for table in (a, b):
        folder = three.servers["west"][0].table(table).definition.data_path / "detached"
        assert len([each for each in folder.iterdir() if each.name.startswith("tail-")]) == 1
    three.join()


@contextmanager
def _losing_answers(three: Clusters, cluster: str, fault: Fault, table: str) -> Iterator[list[str]]:
    """The first multi that ends the group's links loses its answer, or is not carried out."""
    ensemble: MemoryEnsemble = three.servers[cluster][0]._ensemble
    lost = list[str]()

    def faults(session: int, kind: str, path: str) -> Fault | None:
        if kind == "multi" and not lost and path == f"/tables/{table}/links/vector":
            lost.append(path)
            return fault
        return None

    ensemble.faults = faults
    try:
        yield lost
    finally:
        ensemble.faults = None
        for keeper in ensemble._keepers:
            if keeper.state is not SessionState.CONNECTED:
                keeper.reconnect()


@pytest.mark.long
def test_a_fork_while_zookeeper_goes_away(three: Clusters) -> None:
    for number, fault in enumerate((Fault.LOSE_REQUEST, Fault.LOSE_ANSWER, Fault.EXPIRE, Fault.EXPIRE_AFTER)):
        a, b = _grouped(three, f"zk{number}", "east")
        three.part("west")
        with _losing_answers(three, "east", fault, a) as lost, suppress(PandoError):
            three.do("east", f"SYSTEM PROMOTE REPLICATION LINK GROUP zk{number}")
        assert lost
        forks = _own_forks(three, "east", a, b)
        assert (forks[0] is None) == (forks[1] is None)
        wait(lambda n=number: _promoted(three, f"zk{n}"), "the promotion")  # type: ignore[misc]
        wait(lambda a=a, b=b: _is_written(three, a, b, 3), "tables that have their session again")  # type: ignore[misc]
        assert _show(three, "east", a, b) == [[1, 3], [1, 3]]
        three.join()


def _is_written(three: Clusters, a: str, b: str, key: int) -> bool:
    with suppress(PandoError):
        _insert_pair(three, "east", a, b, key)
        return True
    return False


def _promoted(three: Clusters, name: str) -> bool:
    with suppress(PandoError):
        three.do("east", f"SYSTEM PROMOTE REPLICATION LINK GROUP {name}")
    return None not in _own_forks(three, "east", f"{name}_a", f"{name}_b")


@pytest.mark.long
def test_a_cut_beside_the_promotion_is_whole_or_not_at_all(three: Clusters) -> None:
    """It is committed before the tables are closed, or never."""
    a, b = _grouped(three, "cu", "east")

    def insert_and_wait() -> None:
        _insert_pair(three, "west", a, b, 2)
        _follow(three, "east", a, b)

    with three.doing_at("east", "promote.after_promises", insert_and_wait):
        facts = three.facts("east", "SYSTEM PROMOTE REPLICATION LINK GROUP cu FORCE")
    assert len({fork.rpartition(":")[2] for fork in facts["fork"]}) == 1
    assert _show(three, "east", a, b) == [[1, 2], [1, 2]]
    wait(lambda: three.is_shut("west", a) and three.is_shut("west", b), "west to hear of the forks")


def _fill_disk(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.long
def test_what_is_staged_of_a_cut_is_detached(three: Clusters, monkeypatch: pytest.MonkeyPatch) -> None:
    """The source ends between the blocks of two tables."""
    a, b = _grouped(three, "st", "east")
    fetch = LinkUpstream.fetch

    def fetch_of_one(self: LinkUpstream, change: Change, block: Block, directory: Path) -> None:
        if self.definition.name == b:
            raise UnavailableError("NETWORK_ERROR", "the source ends")
        fetch(self, change, block, directory)

    monkeypatch.setattr(LinkUpstream, "fetch", fetch_of_one)
    monkeypatch.setattr(LinkUpstream, "fetch_small", lambda self, changes: {})
    _rest(three, "east", a, b)
    _insert_pair(three, "west", a, b, 2)  # one cut brings both
    three.do("east", f"ALTER REPLICATION LINK {b} ENABLE")
    store = three.servers["east"][0].table(a).definition.data_path / "staged"
    wait(lambda: list(store.glob("link-*/*")), "the staged block")
    three.part("west")
    with monkeypatch.context() as full:
        full.setattr(replica_switching, "link_files", _fill_disk)
        assert "NOT_ENOUGH_SPACE" in three.refused("east", "SYSTEM PROMOTE REPLICATION LINK GROUP st")
    facts = three.facts("east", "SYSTEM PROMOTE REPLICATION LINK GROUP st")
    assert facts["staged behind the fork"] == ["1 blocks with 1 rows, linked to detached/ here"]
    detached = three.servers["east"][0].table(a).definition.data_path / "detached"
    assert [each.name[:7] for each in detached.iterdir()] == ["staged-"]
    assert _show(three, "east", a, b) == [[1], [1]]
    three.join()


def test_a_sibling_group_gives_its_cut(three: Clusters) -> None:
    """A table without the tail of the other one is never shown."""
    a, b = _grouped(three, "si", "east", "north")
    _rest(three, "east", a, b)
    _insert_pair(three, "west", a, b, 2)
    _follow(three, "north", a, b)
    three.part("west")
    seen = list[list[list[object]]]()
    with three.doing_at("east", "promote.after_tail_batch", lambda: seen.append(_show(three, "east", a, b))):
        facts = three.facts("east", "SYSTEM PROMOTE REPLICATION LINK GROUP si")
    assert seen[0] in ([[1], [1]], [[1, 2], [1, 2]])
    assert ["1 rows were taken" in text for text in facts["taken from a sibling"]] == [True, True]
    assert _show(three, "east", a, b) == [[1, 2], [1, 2]]
    _insert_pair(three, "east", a, b, 3)
    _must_show(three, a, b, [[1, 2, 3], [1, 2, 3]], "north")
    assert three.sql("north", f"SELECT lastCut('{a}') = lastCut('{b}')") == [[1]]
    three.join()


@pytest.mark.long
def test_siblings_that_stand_alone_give_what_they_have_in_common(three: Clusters) -> None:
    """Of the table that goes further than the other, the rest stays there; its cluster must REJOIN."""
    a, b = _grouped(three, "al", "east", alone="north")
    _rest(three, "east", a, b)
    _insert_pair(three, "west", a, b, 2)
    _follow(three, "north", a, b)
    three.do("north", f"ALTER REPLICATION LINK {b} DISABLE")
    three.do("west", f"INSERT INTO {a} VALUES (3, 'only a')")
    _follow(three, "north", a)
    three.part("west")
    facts = three.facts("east", "SYSTEM PROMOTE REPLICATION LINK GROUP al")
    assert "1 rows were taken" in facts["taken from a sibling"][0]
    assert "was left there" in facts["taken from a sibling"][0]
    assert _show(three, "east", a, b) == [[1, 2], [1, 2]]
    message = f"SELECT message FROM system.replication_links WHERE name = '{a}'"
    wait(lambda: "has 1 rows" in str(three.sql("north", message)), f"north to be refused {three.explain()}")
    three.join()


@pytest.mark.long
def test_a_sibling_group_that_missed_two_switches_follows_the_last(three: Clusters) -> None:
    a, b = _grouped(three, "tw", "east", "north")
    for table in (a, b):
        three.do("north", f"ALTER REPLICATION LINK {table} DISABLE")
    three.do("east", "SYSTEM SWITCH REPLICATION LINK GROUP tw")
    wait(lambda: "tw" in _groups(three, "west"), "the group back")
    _follow(three, "west", a, b)
    three.do("west", "SYSTEM SWITCH REPLICATION LINK GROUP tw")
    _insert_pair(three, "west", a, b, 2)
    three.do("north", f"ALTER REPLICATION LINK {b} ENABLE")
    three.do("north", f"ALTER REPLICATION LINK {a} ENABLE")
    _must_show(three, a, b, [[1, 2], [1, 2]], "west", "east", "north")
    assert three.sql("north", f"SELECT lastCut('{a}') = lastCut('{b}')") == [[1]]


@pytest.mark.timeout(60)
def test_a_switch_that_died_goes_on_although_the_source_merged(three: Clusters) -> None:
    """What the source logs when it is closed brings no rows, but the targets must read so far."""
    a, b = _grouped(three, "merged", "east")
    _insert_pair(three, "west", a, b, 2)
    _follow(three, "east", a, b)
    with suppress(PandoError), three.dying_at("east", "promote.after_close"):
        three.do("east", "SYSTEM SWITCH REPLICATION LINK GROUP merged")
    three.do("west", f"OPTIMIZE TABLE {a} FINAL")
    three.do("east", "SYSTEM SWITCH REPLICATION LINK GROUP merged")
    _insert_pair(three, "east", a, b, 3)
    _must_show(three, a, b, [[1, 2, 3], [1, 2, 3]], "east", "west")


def test_a_switch_takes_the_mutations_of_the_source(three: Clusters) -> None:
    a, b = _grouped(three, "mut", "east", "north")
    _insert_pair(three, "west", a, b, 2)
    three.do("west", f"ALTER TABLE {a} DELETE WHERE k = 1")
    three.do("east", "SYSTEM SWITCH REPLICATION LINK GROUP mut")
    three.do("east", f"ALTER TABLE {b} DELETE WHERE k = 1")
    _insert_pair(three, "east", a, b, 3)
    _must_show(three, a, b, [[2, 3], [2, 3]], "east", "west", "north")


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
        _follow(three, target, a, b)
    _rest(three, "north", a, b)
    for key in (2, 3):
        three.do("west", f"INSERT INTO {a} VALUES ({key}, 'x')")
        _follow(three, "east", a, b)
    three.do("east", "SYSTEM SWITCH REPLICATION LINK GROUP idle")
    three.do("north", f"ALTER REPLICATION LINK {b} ENABLE")
    _insert_pair(three, "east", a, b, 4)
    _must_show(three, a, b, [[1, 2, 3, 4], [1, 4]], "east", "west", "north")


@pytest.mark.long
def test_a_sibling_group_behind_a_fork_rejoins_as_one(three: Clusters) -> None:
    """One of its tables has rows too many; the other follows, and waits for it."""
    a, b = _grouped(three, "be", "east", "north")
    _rest(three, "east", a, b)
    three.do("west", f"INSERT INTO {a} VALUES (2, 'too many')")
    _follow(three, "north", a, b)
    three.part("west", "north")
    assert "north" in three.refused("east", "SYSTEM PROMOTE REPLICATION LINK GROUP be")
    facts = three.facts("east", "SYSTEM PROMOTE REPLICATION LINK GROUP be FORCE")
    assert len(facts["not asked"]) == 2
    _insert_pair(three, "east", a, b, 3)
    three.join()
    wait(lambda: three.is_shut("north", a), f"north to be refused {three.explain()}")
    assert "REJOIN REPLICATION LINK GROUP be" in three.refused("north", f"INSERT INTO {a} VALUES (9, '')")
    assert "GROUP be" in three.refused("north", f"SYSTEM REJOIN REPLICATION LINK {a} FROM CLUSTER east")
    tail = three.sql("north", "SYSTEM REJOIN REPLICATION LINK GROUP be FROM CLUSTER east")
    assert [row[1] for row in tail] == [f"default.{a}"]
    three.do("north", "SYSTEM REJOIN REPLICATION LINK GROUP be FROM CLUSTER east DETACH TAIL")
    _must_show(three, a, b, [[1, 3], [1, 3]], "north")
    assert "be" in _groups(three, "north")


@pytest.mark.long
def test_a_promise_of_a_group_is_ended_at_the_sibling(three: Clusters) -> None:
    a, b = _grouped(three, "pm", "east", "north")
    three.part("west")
    with three.dying_at("east", "promote.after_promises"), pytest.raises(PandoError):
        three.do("east", "SYSTEM PROMOTE REPLICATION LINK GROUP pm")
    refused = three.refused("north", "SYSTEM PROMOTE REPLICATION LINK GROUP pm")
    assert "SYSTEM PROMOTE REPLICATION LINK GROUP pm CANCEL" in refused
    facts = three.facts("north", "SYSTEM PROMOTE REPLICATION LINK GROUP pm CANCEL")
    assert len(facts["cancelled"]) == 2
    three.do("east", "SYSTEM PROMOTE REPLICATION LINK GROUP pm CANCEL")
    three.join()
    _insert_pair(three, "west", a, b, 2)
    _must_show(three, a, b, [[1, 2], [1, 2]], "east", "north")


@pytest.mark.long
def test_the_old_source_of_a_switch_opens_by_force(three: Clusters) -> None:
    """And the other side, which went on with the fork, rejoins."""
    a, b = _grouped(three, "fo", "east")
    with three.dying_at("east", "switch.after_closing"), pytest.raises(PandoError):
        three.do("east", "SYSTEM SWITCH REPLICATION LINK GROUP fo")
    three.part("east")
    assert "FORCE" in three.refused("west", "SYSTEM PROMOTE REPLICATION LINK GROUP fo")
    facts = three.facts("west", "SYSTEM PROMOTE REPLICATION LINK GROUP fo FORCE")
    assert facts["table"] == [f"default.{a}", f"default.{b}"]
    _insert_pair(three, "west", a, b, 2)
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
    a, b = _grouped(clusters, name, "east")
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
            _insert_pair(clusters, "west", a, b, key)
            history += [(history[-1][0] + key, history[-1][1]), (history[-1][0] + key, history[-1][1] + key)]
        clusters.do("east", f"SYSTEM SWITCH REPLICATION LINK GROUP {name}")
        assert _show(clusters, "east", a, b)[0] == list(range(1, 12))
        with server.client() as client:
            assert client.rows(sums) == [[66, 66]], "every replica shows the last cut before the tables change over"
    finally:
        is_over.set()
        reader.join()
    assert not problems
    assert follow(seen, history)
    keeper = server.engine.replication.require_keeper()
    assert find_group(keeper, name) is None
