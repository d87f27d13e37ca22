"""A table that several clusters write takes its commands at one of them: all touch the same rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import permutations
from pathlib import Path

import pytest

from engine.http_client.http_client import HttpClient
from parts.common.errors import PandoError
from tests.links.linked_servers import LinkedServer, create_table, linked_servers

pytestmark = pytest.mark.long
_SECONDS = 30.0
Servers = dict[str, list[LinkedServer]]


def wait(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + _SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.01)


class Table:
    """The table ``t`` of three clusters, of which west takes the commands."""

    def __init__(self, servers: Servers, clients: dict[str, list[HttpClient]], name: str) -> None:
        self.servers, self.clients, self.name = servers, clients, name
        create_table([server for each in servers.values() for server in each], name)

    def run(self, cluster: str, text: str, replica: int = 0) -> None:
        self.clients[cluster][replica].execute(text.replace("{t}", self.name))

    def refused(self, cluster: str, text: str) -> tuple[int, str]:
        with pytest.raises(PandoError) as caught:
            self.run(cluster, text)
        return caught.value.code, caught.value.message

    def link(self, source: str, target: str) -> None:
        self.run(
            target,
            f"CREATE REPLICATION LINK {{t}}_{source} ON {{t}} FROM CLUSTER {source} "
            "SETTINGS two_way = 1, start_position = 'now'",
        )

    def choose(self, *clusters: str) -> None:
        for cluster in clusters:
            self.run(cluster, "ALTER TABLE {t} MODIFY SETTING commands_from = 'west'")

    def rows(self, cluster: str, replica: int = 0) -> list[list[object]]:
        return self.clients[cluster][replica].rows(f"SELECT k, v FROM {self.name} ORDER BY ALL")

    def agree(self, *rows: list[object]) -> None:
        """Until all replicas show these rows."""
        wanted = [list(row) for row in rows]

        def are_there() -> bool:
            return all(self.rows(c, r) == wanted for c, each in self.clients.items() for r in range(len(each)))

        wait(are_there, f"{wanted}, and there is {[self.rows(c) for c in self.clients]}")

    def when_ready(self, text: str) -> None:
        """Runs a command at west as soon as the marks of all clusters are there."""

        def is_taken() -> bool:
            try:
                self.run("west", text)
            except PandoError as error:
                if "waits for the marks of clusters" not in error.message:
                    raise
                return False
            return True

        wait(is_taken, "the marks")


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    with linked_servers(Path(tmp_path_factory.mktemp("clusters")), west=2, east=1, north=1) as found:
        yield found


@pytest.fixture
def make_table(servers: Servers, request: pytest.FixtureRequest) -> Iterator[Callable[[], Table]]:
    clients = {name: [server.client() for server in each] for name, each in servers.items()}
    made: list[Table] = []

    def make() -> Table:
        made.append(Table(servers, clients, f"t{abs(hash(request.node.name)) % 10**9}"))
        return made[-1]

    yield make
    for table in made:
        for cluster in clients:
            for row in clients[cluster][0].rows(
                f"SELECT name FROM system.replication_links WHERE table = '{table.name}' AND direction = 'in'"
            ):
                clients[cluster][0].execute(f"DROP REPLICATION LINK {row[0]}")
    for each in clients.values():
        for client in each:
            client.close()


def mesh(table: Table) -> None:
    for source, target in permutations(("west", "east", "north"), 2):
        table.link(source, target)


def test_commands_touch_rows_of_all_origins(make_table: Callable[[], Table]) -> None:
    table = make_table()
    mesh(table)
    table.choose("west", "east", "north")
    table.run("west", "INSERT INTO {t} VALUES (1, 'w')")
    table.run("west", "INSERT INTO {t} VALUES (2, 'w')", replica=1)
    table.run("east", "INSERT INTO {t} VALUES (1, 'e'), (3, 'e')")
    table.run("north", "INSERT INTO {t} VALUES (1, 'n')")
    rows = [[1, "e"], [1, "n"], [1, "w"], [2, "w"], [3, "e"]]
    table.agree(*rows)
    table.when_ready("ALTER TABLE {t} UPDATE v = upper(v) WHERE k = 1")
    table.agree([1, "E"], [1, "N"], [1, "W"], [2, "w"], [3, "e"])
    table.run("west", "OPTIMIZE TABLE {t} FINAL")
    table.run("east", "OPTIMIZE TABLE {t} FINAL")
    table.run("east", "INSERT INTO {t} VALUES (1, 'new')")
    table.agree([1, "E"], [1, "N"], [1, "W"], [1, "new"], [2, "w"], [3, "e"])
    table.run("west", "DELETE FROM {t} WHERE k = 1 AND v != 'N'")
    table.agree([1, "N"], [2, "w"], [3, "e"])
    table.run("west", "ALTER TABLE {t} DELETE WHERE v = 'e'", replica=1)
    table.agree([1, "N"], [2, "w"])


def test_rows_that_are_older_than_the_setting(make_table: Callable[[], Table]) -> None:
    """Also those of merged parts; and commands wait until every cluster has told its mark."""
    table = make_table()
    table.link("west", "east")
    table.link("east", "west")
    table.run("west", "INSERT INTO {t} VALUES (1, 'w')")
    table.run("east", "INSERT INTO {t} VALUES (2, 'e')")
    wait(lambda: len(table.rows("west")) == len(table.rows("east")) == 2, "the rows")
    table.run("east", "OPTIMIZE TABLE {t} FINAL")
    code, message = table.refused("west", "ALTER TABLE {t} DELETE WHERE 1")
    assert code == 242
    assert "commands_from = '<cluster>'" in message
    table.choose("west")
    code, message = table.refused("west", "ALTER TABLE {t} DELETE WHERE 1")
    assert code == 242
    assert "waits for the marks of clusters east" in message
    table.choose("east")
    code, message = table.refused("east", "ALTER TABLE {t} DELETE WHERE 1")
    assert code == 242
    assert "at cluster 'west' alone" in message
    table.run("east", "INSERT INTO {t} VALUES (3, 'e')")
    wait(lambda: len(table.rows("west")) == 3, "the row")
    told = f"SELECT is_own, commands_from, places_behind > 0 FROM system.link_positions WHERE table = '{table.name}'"
    wait(lambda: sorted(table.clients["west"][0].rows(told)) == [[0, "west", 1], [1, "west", 1]], "the marks")
    table.when_ready("ALTER TABLE {t} UPDATE v = 'x' WHERE k > 1")
    for cluster in ("west", "east"):
        wait(lambda each=cluster: table.rows(each) == [[1, "w"], [2, "x"], [3, "x"]], f"the rows at {cluster}")


def test_partitions_are_dropped(make_table: Callable[[], Table]) -> None:
    """A drop is a command too, and frees the ids of what it drops: a client may send it again."""
    table = make_table()
    mesh(table)
    table.choose("west", "east", "north")
    for cluster in ("west", "east", "north"):
        table.run(cluster, f"INSERT INTO {{t}} VALUES (1, '{cluster}')")
    table.agree([1, "east"], [1, "north"], [1, "west"])
    table.run("north", "OPTIMIZE TABLE {t} FINAL")
    table.when_ready("ALTER TABLE {t} DROP PARTITION tuple()")
    table.agree()
    for cluster in ("east", "west", "west"):
        table.run(cluster, f"INSERT INTO {{t}} VALUES (1, '{cluster}')")
    table.agree([1, "east"], [1, "west"])
    for text in ("ALTER TABLE {t} DETACH PARTITION tuple()", "ALTER TABLE {t} CLEAR COLUMN v IN PARTITION tuple()"):
        code, message = table.refused("west", text)
        assert code in (48, 242), message
    assert table.refused("east", "TRUNCATE TABLE {t}")[0] == 242
    table.run("west", "TRUNCATE TABLE {t}", replica=1)
    table.agree()
    table.run("east", "INSERT INTO {t} VALUES (1, 'east')")
    table.agree([1, "east"])


def test_what_is_refused(make_table: Callable[[], Table]) -> None:
    table = make_table()
    table.link("west", "east")
    table.link("east", "west")
    assert table.refused("west", "ALTER TABLE {t} MODIFY SETTING commands_from = 'nowhere'")[0] == 36
    table.choose("west", "east")
    code, message = table.refused("west", "ALTER TABLE {t} MODIFY SETTING commands_from = 'east'")
    assert code == 36
    assert "Commands that are on their way" in message
    code, message = table.refused("west", "ALTER TABLE {t} MATERIALIZE COLUMN v")
    assert code in (36, 48), message
    for text in ("ALTER TABLE {t} ADD COLUMN _origin String", "ALTER TABLE {t} RENAME COLUMN v TO _origin_position"):
        assert table.refused("west", text)[0] == 44


def test_each_source_commands_its_own_rows(make_table: Callable[[], Table]) -> None:
    """In a table that collects rows, with what was merged and with a copy of a source's rows."""
    table = make_table()
    table.run("west", "INSERT INTO {t} VALUES (0, 'w')")
    table.run("west", "INSERT INTO {t} VALUES (5, 'w')")
    table.run("west", "OPTIMIZE TABLE {t} FINAL")
    table.run("north", "ALTER TABLE {t} MODIFY SETTING commands_from = '*'")

    def shows(*rows: list[object]) -> None:
        wait(lambda: table.rows("north") == list(rows), f"{rows}, and there is {table.rows('north')}")

    for source in ("west", "east"):  # the first one is copied
        table.run(
            "north",
            f"CREATE REPLICATION LINK {{t}}_{source} ON {{t}} FROM CLUSTER {source} SETTINGS preserve_timestamps = 0"
            + (", start_position = 'now'" if source == "east" else ""),
        )
        shows([0, "w"], [5, "w"])
    for cluster in ("west", "east"):
        table.run(cluster, f"INSERT INTO {{t}} VALUES (1, '{cluster[0]}'), (2, '{cluster[0]}')")
    table.run("north", "INSERT INTO {t} VALUES (1, 'n')")
    shows([0, "w"], [1, "e"], [1, "n"], [1, "w"], [2, "e"], [2, "w"], [5, "w"])
    table.run("west", "ALTER TABLE {t} DELETE WHERE k IN (0, 1)")
    shows([1, "e"], [1, "n"], [2, "e"], [2, "w"], [5, "w"])
    table.run("north", "OPTIMIZE TABLE {t} FINAL")
    table.run("east", "ALTER TABLE {t} UPDATE v = 'E' WHERE k < 9")
    shows([1, "E"], [1, "n"], [2, "E"], [2, "w"], [5, "w"])
    table.run("east", "TRUNCATE TABLE {t}")
    table.run("east", "INSERT INTO {t} VALUES (1, 'e')")
    shows([1, "e"], [1, "n"], [2, "w"], [5, "w"])
    table.run("west", "ALTER TABLE {t} DROP PARTITION tuple()")
    shows([1, "e"], [1, "n"])


