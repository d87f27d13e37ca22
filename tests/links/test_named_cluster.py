"""A named cluster of real processes, whose queries run in workers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from engine.cluster.cluster import Cluster
from engine.http_client.http_client import HttpClient
from parts.common.errors import PandoError

pytestmark = [pytest.mark.cluster, pytest.mark.long]


@pytest.fixture(scope="module")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[HttpClient]]:
    cluster = Cluster(tmp_path_factory.mktemp("west"))
    members = cluster.start(2, overrides={"workers": 1}, name="west")
    clients = [HttpClient(port=member.port, timeout_seconds=60) for member in members if member.name.startswith("r")]
    try:
        for client in clients:
            client.execute(
                "CREATE TABLE t (k UInt64) ENGINE = ReplicatedMergeTree('/tables/t', '{replica}') ORDER BY k"
            )
        yield clients
    finally:
        for client in clients:
            client.close()
        cluster.stop(grace_seconds=5)


def test_positions_in_workers(clients: list[HttpClient]) -> None:
    first, second = clients
    before = str(first.value("SELECT currentPosition('default.t')"))
    assert second.value("SELECT currentPosition('t')") == before
    first.execute("INSERT INTO t VALUES (1)")
    after = str(second.value("SELECT currentPosition('t')"))
    assert after.partition(":")[0] == before.partition(":")[0]
    assert int(after.partition(":")[2]) > int(before.partition(":")[2])
    first.execute("CREATE TABLE plain (k UInt64) ENGINE = MergeTree ORDER BY k")
    with pytest.raises(PandoError, match="Only Replicated tables have positions"):
        first.value("SELECT currentPosition('plain')")


def test_inserts_are_refused_on_the_other_server(clients: list[HttpClient]) -> None:
    first, second = clients
    first.execute("ALTER TABLE t MODIFY SETTING refuse_inserts = 1")
    for client in clients:
        with pytest.raises(PandoError, match="refuses INSERTs") as caught:
            client.execute("INSERT INTO t VALUES (2)")
        assert caught.value.code == 242
    second.execute("ALTER TABLE t MODIFY SETTING refuse_inserts = 0")
    for client in clients:
        client.execute("INSERT INTO t VALUES (3)")
