"""A link's registration at its source: one moment in the order of commits, from which every replica keeps changes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from coordination.inserts.block_numbers import BlockLock, LockKind, allocate_block_number, release_block_number
from coordination.nodes.gate import Gate
from coordination.nodes.gate_link import LinkDirection
from coordination.nodes.replica_activation import FEATURE_LINKS, ReplicaAddress
from parts.common.errors import PandoError, UserError
from tests.links.linked_source import LINK, TARGET, Asker, linked_table
from tests.portions import one_in

INSERT = "INSERT INTO costs VALUES ({}, {}, 0)"


@pytest.fixture
def asker(tmp_path: Path) -> Iterator[Asker]:
    with linked_table(tmp_path) as asker:
        asker.table.first.sql(INSERT.format(1, 0))
        asker.table.settle()
        yield asker


def read_gate(asker: Asker) -> Gate:
    keeper = asker.table.servers.ensemble.connect()
    return Gate.parse(keeper.get(asker.table.table.replication.paths.gate)[0])


def test_a_link_is_in_the_gate_and_every_replica_keeps(asker: Asker) -> None:
    found = asker.begin()
    (link,) = read_gate(asker).links
    assert (link.name, link.direction, link.peer) == (LINK.name, LinkDirection.OUT, TARGET)
    for server in asker.table.servers.servers:
        keeping = asker.table.of(server).links.keeping
        assert keeping.period == 1
        assert keeping.since <= found.newest
    (known,) = asker.source().list_outgoing()
    assert (known.uuid, known.trim, known.applied) == (LINK.uuid, 0, 0)


def test_a_registration_may_be_repeated_and_changed(asker: Asker) -> None:
    asker.begin()
    again = replace(asker.link, is_two_way=True)
    with asker.table.first.acting():
        asker.source().register(again)
    assert read_gate(asker).links[0].is_two_way
    assert asker.source(1).list_outgoing()[0].is_two_way
    assert read_gate(asker).periods == 1


def test_another_link_of_the_name_is_refused(asker: Asker) -> None:
    asker.begin()
    with asker.table.first.acting(), pytest.raises(UserError, match="another link west/l") as caught:
        asker.source().register(replace(asker.link, uuid="other"))
    assert caught.value.code == 36
    stranger = Asker(asker.table, replace(asker.link, uuid="other"), asker.vector)
    with pytest.raises(UserError, match="another one of the same name"):
        stranger.ask()
    with pytest.raises(UserError, match="not registered"):
        Asker(asker.table, replace(asker.link, name="west/m"), asker.vector).ask()


@pytest.mark.parametrize("name", ["l", "/l", "west/", "west/a/b", ""])
def test_a_name_must_name_its_cluster(asker: Asker, name: str) -> None:
    with asker.table.first.acting(), pytest.raises(UserError, match="<target cluster>/<name>"):
        asker.source().register(replace(asker.link, name=name))
    assert read_gate(asker).links == ()


def test_an_older_replica_refuses_links(asker: Asker) -> None:
    keeper = asker.table.servers.ensemble.connect()
    host = asker.table.table.replication.paths.replica("r2").host
    address = ReplicaAddress.parse(keeper.get(host)[0])
    features = tuple(feature for feature in address.features if feature != FEATURE_LINKS)
    keeper.set(host, replace(address, features=features).to_bytes())
    with asker.table.first.acting(), pytest.raises(UserError, match="'r2'") as caught:
        asker.source().register(asker.link)
    assert caught.value.code == 48
    assert read_gate(asker).links == ()


def test_a_replica_that_does_not_keep_is_named(asker: Asker) -> None:
    second = asker.table.servers.servers[1]
    second.is_frozen = True
    asker.table.servers.on_wait = lambda: None
    with asker.table.first.acting(), pytest.raises(PandoError, match="replicas r2") as caught:
        asker.source().register(asker.link)
    assert caught.value.code == 159
    asker.table.servers.on_wait = asker.table.servers.step_others
    second.is_frozen = False
    asker.begin()


def test_the_keeping_ends_with_the_last_link(asker: Asker) -> None:
    asker.begin()
    asker.table.first.sql(INSERT.format(1, 1))
    asker.table.settle()
    tables = [asker.table.of(server) for server in asker.table.servers.servers]
    asker.table.work_until(lambda: all(table.links.blocks.outbox.get_statistics().blocks for table in tables))
    with asker.table.first.acting():
        asker.source().unregister(asker.link.name)
        asker.source().unregister(asker.link.name)
    asker.table.work_until(lambda: not any(table.links.keeping.is_keeping for table in tables))
    keeper = asker.table.servers.ensemble.connect()
    for table in tables:
        assert not table.links.keeping.journal.is_begun
        assert not (table.definition.data_path / "link_outbox").exists()
        assert keeper.exists(table.replication.replica.link_keeping) is None
    assert asker.source().list_outgoing() == []


def test_a_late_end_does_not_end_another_link(asker: Asker) -> None:
    asker.begin()
    with asker.table.first.acting():
        asker.source().unregister(asker.link.name, "another")
        assert [link.uuid for link in read_gate(asker).links] == [asker.link.uuid]
        assert len(asker.source().list_outgoing()) == 1
        asker.source().unregister(asker.link.name, asker.link.uuid)
    assert read_gate(asker).links == ()


def test_a_link_that_comes_again_keeps_anew(asker: Asker) -> None:
    first = asker.begin()
    with asker.table.first.acting():
        asker.source().unregister(asker.link.name)
    asker.table.first.sql(INSERT.format(1, 1))
    asker.vector = type(asker.vector)()
    second = asker.begin()
    assert second.newest > first.newest
    assert asker.table.table.links.keeping.since > first.newest
    assert asker.take_all() == []


def test_a_link_begins_behind_what_was_under_way(asker: Asker) -> None:
    """A number was taken before anybody kept changes: the link begins when it is decided."""
    keeper, paths = asker.table.servers.ensemble.connect(), asker.table.table.replication.paths
    lock = allocate_block_number(keeper, paths, "1", owner="r9", kind=LockKind.BLOCK)
    assert isinstance(lock, BlockLock)
    rounds = [20]

    def on_wait() -> None:
        asker.table.servers.step_others()
        rounds[0] -= 1
        if rounds[0] == 0:
            release_block_number(keeper, lock)

    asker.table.servers.on_wait = on_wait
    asker.begin()
    assert rounds[0] <= 0


@pytest.mark.parametrize("number", one_in(3, range(1, 40, 3)))
def test_an_insert_meanwhile_is_before_the_beginning_or_is_sent(asker: Asker, number: int) -> None:
    """Another replica inserts, and mutates, before one of the registration's requests."""
    first, second = asker.table.servers.servers
    left = [number]

    def on_request(node: object, kind: str, path: str) -> None:
        left[0] -= node is first
        if left[0] == 0 and node is first:
            left[0] = -1
            second.sql(INSERT.format(1, 7))
            second.sql("ALTER TABLE costs UPDATE v = 1 WHERE k = 7 SETTINGS mutations_sync = 0")

    asker.table.servers.on_request = on_request
    begun = asker.begin().newest
    asker.table.servers.on_request = lambda node, kind, path: None
    if left[0] > 0:
        pytest.skip("the registration had fewer requests")
    asker.table.settle()
    changes = asker.take_all()
    keeper = asker.table.servers.ensemble.connect()
    paths = asker.table.table.replication.paths
    entries = [(keeper.get(f"{paths.log}/{name}")) for name in keeper.children(paths.log)]
    blocks = [stat.created_zxid for data, stat in entries if b"GET_PART" in data]
    mutation = keeper.get(f"{paths.mutations}/{keeper.children(paths.mutations)[0]}")[1].created_zxid
    assert [change.place for change in changes] == [zxid for zxid in (*blocks, mutation) if zxid > begun]