def test_a_collecting_table_must_know_every_row(make_table: Callable[[], Table]) -> None:
    table = make_table()
    table.run("north", "INSERT INTO {t} VALUES (1, 'n')")
    code, message = table.refused("north", "ALTER TABLE {t} MODIFY SETTING commands_from = '*'")
    assert code == 36
    assert "before the first link and the first row" in message
    table.link("north", "east")
    table.link("east", "north")
    code, message = table.refused("east", "ALTER TABLE {t} MODIFY SETTING commands_from = '*'")
    assert code == 36
    assert "name the cluster that takes commands" in message


def test_alters_of_the_commanding_cluster_are_carried(make_table: Callable[[], Table]) -> None:
    """Those of the other one are not, though both links carry ALTERs."""
    table = make_table()
    for source, target in (("west", "east"), ("east", "west")):
        table.link(source, target)
        table.run(target, f"ALTER REPLICATION LINK {{t}}_{source} MODIFY SETTING replicate_ddl = 1")
    table.choose("west", "east")
    table.run("west", "ALTER TABLE {t} ADD COLUMN w UInt8 DEFAULT 3")
    table.run("west", "INSERT INTO {t} VALUES (1, 'w', 1)")

    def select(cluster: str, columns: str) -> list[list[object]]:
        try:
            return table.clients[cluster][0].rows(f"SELECT {columns} FROM {table.name} ORDER BY k")
        except PandoError:
            return []

    wait(lambda: select("east", "k, w") == [[1, 1]], "the column at east")
    table.run("east", "ALTER TABLE {t} ADD COLUMN e UInt8")
    table.run("east", "INSERT INTO {t} (k, w) VALUES (2, 2)")

    def message() -> str:
        query = f"SELECT message FROM system.replication_links WHERE name = '{table.name}_east'"
        return str(table.clients["west"][0].value(query))

    wait(lambda: "e is missing" in message() or "column e" in message().lower(), "the pause")
    assert select("west", "k, w") == [[1, 1]]
    table.run("west", "ALTER TABLE {t} ADD COLUMN e UInt8")
    wait(lambda: select("west", "k, w, e") == [[1, 1, 0], [2, 2, 0]], "the row of east")
    table.when_ready("ALTER TABLE {t} UPDATE e = 7 WHERE 1")
    for cluster in ("west", "east"):
        wait(lambda each=cluster: select(each, "k, w, e") == [[1, 1, 7], [2, 2, 7]], f"the rows at {cluster}")


