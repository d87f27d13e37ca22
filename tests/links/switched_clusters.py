"""Clusters of one process, as tests of switching over drive them: statements, partitions, deaths at steps."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from coordination.nodes.gate import Gate
from engine.links.exchange.link_service import Answer
from parts.common.errors import PandoError, UnavailableError
from tests.links.linked_servers import LinkedServer, create_table, linked_servers
from tests.links.test_links_in_one_process import wait

_KEYS = itertools.count(1000)


class Died(Exception):
    """The server died at a step."""


class Clusters:
    """The first server of each cluster, with a client."""

    def __init__(self, servers: dict[str, list[LinkedServer]]) -> None:
        self.servers = servers
        self.parted: set[str] = set()
        for cluster, each in servers.items():
            for server in each:
                self._may_part(cluster, server)

    def sql(self, cluster: str, text: str) -> list[list[object]]:
        with self.servers[cluster][0].client() as client:
            return client.rows(text)

    def do(self, cluster: str, text: str) -> None:
        with self.servers[cluster][0].client() as client:
            client.execute(text)

    def refused(self, cluster: str, text: str) -> str:
        with pytest.raises(PandoError) as error:
            self.do(cluster, text)
        return f"{error.value.code} {error.value}"

    def keys(self, cluster: str, table: str = "t") -> list[object]:
        return [k for (k,) in self.sql(cluster, f"SELECT k FROM {table} ORDER BY k")]

    def make(self, table: str, *clusters: str) -> None:
        for cluster in clusters or self.servers:
            create_table(self.servers[cluster], table)

    def link(self, cluster: str, name: str, table: str, source: str) -> None:
        self.do(cluster, f"CREATE REPLICATION LINK {name} ON {table} FROM CLUSTER {source}")

    def part(self, *clusters: str) -> None:
        """Nobody can ask these clusters any more."""
        self.parted = set(clusters)

    def join(self) -> None:
        self.part()

    def _may_part(self, cluster: str, server: LinkedServer) -> None:
        answers = server.engine.link_answers
        answer = answers.answer

        def answer_unless_parted(*given: Any, **named: Any) -> Answer:
            if cluster in self.parted:
                raise UnavailableError("NETWORK_ERROR", f"{cluster} is not reached")
            return answer(*given, **named)

        answers.answer = answer_unless_parted  # type: ignore[method-assign]

    @contextmanager
    def dying_at(self, cluster: str, failpoint: str) -> Iterator[None]:
        """The cluster's server breaks off the statement at this step, as if it died.

        So does whatever else of it comes there meanwhile: the background tells of forks too.
        """
        services = self.servers[cluster][0].engine.services
        former, passed = services.failpoint, list[str]()

        def die(name: str) -> None:
            if name == failpoint:
                passed.append(name)
                raise Died(name)
            former(name)

        services.failpoint = die
        try:
            yield
        finally:
            services.failpoint = former
        assert passed, f"{failpoint} was never passed"

    @contextmanager
    def doing_at(self, cluster: str, failpoint: str, action: Callable[[], object]) -> Iterator[None]:
        """Something else happens when the cluster's server is at this step for the first time."""
        services = self.servers[cluster][0].engine.services
        former, passed = services.failpoint, list[str]()

        def pass_by(name: str) -> None:
            if name == failpoint and not passed:
                passed.append(name)
                action()
            former(name)

        services.failpoint = pass_by
        try:
            yield
        finally:
            services.failpoint = former
        assert passed, f"{failpoint} was never passed"

    def facts(self, cluster: str, text: str) -> dict[str, list[str]]:
        """The answer of PROMOTE and SWITCH."""
        found: dict[str, list[str]] = {}
        for fact, value in self.sql(cluster, text):
            found.setdefault(str(fact), []).append(str(value))
        return found

    def gate(self, cluster: str, table: str) -> Gate:
        keeper = self.servers[cluster][0].engine.replication.require_keeper()
        return Gate.parse(keeper.get(f"/tables/{table}/links/gate")[0])

    def is_shut(self, cluster: str, table: str) -> bool:
        """Tells whether the table has met a fork."""
        return any(bar.owner == "fork" for bar in self.gate(cluster, table).bars)

    def writable(self, table: str) -> list[str]:
        """The clusters that take an INSERT now."""
        found = []
        for cluster in self.servers:
            with suppress(PandoError):
                self.do(cluster, f"INSERT INTO {table} VALUES ({next(_KEYS)}, '')")
                found.append(cluster)
        return found

    def must_be_equal(self, table: str, *clusters: str) -> list[object]:
        """Until the clusters show the same rows, each once; returns their keys."""
        names = clusters or tuple(self.servers)
        wait(
            lambda: all(self.keys(name, table) == self.keys(names[0], table) for name in names),
            f"equal rows: {[(name, self.keys(name, table)) for name in names]} {self.explain()}",
        )
        keys = self.keys(names[0], table)
        assert len(set(keys)) == len(keys)
        return keys

    def explain(self) -> object:
        columns = "name, direction, upstream_status, mode, state, message"
        return {name: self.sql(name, f"SELECT {columns} FROM system.replication_links") for name in self.servers}


@contextmanager
def three_clusters(path: Path) -> Iterator[Clusters]:
    """Starts ``west``, ``east`` and ``north``, of one server each."""
    with linked_servers(path, {"max_poll_seconds": 0.2}, west=1, east=1, north=1) as servers:
        yield Clusters(servers)


def link_table(clusters: Clusters, table: str, *targets: str) -> None:
    """Makes a table of west with two rows, and links to these clusters under names of their own."""
    clusters.join()
    clusters.make(table)
    for target in targets:
        clusters.link(target, f"{table}_{target}", table, "west")
    clusters.do("west", f"INSERT INTO {table} VALUES (1, 'x'), (2, 'y')")
    wait_for_links(clusters, table, *targets)


def wait_for_links(clusters: Clusters, table: str, *targets: str) -> None:
    """Waits until the links that :func:`link_table` names have brought everything."""
    for target in targets:
        clusters.do(target, f"SYSTEM WAIT REPLICATION LINK {table}_{target} TIMEOUT 30")


@contextmanager
def three_with_a_table(path: Path) -> Iterator[Clusters]:
    """Starts the three clusters; ``east`` and ``north`` follow the table ``t`` of ``west``, which has one row."""
    with three_clusters(path) as clusters:
        clusters.make("t")
        for target in ("east", "north"):
            clusters.link(target, f"t_{target}", "t", "west")
        clusters.do("west", "INSERT INTO t VALUES (1, 'w')")
        wait_for_links(clusters, "t", "east", "north")
        yield clusters
