"""PROMOTE, SWITCH and REJOIN of transactional groups that die, are cancelled, or lose their disk or ZooKeeper."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from coordination.keeper.interface import SessionState
from coordination.keeper.memory_keeper import Fault, MemoryEnsemble
from coordination.links.stream.change import Block, Change
from engine.links.link_upstream import LinkUpstream
from engine.tables.replicated.links.switching import replica_switching
from parts.common.errors import PandoError, UnavailableError
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
from tests.links.test_links_in_one_process import wait
from tests.portions import one_in

__all__ = ["three"]


@pytest.mark.long
def test_a_table_that_has_not_entered_is_not_promoted(three: Clusters) -> None:
    a, b = make_group(three, "en", "east")
    c = "en_c"
    three.make(c)
    three.link("east", c, c, "west")
    wait_to_follow(three, "east", c)
    wait_until_rested(three, "east", a, b)
    three.do("east", f"ALTER REPLICATION LINK GROUP en ADD {c}")
    three.part("west")
    for force in ("", " FORCE"):
        refused = three.refused("east", f"SYSTEM PROMOTE REPLICATION LINK GROUP en{force}")
        assert refused.startswith("36")
        assert f"GROUP en REMOVE {c}" in refused
    three.do("east", f"ALTER REPLICATION LINK GROUP en REMOVE {c}")
    three.do("east", "SYSTEM PROMOTE REPLICATION LINK GROUP en")
    insert_pair(three, "east", a, b, 2)
    three.join()


_PROMOTE_STEPS = (
    "promote.before_fork", "promote.after_mark", "promote.after_promise", "promote.after_promises",
    "promote.after_close", "promote.after_fork", "promote.before_telling",
)  # fmt: skip


@pytest.mark.parametrize("step", _PROMOTE_STEPS)
@pytest.mark.long
def test_a_promote_that_dies_is_repeated(three: Clusters, step: str) -> None:
    name = f"pd{_PROMOTE_STEPS.index(step)}"
    a, b = make_group(three, name, "east", "north")
    three.part("west")
    with three.dying_at("east", step), pytest.raises(PandoError):
        three.do("east", f"SYSTEM PROMOTE REPLICATION LINK GROUP {name}")
    forks = read_own_forks(three, "east", a, b)
    assert len({fork is None for fork in forks}) == 1, "one fork for both"
    with suppress(PandoError):  # whoever has not heard may be told by itself
        three.do("east", f"SYSTEM PROMOTE REPLICATION LINK GROUP {name}")
    insert_pair(three, "east", a, b, 3)
    require_shown(three, a, b, [[1, 3], [1, 3]], "east", "north")
    assert name in read_groups(three, "north")
    three.join()


@pytest.mark.parametrize("step", _PROMOTE_STEPS[:5])
@pytest.mark.long
def test_a_promote_that_died_is_cancelled(three: Clusters, step: str) -> None:
    name = f"pc{_PROMOTE_STEPS.index(step)}"
    a, b = make_group(three, name, "east", "north")
    three.part("west")
    with three.dying_at("east", step), pytest.raises(PandoError):
        three.do("east", f"SYSTEM PROMOTE REPLICATION LINK GROUP {name}")
    three.do("east", f"SYSTEM PROMOTE REPLICATION LINK GROUP {name} CANCEL")
    three.join()
    insert_pair(three, "west", a, b, 3)
    require_shown(three, a, b, [[1, 3], [1, 3]], "east", "north")


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
    a, b = make_group(three, name, "east")
    with three.dying_at(cluster, step), suppress(PandoError):
        three.do("east", f"SYSTEM SWITCH REPLICATION LINK GROUP {name}")
    takers = [list_takers(three, table, "west", "east") for table in (a, b)]
    assert all(len(each) <= 1 for each in takers)
    assert takers[0] == takers[1] or ["east"] in takers, takers  # it may be told by itself between the two looks
    with suppress(PandoError):  # it may have ended by itself
        three.do("east", f"SYSTEM SWITCH REPLICATION LINK GROUP {name}")
    for table in (a, b):
        wait(lambda table=table: list_takers(three, table, "west", "east") == ["east"], f"east {three.explain()}")  # type: ignore[misc]
    wait(lambda: name in read_groups(three, "west"), "the group back")
    wait(lambda: show_pair(three, "west", a, b) == show_pair(three, "east", a, b), f"equal tables {three.explain()}")


@pytest.mark.parametrize(("cluster", "step"), one_in(2, _SWITCH_STEPS[:6:3]))
def test_a_switch_is_cancelled(three: Clusters, cluster: str, step: str) -> None:
    name = f"sc{_SWITCH_STEPS.index((cluster, step))}"
    a, b = make_group(three, name, "east")
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
        assert list_takers(three, table, "west", "east") == ["west"]
    three.do("east", f"SYSTEM SWITCH REPLICATION LINK GROUP {name}")
    for table in (a, b):
        assert list_takers(three, table, "west", "east") == ["east"]


@pytest.mark.long
def test_a_ticket_that_is_void_makes_no_fork(three: Clusters) -> None:
    a, b = make_group(three, "vo", "east")
    cancel = "SYSTEM SWITCH REPLICATION LINK GROUP vo CANCEL"
    with three.doing_at("east", "promote.before_fork", lambda: three.do("east", cancel)):
        assert "its ticket is void" in three.refused("east", "SYSTEM SWITCH REPLICATION LINK GROUP vo")
    for table in (a, b):
        assert list_takers(three, table, "west", "east") == ["west"]


_REJOIN_STEPS = (
    "rejoin.before_turn", "rejoin.after_meeting", "rejoin.after_block", "rejoin.after_detaching",
    "rejoin.after_settling", "rejoin.after_turn",
)  # fmt: skip


@pytest.mark.parametrize("step", _REJOIN_STEPS)
@pytest.mark.long
def test_a_rejoin_that_dies_is_repeated(three: Clusters, step: str) -> None:
    name = f"rd{_REJOIN_STEPS.index(step)}"
    a, b = make_group(three, name, "east")
    wait_until_rested(three, "east", a, b)
    insert_pair(three, "west", a, b, 2)
    three.part("west")
    three.do("east", f"SYSTEM PROMOTE REPLICATION LINK GROUP {name}")
    insert_pair(three, "east", a, b, 3)
    statement = f"SYSTEM REJOIN REPLICATION LINK GROUP {name} FROM CLUSTER east DETACH TAIL"
    with three.dying_at("west", step), pytest.raises(PandoError):
        three.do("west", statement)
    turned = [any(link.group for link in three.gate("west", table).links) for table in (a, b)]
    assert turned[0] == turned[1]
    three.do("west", statement)
    require_shown(three, a, b, [[1, 3], [1, 3]], "west")
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
        a, b = make_group(three, f"zk{number}", "east")
        three.part("west")
        with _losing_answers(three, "east", fault, a) as lost, suppress(PandoError):
            three.do("east", f"SYSTEM PROMOTE REPLICATION LINK GROUP zk{number}")
        assert lost
        forks = read_own_forks(three, "east", a, b)
        assert (forks[0] is None) == (forks[1] is None)
        wait(lambda n=number: _promoted(three, f"zk{n}"), "the promotion")  # type: ignore[misc]
        wait(lambda a=a, b=b: _is_written(three, a, b, 3), "tables that have their session again")  # type: ignore[misc]
        assert show_pair(three, "east", a, b) == [[1, 3], [1, 3]]
        three.join()


def _is_written(three: Clusters, a: str, b: str, key: int) -> bool:
    with suppress(PandoError):
        insert_pair(three, "east", a, b, key)
        return True
    return False


def _promoted(three: Clusters, name: str) -> bool:
    with suppress(PandoError):
        three.do("east", f"SYSTEM PROMOTE REPLICATION LINK GROUP {name}")
    return None not in read_own_forks(three, "east", f"{name}_a", f"{name}_b")


@pytest.mark.long
def test_a_cut_beside_the_promotion_is_whole_or_not_at_all(three: Clusters) -> None:
    """It is committed before the tables are closed, or never."""
    a, b = make_group(three, "cu", "east")

    def insert_and_wait() -> None:
        insert_pair(three, "west", a, b, 2)
        wait_to_follow(three, "east", a, b)

    with three.doing_at("east", "promote.after_promises", insert_and_wait):
        facts = three.facts("east", "SYSTEM PROMOTE REPLICATION LINK GROUP cu FORCE")
    assert len({fork.rpartition(":")[2] for fork in facts["fork"]}) == 1
    assert show_pair(three, "east", a, b) == [[1, 2], [1, 2]]
    wait(lambda: three.is_shut("west", a) and three.is_shut("west", b), "west to hear of the forks")


def _fill_disk(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.long
def test_what_is_staged_of_a_cut_is_detached(three: Clusters, monkeypatch: pytest.MonkeyPatch) -> None:
    """The source ends between the blocks of two tables."""
    a, b = make_group(three, "st", "east")
    fetch = LinkUpstream.fetch

    def fetch_of_one(self: LinkUpstream, change: Change, block: Block, directory: Path) -> None:
        if self.definition.name == b:
            raise UnavailableError("NETWORK_ERROR", "the source ends")
        fetch(self, change, block, directory)

    monkeypatch.setattr(LinkUpstream, "fetch", fetch_of_one)
    monkeypatch.setattr(LinkUpstream, "fetch_small", lambda self, changes: {})
    wait_until_rested(three, "east", a, b)
    insert_pair(three, "west", a, b, 2)  # one cut brings both
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
    assert show_pair(three, "east", a, b) == [[1], [1]]
    three.join()