def test_alters_of_nobody_are_carried_without_a_commanding_cluster(make_table: Callable[[], Table]) -> None:
    table = make_table()
    table.link("west", "east")
    table.link("east", "west")
    table.run("east", "ALTER REPLICATION LINK {t}_west MODIFY SETTING replicate_ddl = 1")
    table.run("west", "ALTER TABLE {t} ADD COLUMN w UInt8")
    query = f"SELECT message FROM system.replication_links WHERE name = '{table.name}_west'"
    wait(lambda: "whose ALTERs are carried out" in str(table.clients["east"][0].value(query)), "the pause")
    table.choose("west", "east")
    names = f"SELECT count() FROM system.columns WHERE table = '{table.name}' AND name = 'w'"
    wait(lambda: table.clients["east"][0].value(names) == 1, "the column at east")


def test_what_brings_rows_otherwise_has_places_too(make_table: Callable[[], Table]) -> None:
    """A transaction, an attached partition with merged rows of several origins, and a copy of all of it."""
    table = make_table()
    table.link("west", "east")
    table.link("east", "west")
    table.choose("west", "east")
    table.run("east", "INSERT INTO {t} VALUES (1, 'e')")
    table.run("west", "INSERT INTO {t} VALUES (2, 'w')")
    for cluster in ("west", "east"):
        wait(lambda each=cluster: table.rows(each) == [[1, "e"], [2, "w"]], f"the rows at {cluster}")
    table.run("west", "OPTIMIZE TABLE {t} FINAL")
    table.run("east", "INSERT INTO {t} SETTINGS insert_transaction = 'x' VALUES (3, 'x'), (4, 'x')")
    table.run("east", "COMMIT TRANSACTION 'x' ON {t}")
    table.run(
        "east", "CREATE TABLE {t}_u (k UInt64, v String) ENGINE = ReplicatedMergeTree('/{t}_u', '{replica}') ORDER BY k"
    )
    table.run("east", "OPTIMIZE TABLE {t} FINAL")
    table.run("east", "ALTER TABLE {t}_u ATTACH PARTITION tuple() FROM {t}")
    table.run("east", "ALTER TABLE {t} ATTACH PARTITION tuple() FROM {t}_u")
    expected = sorted(2 * [[1, "e"], [2, "w"], [3, "x"], [4, "x"]])
    for cluster in ("west", "east"):
        wait(lambda each=cluster: table.rows(each) == expected, f"the rows at {cluster}")
    table.run("east", "OPTIMIZE TABLE {t} FINAL")
    table.when_ready("ALTER TABLE {t} UPDATE v = 'y' WHERE k IN (1, 3)")
    expected = sorted(2 * [[1, "y"], [2, "w"], [3, "y"], [4, "x"]])
    for cluster in ("west", "east"):
        wait(lambda each=cluster: table.rows(each) == expected, f"the rows at {cluster}")
    table.run("north", "CREATE REPLICATION LINK {t}_west ON {t} FROM CLUSTER west SETTINGS two_way = 1")
    wait(lambda: table.rows("north") == expected, "the copy")
    assert "waits for the marks of clusters north" in table.refused("west", "ALTER TABLE {t} DELETE WHERE k = 1")[1]
    table.run(
        "west",
        "CREATE REPLICATION LINK {t}_north ON {t} FROM CLUSTER north SETTINGS two_way = 1, start_position = 'now'",
    )
    table.choose("north")
    table.run("north", "INSERT INTO {t} VALUES (1, 'n')")
    table.agree([1, "n"], *expected)
    table.when_ready("ALTER TABLE {t} DELETE WHERE k < 3")
    table.agree([3, "y"], [3, "y"], [4, "x"], [4, "x"])
