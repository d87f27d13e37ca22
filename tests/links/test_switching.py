"""PROMOTE, SWITCH and REJOIN between real engines of one process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from parts.common.errors import PandoError
from tests.links.linked_servers import LinkedServer, create_table, linked_servers
from tests.links.test_links_in_one_process import wait


class Clusters:
    """The first server of each cluster, with a client."""

    def __init__(self, servers: dict[str, list[LinkedServer]]) -> None:
        self.servers = servers

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

    def part(self, cluster: str, *others: str) -> None:
        """Takes the cluster out of the network: nobody can ask it, and it asks nobody."""
        for name, servers in self.servers.items():
            for server in servers:
                known = {} if name == cluster else {each: self.urls(each) for each in self.servers if each != cluster}
                if name == cluster:
                    known = {each: ["http://127.0.0.1:9"] for each in self.servers}
                else:
                    known[cluster] = ["http://127.0.0.1:9"]
                server.know(**known)

    def join(self) -> None:
        for servers in self.servers.values():
            for server in servers:
                server.know(**{each: self.urls(each) for each in self.servers})

    def urls(self, cluster: str) -> list[str]:
        return [server.url for server in self.servers[cluster]]

    def explain(self) -> object:
        return {
            name: self.sql(name, "SELECT name, direction, upstream_status, message FROM system.replication_links")
            for name in self.servers
        }


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clusters]:
    with linked_servers(tmp_path_factory.mktemp("three"), west=1, east=1, north=1) as servers:
        yield Clusters(servers)


def test_a_planned_switch(three: Clusters) -> None:
    three.make("a")
    three.link("east", "a", "a", "west")
    three.link("north", "an", "a", "west")
    three.do("west", "INSERT INTO a VALUES (1, 'x'), (2, 'y')")
    three.do("east", "SYSTEM WAIT REPLICATION LINK a")
    three.do("north", "SYSTEM WAIT REPLICATION LINK an")
    assert "SWITCH" in three.refused("east", "SYSTEM PROMOTE REPLICATION LINK a")
    three.do("west", "INSERT INTO a VALUES (3, 'z')")
    facts = three.sql("east", "SYSTEM SWITCH REPLICATION LINK a")
    print(facts)
    assert three.keys("east", "a") == [1, 2, 3]
    three.do("east", "INSERT INTO a VALUES (4, 'e')")
    assert "242" in three.refused("west", "INSERT INTO a VALUES (5, 'w')")
    wait(lambda: three.keys("west", "a") == [1, 2, 3, 4], f"west {three.explain()}")
    wait(lambda: three.keys("north", "a") == [1, 2, 3, 4], f"north {three.explain()}")
    three.do("west", "SYSTEM WAIT REPLICATION LINK a")
    three.do("north", "SYSTEM WAIT REPLICATION LINK an")
    three.do("east", "INSERT INTO a VALUES (3, 'z')")  # no repeat of the same block: another table's client
    print(three.sql("west", "SYSTEM SWITCH REPLICATION LINK a"))
    three.do("west", "INSERT INTO a VALUES (6, 'w')")
    wait(lambda: three.keys("east", "a")[-1] == 6, f"east {three.explain()}")
    wait(lambda: three.keys("north", "a")[-1] == 6, f"north {three.explain()}")
    assert three.keys("north", "a") == three.keys("west", "a") == three.keys("east", "a")
    print(three.keys("west", "a"))
