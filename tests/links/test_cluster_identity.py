"""A cluster's name and UUID: made once in its ZooKeeper, whoever starts first; another name is refused."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from uuid import UUID

import pytest

from coordination.keeper.memory_keeper import Fault, MemoryEnsemble
from coordination.links.cluster_identity import CLUSTER_PATH, ClusterIdentity, claim_cluster_identity
from engine.remote.cluster_membership import ClusterMembership
from parts.common.errors import CorruptionError, PandoError, UserError


def numbered(first: int) -> Callable[[], UUID]:
    numbers = count(first)
    return lambda: UUID(int=next(numbers))


def ensemble() -> MemoryEnsemble:
    return MemoryEnsemble(clock=lambda: 100.0)


def test_it_is_made_once() -> None:
    zookeeper = ensemble()
    made = claim_cluster_identity(zookeeper.connect(), "west", numbered(1))
    assert made == ClusterIdentity("west", str(UUID(int=1)))
    assert claim_cluster_identity(zookeeper.connect(), "west", numbered(7)) == made
    assert claim_cluster_identity(ensemble().connect(), "west", numbered(7)).uuid != made.uuid


def test_another_name_for_the_same_zookeeper_is_refused() -> None:
    zookeeper = ensemble()
    made = claim_cluster_identity(zookeeper.connect(), "west", numbered(1))
    with pytest.raises(UserError, match=f"cluster_name is 'east', but .* cluster 'west' \\({made.uuid}") as caught:
        claim_cluster_identity(zookeeper.connect(), "east", numbered(2))
    assert caught.value.code == 36


@pytest.mark.parametrize("number", range(1, 7))
def test_servers_that_start_together_agree(number: int) -> None:
    """The second one starts at some request of the first."""
    zookeeper = ensemble()
    first, second = zookeeper.connect(), zookeeper.connect()
    found: list[ClusterIdentity] = []
    left = [number]

    def come(session: int, kind: str, path: str) -> None:
        left[0] -= session == first.session_id
        if left[0] == 0:
            left[0] = -1
            found.append(claim_cluster_identity(second, "west", numbered(100)))

    zookeeper.faults = come
    identity = claim_cluster_identity(first, "west", numbered(1))
    zookeeper.faults = None
    assert found in ([], [identity])
    assert claim_cluster_identity(second, "west", numbered(200)) == identity


@pytest.mark.parametrize("fault", Fault)
@pytest.mark.parametrize("number", range(4))
def test_lost_answers(fault: Fault, number: int) -> None:
    zookeeper = ensemble()
    keeper = zookeeper.connect()
    left = [number]

    def faults(session: int, kind: str, path: str) -> Fault | None:
        left[0] -= 1
        return fault if left[0] == -1 else None

    zookeeper.faults = faults
    membership = ClusterMembership("west", numbered(1))
    membership.join(keeper)
    zookeeper.faults = None
    keeper.reconnect()
    identity = membership.get_identity(keeper)
    assert claim_cluster_identity(zookeeper.connect(), "west", numbered(9)) == identity


def test_a_server_without_a_name_makes_none() -> None:
    zookeeper = ensemble()
    membership = ClusterMembership(None, numbered(1))
    membership.join(zookeeper.connect())
    membership.join(None)
    assert zookeeper.connect().exists(CLUSTER_PATH) is None
    with pytest.raises(PandoError, match="no cluster_name"):
        membership.get_identity(zookeeper.connect())


@pytest.mark.parametrize("data", [b"", b"[]", b'{"version":2}', b'{"version":1,"name":"west","uuid":"x"}'])
def test_what_cannot_be_read_is_not_made_anew(data: bytes) -> None:
    keeper = ensemble().connect()
    keeper.create_parents(CLUSTER_PATH)
    keeper.set(CLUSTER_PATH, data)
    with pytest.raises(CorruptionError, match="Cannot read the cluster's identity"):
        claim_cluster_identity(keeper, "west", numbered(1))
