"""Transactional groups of three clusters whose source moves, and what tests ask of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from coordination.links.switching.lineage import EpochFork, Lineage
from parts.common.errors import PandoError
from tests.links.linked_servers import linked_servers
from tests.links.switched_clusters import Clusters
from tests.links.test_links_in_one_process import wait


@pytest.fixture
def three(tmp_path: Path) -> Iterator[Clusters]:
    """Made anew for each test: the groups of tests before would go on asking their sources."""
    world = {"max_poll_seconds": 0.2}
    with linked_servers(tmp_path, world, west=1, east=1, north=1) as servers:
        yield Clusters(servers)


def make_group(three: Clusters, name: str, *targets: str, alone: str = "") -> tuple[str, str]:
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
    insert_pair(three, "west", a, b, 1)
    for target in (*targets, alone) if alone else targets:
        wait_to_follow(three, target, a, b)
    others = len(targets) + bool(alone) - 1
    for table in (a, b) if others else ():
        wait(lambda table=table: count_siblings(three, targets[0], table) == others, "the siblings to be known")  # type: ignore[misc]
    return a, b


def count_siblings(three: Clusters, cluster: str, link: str) -> int:
    progress = three.servers[cluster][0].links.find_progress(link)
    return len(json.loads(progress.siblings or "[]")) if progress is not None else 0


def wait_to_follow(three: Clusters, cluster: str, *tables: str) -> None:
    for table in tables:
        three.do(cluster, f"SYSTEM WAIT REPLICATION LINK {table} TIMEOUT 30")


def wait_until_rested(three: Clusters, cluster: str, a: str, b: str) -> None:
    """Disables a link, and waits until its group rests."""
    three.do(cluster, f"ALTER REPLICATION LINK {b} DISABLE")
    message = f"SELECT message FROM system.replication_links WHERE name = '{a}' AND direction = 'in'"
    wait(lambda: f"link {b} is disabled" in str(three.sql(cluster, message)), "the group to rest")


def insert_pair(three: Clusters, cluster: str, a: str, b: str, key: int) -> None:
    three.do(cluster, f"INSERT INTO {a} VALUES ({key}, 'x')")
    three.do(cluster, f"INSERT INTO {b} VALUES ({key}, 'x')")


def show_pair(three: Clusters, cluster: str, a: str, b: str) -> list[list[object]]:
    """Keys of both tables, in one statement."""
    arrays = (f"(SELECT arraySort(groupArray(k)) FROM {table})" for table in (a, b))
    try:
        return list(three.sql(cluster, f"SELECT {', '.join(arrays)}")[0])  # type: ignore[arg-type]
    except PandoError as error:
        if error.code != 369:
            raise
        return []


def require_shown(three: Clusters, a: str, b: str, keys: list[list[int]], *clusters: str) -> None:
    for cluster in clusters:
        wait(
            lambda cluster=cluster: show_pair(three, cluster, a, b) == keys,  # type: ignore[misc]
            f"{cluster} to show {keys}, not {show_pair(three, cluster, a, b)} {three.explain()}",
        )


def read_groups(three: Clusters, cluster: str) -> list[object]:
    return [row[0] for row in three.sql(cluster, "SHOW REPLICATION LINK GROUPS")]


def read_own_forks(three: Clusters, cluster: str, *tables: str) -> list[EpochFork | None]:
    """By table the fork that began its present epoch."""
    found: list[EpochFork | None] = []
    for table in tables:
        gate = three.gate(cluster, table)
        found.append(next((fork for fork in Lineage.read(gate).forks if str(fork.by.epoch) == gate.epoch), None))
    return found


def list_takers(three: Clusters, table: str, *clusters: str) -> list[str]:
    return [name for name in three.writable(table) if name in clusters]
