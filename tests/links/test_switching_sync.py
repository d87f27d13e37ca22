"""The synchronous links of a source that is switched over or promoted stay synchronous."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from coordination.nodes.gate_link import LinkMode
from engine.links.switching.following import register_anew
from engine.tables.capabilities.table_links import OutgoingLink
from parts.common.errors import UserError
from tests.links.switched_clusters import Clusters, three_clusters, three_with_a_table
from tests.links.test_links_in_one_process import wait


@pytest.fixture
def three(tmp_path: Path) -> Iterator[Clusters]:
    with three_with_a_table(tmp_path) as found:
        for target in ("east", "north"):
            found.do(target, f"ALTER REPLICATION LINK t_{target} MODE sync")
        _wait_until_sync(found, "west", ["east/t_east", "north/t_north"])
        yield found


def _wait_until_sync(three: Clusters, source: str, links: list[str]) -> None:
    """Waits until these outgoing links of a cluster are synchronous."""
    names = ", ".join(f"'{name}'" for name in links)
    enabled = (
        f"SELECT name FROM system.replication_links WHERE state = 'enabled' AND mode = 'sync' AND name IN ({names})"
    )
    wait(lambda: len(three.sql(source, enabled)) == len(links), "synchronous links")


def test_they_stay_so_when_the_source_is_switched(three: Clusters) -> None:
    refused: list[str] = []

    def insert() -> None:
        refused.append(three.refused("east", "INSERT INTO t VALUES (9, 'shown by no target')"))

    with three.doing_at("east", "promote.after_fork", insert):
        three.do("east", "SYSTEM SWITCH REPLICATION LINK t_east")
    assert refused[0].startswith("285"), "no row is acknowledged before a target shows it"
    _wait_until_sync(three, "east", ["west/t_east", "north/t_north"])
    three.do("east", "INSERT INTO t VALUES (3, 'e')")
    assert three.keys("west") == three.keys("north") == [1, 3]


def test_those_of_siblings_stay_so_when_a_target_is_promoted(three: Clusters) -> None:
    three.part("west")
    three.do("east", "SYSTEM PROMOTE REPLICATION LINK t_east")
    _wait_until_sync(three, "east", ["north/t_north"])
    three.do("east", "INSERT INTO t VALUES (3, 'e')")  # nobody waits for the source that is gone
    assert three.keys("north") == [1, 3]


class _Source:
    """A new source that has a link of this UUID under the name of the one that registers."""

    def __init__(self, known: str) -> None:
        self.known = known
        self.had: list[str] = []

    def register(self, database: str, table: str, link: OutgoingLink) -> None:
        if self.known and self.known != link.uuid:
            raise UserError("BAD_ARGUMENTS", "another link")
        self.known = link.uuid
        self.had.append(self.known)

    def unregister(self, database: str, table: str, name: str, uuid: str) -> None:
        self.known = ""
        self.had.append(self.known)


def test_a_link_that_registers_anew_is_there_all_the_time() -> None:
    """Without it the new source would acknowledge INSERTs alone between two requests of a REJOIN."""
    link = OutgoingLink("north/t", "own", "cluster", "north", mode=LinkMode.SYNC)
    for known, had in (("own", ["own"]), ("", ["own"]), ("former", ["", "own"])):
        source = _Source(known)
        register_anew(source, "default", "t", link)  # type: ignore[arg-type]
        assert source.had == had


@pytest.fixture
def grouped(tmp_path: Path) -> Iterator[Clusters]:
    """Tables ``a`` and ``b`` of west, whose synchronous links at east and north are in the group ``g``."""
    with three_clusters(tmp_path) as found:
        for table in ("a", "b"):
            found.make(table)
            for target in ("east", "north"):
                found.do(
                    target,
                    f"CREATE REPLICATION LINK {table} ON {table} FROM CLUSTER west SETTINGS mode = 'sync', "
                    "replication_timeout = 0.5",
                )
        for target in ("east", "north"):
            found.do(target, "CREATE REPLICATION LINK GROUP g (a, b)")
        _wait_until_sync(found, "west", ["east/a", "east/b", "north/a", "north/b"])
        yield found


def _insert_and_look(three: Clusters, source: str, key: int, *targets: str) -> None:
    """Every acknowledged row is shown at once, in one statement over both tables."""
    shown = "SELECT (SELECT max(k) FROM a), (SELECT max(k) FROM b)"
    three.do(source, f"INSERT INTO a VALUES ({key}, 'x')")
    assert [three.sql(target, shown)[0][0] for target in targets] == [key] * len(targets)
    three.do(source, f"INSERT INTO b VALUES ({key}, 'x')")
    assert [three.sql(target, shown)[0] for target in targets] == [[key, key]] * len(targets)


def test_those_of_a_group_stay_so_when_its_source_is_switched_over(grouped: Clusters) -> None:
    _insert_and_look(grouped, "west", 1, "east", "north")
    grouped.do("east", "SYSTEM SWITCH REPLICATION LINK GROUP g")
    _wait_until_sync(grouped, "east", ["west/a", "west/b", "north/a", "north/b"])
    _insert_and_look(grouped, "east", 2, "west", "north")
    grouped.do("west", "SYSTEM SWITCH REPLICATION LINK GROUP g")
    _wait_until_sync(grouped, "west", ["east/a", "east/b", "north/a", "north/b"])
    _insert_and_look(grouped, "west", 3, "east", "north")


def test_a_promoted_group_has_what_was_acknowledged(grouped: Clusters) -> None:
    _insert_and_look(grouped, "west", 1, "east", "north")
    grouped.part("west")
    grouped.do("east", "SYSTEM PROMOTE REPLICATION LINK GROUP g")
    assert grouped.keys("east", "a") == grouped.keys("east", "b") == [1]
    _wait_until_sync(grouped, "east", ["north/a", "north/b"])
    _insert_and_look(grouped, "east", 2, "north")
