"""Links between clusters with shards: shard i goes to shard i, and unequal numbers are refused."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from coordination.keeper.memory_keeper import MemoryEnsemble
from coordination.links.shard_place import ShardPlace
from engine.http_client.http_client import HttpClient
from engine.remote.own_shard import find_own_shard
from engine.server.config import Config
from parts.common.errors import PandoError
from tests.links.linked_servers import LinkedServer

CREATE = "CREATE TABLE t (k UInt64) ENGINE = ReplicatedMergeTree('/tables/{shard}/t', '{replica}') ORDER BY k"


class Sharded:
    """Clusters with a server for each of two shards, and a table ``t`` on each."""

    def __init__(self, path: Path, stack: ExitStack) -> None:
        self.servers: dict[str, list[LinkedServer]] = {}
        for name in ("west", "east"):
            ensemble = MemoryEnsemble(clock=time.time)
            self.servers[name] = []
            for number in (1, 2):
                macros = {"replica": f"{name}{number}", "shard": f"0{number}"}
                server = LinkedServer(name, "", path / f"{name}{number}", ensemble, {"macros": macros})
                stack.callback(server.close)
                server.engine.cluster_membership.shard = ShardPlace(number, 2)
                self.servers[name].append(server)
        for name, servers in self.servers.items():
            for number, server in enumerate(servers):
                other = self.servers["east" if name == "west" else "west"]
                # A server of the other shard is the first that is asked.
                server.know(**{"east" if name == "west" else "west": [other[1 - number].url, other[number].url]})
                with server.client() as client:
                    client.execute(CREATE)


@pytest.fixture
def sharded(tmp_path: Path) -> Iterator[Sharded]:
    with ExitStack() as stack:
        yield Sharded(tmp_path, stack)


def fails(client: HttpClient, text: str) -> PandoError:
    with pytest.raises(PandoError) as error:
        client.execute(text)
    return error.value


def test_each_shard_takes_the_changes_of_its_own(sharded: Sharded) -> None:
    for number, (source, target) in enumerate(zip(sharded.servers["west"], sharded.servers["east"], strict=True), 1):
        with source.client() as one, target.client() as other:
            one.execute(f"INSERT INTO t VALUES ({number})")
            other.execute(f"CREATE REPLICATION LINK l{number} ON t FROM CLUSTER west")
            one.execute(f"INSERT INTO t VALUES ({number + 10})")
            other.execute(f"SYSTEM WAIT REPLICATION LINK l{number} TIMEOUT 30")
            assert other.rows("SELECT k FROM t ORDER BY k") == [[number], [number + 10]]
    first, second = sharded.servers["east"]
    with first.client() as one, second.client() as other:
        error = fails(other, "DROP REPLICATION LINK l1")
        assert (error.code, "shard 2 of 2" in error.message) == (36, True)
        one.execute("DROP REPLICATION LINK l1")
        assert fails(one, "CREATE REPLICATION LINK d ON DATABASE default FROM CLUSTER west").code == 48
    assert sharded.servers["west"][0].table().links.source.list_outgoing() == []  # type: ignore[union-attr]


def test_a_server_of_another_shard_is_refused(sharded: Sharded) -> None:
    target = sharded.servers["east"][0]
    target.know(west=[sharded.servers["west"][1].url])
    with target.client() as client:
        error = fails(client, "CREATE REPLICATION LINK l ON t FROM CLUSTER west")
        assert error.code == 36
        assert "shard 2 of 2, and this one of shard 1 of 2" in error.message
        assert client.rows("SELECT name FROM system.replication_links") == []


def test_unequal_numbers_of_shards_are_refused_by_name(sharded: Sharded) -> None:
    target = sharded.servers["east"][0]
    target.engine.cluster_membership.shard = ShardPlace(1, 3)
    with target.client() as client:
        for what in ("t", "DATABASE default"):
            error = fails(client, f"CREATE REPLICATION LINK l ON {what} FROM CLUSTER west")
            assert error.code in (36, 48)
        target.engine.cluster_membership.shard = ShardPlace(1, 1)
        for what in ("t", "DATABASE default"):
            error = fails(client, f"CREATE REPLICATION LINK l ON {what} FROM CLUSTER west")
            assert error.code == 36
            assert "'west' has 2 shards" in error.message
            assert "'east' has 1 shard " in error.message


@pytest.mark.parametrize(
    ("keys", "place"),
    [
        ({}, ShardPlace()),
        ({"macros": {"shard": "07"}}, ShardPlace(7)),
        ({"macros": {"shard": "s7"}}, ShardPlace()),
        ({"cluster_name": "c", "macros": {"shard": "07"}}, ShardPlace(2, 2)),
        ({"macros": {"cluster": "c"}}, ShardPlace(2, 2)),
        ({"macros": {"cluster": "other", "shard": "1"}}, ShardPlace(1)),
        ({"cluster_name": "away", "macros": {"shard": "1"}}, ShardPlace(1)),
    ],
)
def test_the_configuration_tells_the_shard(keys: dict[str, object], place: ShardPlace, tmp_path: Path) -> None:
    here, there = {"host": "127.0.0.1", "port": 81}, {"host": "127.0.0.1", "port": 82}
    remote_servers = {"c": [{"replicas": [there]}, {"replicas": [here]}], "away": [{"replicas": [there]}]}
    config = Config.model_validate({"path": tmp_path, "http_port": 81, "remote_servers": remote_servers, **keys})
    assert find_own_shard(config) == place
