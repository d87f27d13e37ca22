"""Who follows which fork, and from where, between real engines of one process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from coordination.links.positions import Origin, Position
from coordination.links.version_vector import VersionVector
from engine.tables.replicated.links.switching.replica_switching import ReplicaSwitching
from tests.links.switched_clusters import Clusters, link_table, three_clusters
from tests.links.test_links_in_one_process import wait
from tests.portions import one_in


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clusters]:
    with three_clusters(tmp_path_factory.mktemp("three")) as found:
        yield found


def test_two_forks_of_one_epoch_refuse_each_other(three: Clusters) -> None:
    link_table(three, "l", "east")
    three.part("west")
    three.do("west", "INSERT INTO l VALUES (3, 'w')")
    three.do("east", "SYSTEM PROMOTE REPLICATION LINK l_east")
    three.do("east", "INSERT INTO l VALUES (4, 'e')")
    three.join()
    wait(lambda: three.is_shut("west", "l"), "west to hear of the fork")
    three.do("west", "SYSTEM PROMOTE REPLICATION LINK l_east FORCE")
    three.do("west", "INSERT INTO l VALUES (5, 'w')")
    assert three.keys("west", "l") == [1, 2, 3, 5]
    assert three.keys("east", "l") == [1, 2, 4]
    tail = three.sql("west", "SYSTEM REJOIN REPLICATION LINK l_east FROM CLUSTER east DETACH TAIL")
    assert sum(int(row[3]) for row in tail) == 2
    wait(lambda: three.keys("west", "l") == [1, 2, 4], f"west rejoins {three.explain()}")


@pytest.mark.parametrize("rows", one_in(2, [0, 1]))
def test_a_follower_of_one_of_two_forks_goes_on(three: Clusters, rows: int) -> None:
    """West and east were both promoted by force, and east rejoins west. North had followed east."""
    table = f"r{rows}"
    link_table(three, table, "east", "north")
    three.part("west")
    three.do("east", f"SYSTEM PROMOTE REPLICATION LINK {table}_east")
    if rows:
        three.do("east", f"INSERT INTO {table} VALUES (3, 'e')")
    wait(lambda: _follows(three, table, "east"), f"north to follow east {three.explain()}")
    wait(lambda: three.keys("north", table) == three.keys("east", table), "the row of east")
    three.join()
    wait(lambda: three.is_shut("west", table), "west to hear of the fork")
    three.do("west", f"SYSTEM PROMOTE REPLICATION LINK {table}_east FORCE")
    three.do("west", f"INSERT INTO {table} VALUES (4, 'w')")
    three.do("east", f"SYSTEM REJOIN REPLICATION LINK {table}_east FROM CLUSTER west DETACH TAIL")
    if rows:  # its row is nowhere else, so nobody takes it out but a person
        message = f"SELECT message FROM system.replication_links WHERE name = '{table}_north'"
        wait(lambda: "has 1 rows" in str(three.sql("north", message)), f"north to be refused {three.explain()}")
        assert "another fork of the same epoch" in str(three.sql("north", message))
        assert three.keys("north", table) == [1, 2, 3]
        rejoin = f"SYSTEM REJOIN REPLICATION LINK {table}_north FROM CLUSTER west"
        (shown,) = three.sql("north", rejoin)
        assert (shown[0], shown[3]) == ("blocks", 1)
        three.do("north", f"{rejoin} DETACH TAIL")
    wait(lambda: three.must_be_equal(table) == [1, 2, 4], f"north to follow west {three.explain()}")
    assert _follows(three, table, "west")
    assert three.writable(table) == ["west"]


def test_a_tail_that_was_taken_out_stays_out(three: Clusters) -> None:
    """Nor does it come back out of the journal of a table that becomes the source again."""
    link_table(three, "s", "east", "north")
    three.do("north", "ALTER REPLICATION LINK s_north DISABLE")
    three.do("east", "SYSTEM SWITCH REPLICATION LINK s_east")
    three.do("east", "INSERT INTO s VALUES (3, 'tail')")
    wait(lambda: three.keys("west", "s") == [1, 2, 3], f"west follows {three.explain()}")
    three.do("north", "SYSTEM PROMOTE REPLICATION LINK s_north FORCE")
    three.do("north", "INSERT INTO s VALUES (4, 'n')")
    for cluster, name in (("east", "s_north"), ("west", "s_east")):
        tail = three.sql(cluster, f"SYSTEM REJOIN REPLICATION LINK {name} FROM CLUSTER north DETACH TAIL")
        assert [(row[0], row[3]) for row in tail] == [("block", 1)]
        wait(lambda cluster=cluster: three.keys(cluster, "s") == [1, 2, 4], f"the copy {three.explain()}")  # type: ignore[misc]
    three.do("north", "INSERT INTO s VALUES (5, 'n')")
    wait(lambda: three.must_be_equal("s") == [1, 2, 4, 5], f"all follow north {three.explain()}")
    three.do("west", "SYSTEM SWITCH REPLICATION LINK s_east")
    three.do("west", "INSERT INTO s VALUES (6, 'w')")
    wait(lambda: three.must_be_equal("s") == [1, 2, 4, 5, 6], f"all follow west {three.explain()}")


@pytest.mark.long
def test_a_move_without_changes_is_not_behind_the_fork(three: Clusters) -> None:
    """A merge of the old source is a place in its stream, too. Some of its followers were told of it."""
    link_table(three, "v", "east", "north")
    three.do("west", "INSERT INTO v VALUES (3, 'z')")
    position = "SELECT position FROM system.link_positions WHERE table = 'v' AND NOT is_own"
    three.do("east", "SYSTEM WAIT REPLICATION LINK v_east TIMEOUT 30")
    before = three.sql("east", position)
    moved: list[object] = []

    def wait_for_move() -> None:
        three.do("west", "OPTIMIZE TABLE v FINAL")
        wait(lambda: three.sql("east", position) != before, f"the move {three.explain()}")
        moved.extend(three.sql("east", position))

    with three.doing_at("north", "promote.after_close", wait_for_move):
        three.do("north", "SYSTEM SWITCH REPLICATION LINK v_north")
    assert moved not in (before, three.sql("north", position))
    three.do("north", "INSERT INTO v VALUES (4, 'n')")
    wait(lambda: three.must_be_equal("v") == [1, 2, 3, 4], f"all follow north {three.explain()}")
    origin = before[0][0].rpartition(":")[0]  # type: ignore[union-attr]
    ends = [three.sql(cluster, f"{position} AND origin = '{origin}'") for cluster in ("east", "north")]
    assert ends[0] == ends[1]


@pytest.mark.parametrize("auto_bootstrap", one_in(2, [0, 1]))
def test_what_the_new_source_does_not_keep_is_copied(
    three: Clusters, monkeypatch: pytest.MonkeyPatch, auto_bootstrap: int
) -> None:
    """A link that was made with ``start_position = 'now'`` does not begin there again."""
    three.join()
    table = f"u{auto_bootstrap}"
    three.make(table)
    for target in ("east", "north"):
        link = f"CREATE REPLICATION LINK {table}_{target} ON {table} FROM CLUSTER west SETTINGS start_position = 'now'"
        three.do(target, f"{link}, auto_bootstrap = {auto_bootstrap}")
    three.do("west", f"INSERT INTO {table} VALUES (1, 'x')")
    three.do("north", f"SYSTEM WAIT REPLICATION LINK {table}_north TIMEOUT 30")
    three.do("north", f"ALTER REPLICATION LINK {table}_north DISABLE")
    three.do("west", f"INSERT INTO {table} VALUES (2, 'north lacks it')")
    three.do("east", f"SYSTEM SWITCH REPLICATION LINK {table}_east")
    find_place = ReplicaSwitching.find_place

    def find_none(self: ReplicaSwitching, vector: VersionVector, follower: Origin | None = None) -> Position | None:
        return None if follower is not None else find_place(self, vector, follower)

    monkeypatch.setattr(ReplicaSwitching, "find_place", find_none)
    three.do("north", f"ALTER REPLICATION LINK {table}_north ENABLE")
    message = f"SELECT message FROM system.replication_links WHERE name = '{table}_north'"
    if not auto_bootstrap:
        wait(lambda: "SYSTEM BOOTSTRAP" in str(three.sql("north", message)), f"the message {three.explain()}")
        three.do("north", f"SYSTEM BOOTSTRAP REPLICATION LINK {table}_north")
    three.do("east", f"INSERT INTO {table} VALUES (3, 'e')")
    wait(lambda: three.must_be_equal(table) == [1, 2, 3], f"the copy {three.explain()}")


def test_a_sibling_that_missed_two_switches_follows_the_last(three: Clusters) -> None:
    """It does not become the target of a target."""
    link_table(three, "y", "east", "north")
    three.do("north", "ALTER REPLICATION LINK y_north DISABLE")
    three.do("east", "SYSTEM SWITCH REPLICATION LINK y_east")
    three.do("west", "SYSTEM SWITCH REPLICATION LINK y_east")
    three.do("west", "INSERT INTO y VALUES (3, 'w')")
    three.do("north", "ALTER REPLICATION LINK y_north ENABLE")
    wait(lambda: three.must_be_equal("y") == [1, 2, 3], f"north follows {three.explain()}")
    assert _follows(three, "y", "west")


def test_a_link_that_began_at_an_empty_table_has_nothing_of_it(three: Clusters) -> None:
    """Else it could follow no fork whose source has not read so far."""
    three.join()
    three.make("aa")
    three.link("east", "aa_east", "aa", "west")
    assert _last_changes(three, "east", "aa") == [0]
    three.do("west", "INSERT INTO aa VALUES (1, 'x')")
    three.do("east", "SYSTEM WAIT REPLICATION LINK aa_east TIMEOUT 30")
    assert _last_changes(three, "east", "aa") != [0]
    three.do("north", "CREATE REPLICATION LINK aa_north ON aa FROM CLUSTER west SETTINGS start_position = 'now'")
    assert _last_changes(three, "north", "aa") != [0]  # what came before may have been copied by hand


def _last_changes(three: Clusters, cluster: str, table: str) -> list[int]:
    keeper = three.servers[cluster][0].engine.replication.require_keeper()
    vector = VersionVector.parse(keeper.get(f"/tables/{table}/links/vector")[0])
    return [vector.last_change(origin) for origin in vector.entries]


def _follows(three: Clusters, table: str, source: str) -> bool:
    shown = f"SELECT peer FROM system.replication_links WHERE name = '{table}_north' AND direction = 'in'"
    return three.sql("north", shown) == [[source]]
