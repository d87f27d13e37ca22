"""Workers meet parts that became broken after the replica process had opened them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.cluster.cluster import Cluster
from engine.http_client.http_client import HttpClient
from parts.common.errors import PandoError
from tests.engine.workers.server import wait_for
from tests.portions import one_in
from tests.recovery.damages import Damage, create, damages_of, insert, query

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("damaged parts")]

REPLICATED = "ReplicatedMergeTree('/tables/{0}', '{{replica}}')"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path_factory.mktemp("cluster"))
    cluster.start(2, overrides={"workers": 1, "logger": {"level": "information"}})
    yield cluster
    cluster.stop(grace_seconds=5)


def _client(cluster: Cluster, name: str) -> HttpClient:
    return HttpClient(port=next(status for status in cluster.status() if status.name == name).port, timeout_seconds=60)


def _table(cluster: Cluster, table: str) -> Path:
    return next(cluster.replica_directory("r2").rglob("metadata")).parent / "data" / "default" / table


@pytest.mark.parametrize("kind", one_in(2, ["wide", "packed"]))
def test_what_a_worker_meets_is_mended(cluster: Cluster, kind: str) -> None:
    one, two = _client(cluster, "r1"), _client(cluster, "r2")
    for client in (one, two):
        client.execute(create(REPLICATED.format(kind), kind, kind))
    for statement in insert(1, kind):
        one.execute(statement)
    count = f"SELECT count() FROM system.parts WHERE active AND table = '{kind}'"
    wait_for(lambda: two.value(count) == 1, "the first part")
    damages = damages_of(sorted(path.name for path in next(_table(cluster, kind).glob("0_*")).iterdir()))
    one.execute(f"TRUNCATE TABLE {kind}")
    for statement in insert(len(damages) + 1, kind):
        one.execute(statement)
    wait_for(lambda: two.value(count) == len(damages) + 1, "the parts")
    right = one.rows(query(None, kind))
    parts = {damage: damage.hurt(_table(cluster, kind)) for damage in damages}
    # A query that needs none of them, by the worker's first look at the table.
    assert two.rows(query(len(damages), kind)) == right[-1:]
    met = {damage for damage in damages if not _is_right(two, damage, kind, parts, right)}
    assert met or kind == "packed"  # of which the replica process has all in memory
    left = set(met)

    def look() -> bool:
        left.difference_update([damage for damage in left if _is_right(two, damage, kind, parts, right)])
        return not left

    wait_for(look, "good copies")
    mended = {f"broken_{parts[damage]}" for damage in (met if kind == "wide" else damages)}
    detached = f"SELECT name FROM system.detached_parts WHERE table = '{kind}'"
    wait_for(lambda: {name for (name,) in two.rows(detached)} >= mended, "the broken parts in detached/")
    assert two.rows(query(None, kind)) == right


def _is_right(
    client: HttpClient, damage: Damage, table: str, parts: dict[Damage, str], right: list[list[object]]
) -> bool:
    try:
        answer = client.rows(query(damage.partition, table))
    except PandoError as error:
        met = error
    else:
        assert answer == [right[damage.partition]], damage
        return True
    assert met.code in (40, 74, 226, 246), met
    assert parts[damage] in met.message, met
    return False
