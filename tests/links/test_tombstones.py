"""Tombstones of ``last_writer_wins`` tables go when no older row can come any more, and not before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest

from coordination.inserts.block_numbers import BlockLock, allocate_block_number
from coordination.keeper.interface import Delete
from coordination.keeper.memory_keeper import MemoryEnsemble
from coordination.links.positions import Epoch, Origin, Position
from coordination.links.stream.commit_times import CommitTimes, CommitVersion
from coordination.links.stream.stable_times import (
    Marks,
    OpenMark,
    StableTime,
    encode_marks,
    find_stable_time,
    list_committing,
    raise_marks,
    read_marks,
)
from coordination.links.version_vector import VersionVector
from coordination.log.log_entry import EntryType, LogEntry
from coordination.nodes.paths import TablePaths
from parts.common.errors import CorruptionError
from parts.common.part_name import PartName
from parts.merge.last_writer import find_tombstone_times
from tests.links.linked_servers import LinkedServer, linked_servers
from tests.links.test_last_writer import Cluster, make_cluster
from tests.links.test_links_in_one_process import wait
from tests.portions import one_in

TABLE = TablePaths("/t")
CREATE = (
    "CREATE TABLE t (k UInt64, v UInt64) ENGINE = ReplicatedReplacingMergeTree('/tables/t', '{replica}') ORDER BY k "
    "SETTINGS last_writer_wins = 1, link_tombstone_seconds = 0"
)
RING = ((0, 1), (1, 2), (2, 0))
TWO_WAYS = ((0, 1), (1, 0))
CHAIN = ((0, 1), (1, 0), (1, 2), (2, 1))


@dataclass(frozen=True)
class Row:
    """A version of the one key."""

    time: int
    origin: int
    number: int
    is_tombstone: bool = False

    @property
    def version(self) -> tuple[int, int, int]:
        return self.time, self.origin, self.number


@dataclass
class Member:
    """A cluster: its ZooKeeper is real but for the log's rows, which are kept beside it."""

    number: int
    members: int
    rows: list[Row] = field(default_factory=list)
    shown: Row | None = None
    open: list[tuple[BlockLock, CommitVersion | None, bool]] = field(default_factory=list)
    mark: OpenMark | None = None

    def __post_init__(self) -> None:
        self.ensemble = MemoryEnsemble(lambda: 1.0 + self.number)
        self.keeper = self.ensemble.connect()
        for path in (TABLE.log, TABLE.block_numbers, TABLE.blocks, TABLE.replicas, TABLE.gate):
            self.keeper.create_parents(path)
        self.keeper.set(TABLE.gate, b'{"version":1,"epoch":"3-00c0ffee00c0ffee","bars":[]}')
        self.times = CommitTimes(TABLE)
        origins = [make_origin(other) for other in range(self.members) if other != self.number]
        self.vector = VersionVector()
        for origin in origins:
            self.vector = self.vector.begin_at(Position(origin, 1))

    def begin(self, *, is_tombstone: bool) -> None:
        taken = allocate_block_number(self.keeper, TABLE, "all", owner="r")
        assert isinstance(taken, BlockLock)
        self.open.append((taken, None, is_tombstone))

    def go_on(self, random: Random) -> None:
        """An INSERT or DELETE under way gets its time, or commits."""
        place = random.randrange(len(self.open))
        lock, version, is_tombstone = self.open[place]
        if version is None:
            self.open[place] = lock, self.times.make_version(self.keeper, lock, 0), is_tombstone
            return
        del self.open[place]
        self.add(Row(version.commit_time, self.number, lock.number, is_tombstone), lock)

    def add(self, row: Row, lock: BlockLock | None = None) -> None:
        entry = LogEntry(EntryType.GET_PART, PartName("all", 0, 0, 0), 0.0, "r", commit_time=row.time)
        self.keeper.create(TABLE.log_prefix, entry.to_bytes(), sequential=True)
        if lock is not None:
            self.keeper.multi([Delete(lock.path)])
        self.rows.append(row)
        if self.shown is None or row.version > self.shown.version:
            self.shown = row

    def look(self) -> None:
        """As ``TombstoneMarks`` does, with a merge of everything right behind it."""
        marks = read_marks(self.keeper, TABLE).times
        if self.shown is not None and self.shown.is_tombstone:
            if self.shown.time <= find_stable_time(make_origin(self.number), self.vector, marks):
                self.shown = None
            elif self.mark is None and self.shown.time > marks.get(make_origin(self.number), 0):
                self.mark = OpenMark(self.times.read_largest(self.keeper), list_committing(self.keeper, TABLE))
        if self.mark is not None and self.mark.is_decided(list_committing(self.keeper, TABLE)):
            raise_marks(self.keeper, TABLE, {make_origin(self.number): self.mark.time})
            self.mark = None


def make_origin(number: int) -> Origin:
    return Origin(f"6b1f0c2e-5f5d-4b57-9d0c-0f6f6f1f9a1{number}", 5, Epoch(3, 7))


@dataclass
class Link:
    """One answer of the source, and how much of it the target has applied."""

    source: Member
    target: Member
    place: int = 0
    answer: tuple[int, Mapping[Origin, int]] | None = None

    def step(self) -> None:
        if self.answer is None:
            marks = read_marks(self.source.keeper, TABLE).times
            self.answer = len(self.source.rows), marks
        elif self.place < self.answer[0]:
            row = self.source.rows[self.place]
            self.place += 1
            if row.origin != self.target.number and row not in self.target.rows:
                self.target.add(row)
        else:
            raise_marks(self.target.keeper, TABLE, self.answer[1])
            self.answer = None


def run_history(seed: int, links: tuple[tuple[int, int], ...], writers: tuple[int, ...]) -> tuple[list[object], int]:
    """Returns what each cluster shows in the end, and how many tombstones went before."""
    random = Random(seed)
    members = [Member(number, 3 if links is not TWO_WAYS else 2) for number in range(3 if links is not TWO_WAYS else 2)]
    wires = [Link(members[a], members[b]) for a, b in links]
    left, gone = 6, 0
    for _ in range(random.randrange(40, 120)):
        member = members[random.choice(writers)]
        match random.choice(["write", "go on", "go on", "look", "look", "link", "link", "link", "link"]):
            case "write" if left:
                left -= 1
                member.begin(is_tombstone=random.random() < 0.5)
            case "go on" if member.open:
                member.go_on(random)
            case "look":
                looking = random.choice(members)
                before = looking.shown
                looking.look()
                gone += before is not None and looking.shown is None
            case _:
                random.choice(wires).step()
    for _ in range(150):
        busy = [member for member in members if member.open]
        if busy and random.random() < 0.1:
            random.choice(busy).go_on(random)
        random.choice(wires).step()
        looking = random.choice(members)
        before = looking.shown
        looking.look()
        gone += before is not None and looking.shown is None
    for member in members:
        while member.open:
            member.go_on(random)
    for _ in range(30):
        for wire in wires:
            wire.step()
    return [None if m.shown is None or m.shown.is_tombstone else m.shown for m in members], gone


@pytest.mark.parametrize(
    ("links", "writers"),
    one_in(3, [(TWO_WAYS, (0, 1)), (RING, (0, 2)), (CHAIN, (0, 1, 2))]),
    ids=["two ways", "ring", "chain"],
)
def test_all_clusters_show_the_same_though_tombstones_go(
    links: tuple[tuple[int, int], ...], writers: tuple[int, ...]
) -> None:
    went = 0
    for seed in range(80):
        shown, gone = run_history(seed, links, writers)
        assert len(set(shown)) == 1, f"seed {seed}: {shown}"
        went += gone
    assert went > 20


def test_a_mark_waits_for_numbers_that_were_taken_before() -> None:
    """The INSERT has an older time than the tombstone, and is not committed yet."""
    random, member = Random(1), Member(0, 2)
    own = make_origin(0)
    member.begin(is_tombstone=False)
    member.go_on(random)
    held = member.open.pop()
    member.begin(is_tombstone=True)
    member.go_on(random)
    member.go_on(random)
    for _ in range(3):
        member.look()
        assert own not in read_marks(member.keeper, TABLE).times
    member.open.append(held)
    member.go_on(random)
    member.look()
    assert member.shown is not None
    assert read_marks(member.keeper, TABLE).times == {own: member.shown.time}
    assert member.rows[1].time < member.rows[0].time


def test_a_silent_origin_keeps_tombstones_until_it_is_forgotten() -> None:
    own, other = make_origin(0), make_origin(1)
    vector = VersionVector().begin_at(Position(other, 1))
    assert find_stable_time(own, vector, {own: 50}) == 0
    assert find_stable_time(own, vector, {own: 50, other: 40}) == 40
    assert find_stable_time(own, vector, {own: 50, other: 40, make_origin(2): 7}) == 7
    assert find_stable_time(own, vector.forget(other), {own: 50, other: 40}) == 50


def test_marks_are_read_back_and_never_go_back() -> None:
    member = Member(0, 2)
    own, other = make_origin(0), make_origin(1)
    assert raise_marks(member.keeper, TABLE, {own: 5}).times == {own: 5}
    assert raise_marks(member.keeper, TABLE, {own: 3, other: 9}).times == {own: 5, other: 9}
    before = read_marks(member.keeper, TABLE)
    assert raise_marks(member.keeper, TABLE, {own: 4}) == before
    assert Marks.parse(encode_marks(before.times)).times == before.times
    for content in (b"", b"{}", b'{"version":2,"origins":{}}', b'{"version":1,"origins":{"x":1}}'):
        with pytest.raises(CorruptionError):
            Marks.parse(content)


def test_what_is_stable_may_go_so_many_seconds_later() -> None:
    stable = StableTime()
    for time, now, ripe in ((5, 0.0, 0), (7, 9.0, 0), (7, 10.0, 5), (8, 15.0, 5), (8, 19.0, 5), (9, 20.0, 7)):
        stable.observe(time, now, 10)
        assert stable.ripe == ripe, (time, now)
    stable.observe(20, 21.0, 0)
    assert stable.ripe == 20


# -- on replicas ----------------------------------------------------------------------------------------------------


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with make_cluster(tmp_path) as made:
        made.create(rest=", link_tombstone_seconds = 30")
        yield made


def count_stored(cluster: Cluster) -> list[int]:
    return [sum(part.rows for part in cluster.table(server).store.list_active()) for server in cluster.servers]


def test_tombstones_of_a_table_without_links_go_after_their_seconds(cluster: Cluster) -> None:
    one, two = cluster.servers
    one.sql("INSERT INTO lww VALUES (1, 1), (2, 1), (3, 1)")
    cluster.settle()
    two.sql("DELETE FROM lww WHERE k < 3")
    cluster.rows = {3: 1}
    cluster.check()
    assert count_stored(cluster) == [3, 3]
    (part,) = cluster.table(one).store.list_active()
    assert find_tombstone_times(part)[0] == part.row_version.tombstones
    cluster.table(one).merge_steps.is_enabled = True
    cluster.counted.servers.now += 40
    cluster.counted.work_until(lambda: count_stored(cluster) == [1, 1])
    cluster.table(one).merge_steps.is_enabled = False
    cluster.check()
    hashes = [[part.content_hash for part in cluster.table(server).store.list_active()] for server in cluster.servers]
    assert hashes[0] == hashes[1]
    assert find_tombstone_times(cluster.table(two).store.list_active()[0]) == (0, 0)


def test_a_merge_of_some_parts_keeps_tombstones(cluster: Cluster) -> None:
    """The part that it leaves out may have an older row of the key."""
    one = cluster.servers[0]
    table = cluster.table(one)
    one.sql("INSERT INTO lww VALUES (1, 1)")
    one.sql("INSERT INTO lww VALUES (2, 1)")
    one.sql("DELETE FROM lww WHERE k = 1")
    table.state.stable_time.observe(2**60, 0.0, 0)
    cluster.settle()
    with table.state.hold_write_access() as (keeper, _):
        steps = table.merge_steps
        predicate = steps._predicate(keeper, ["all"])
        names = predicate.current.parts("all")
        assert predicate.stable_time == 2**60
        assert steps._tombstones.find_time(keeper, predicate, names[1:]) == 0
        assert steps._tombstones.find_time(keeper, predicate, names) == 2**60
    cluster.rows = {2: 1}
    cluster.check()
    assert count_stored(cluster) == [1, 1]


@pytest.mark.parametrize("rest", [", conflict_order = 'v'"])
def test_tombstones_stay_where_other_values_decide(tmp_path: Path, rest: str) -> None:
    with make_cluster(tmp_path) as cluster:
        cluster.create(rest=f"{rest}, link_tombstone_seconds = 0")
        one = cluster.servers[0]
        one.sql("INSERT INTO lww VALUES (1, 5)")
        one.sql("DELETE FROM lww WHERE k = 1")
        cluster.table(one).state.stable_time.observe(2**60, 0.0, 0)
        one.sql("OPTIMIZE TABLE lww FINAL")
        assert count_stored(cluster)[0] == 1
        one.sql("INSERT INTO lww VALUES (1, 4)")
        assert cluster.show(one) == {}


# -- between clusters -------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_tombstones_go_in_linked_clusters(tmp_path: Path) -> None:
    with linked_servers(tmp_path, west=1, east=1) as found:
        servers = {name: each[0] for name, each in found.items()}
        for server in servers.values():
            run(server, CREATE)
        for source, target in (("west", "east"), ("east", "west")):
            run(
                servers[target],
                f"CREATE REPLICATION LINK l ON t FROM CLUSTER {source} SETTINGS start_position = 'now', two_way = 1",
            )
        run(servers["west"], "INSERT INTO t VALUES (1, 1), (2, 1)")
        run(servers["east"], "SYSTEM WAIT REPLICATION LINK l TIMEOUT 30")
        run(servers["east"], "DELETE FROM t WHERE k = 1")
        run(servers["west"], "SYSTEM WAIT REPLICATION LINK l TIMEOUT 30")
        run(servers["west"], "OPTIMIZE TABLE t FINAL")
        assert count_rows(servers["west"]) == 2

        def is_done() -> bool:
            for server in servers.values():
                server.table().links.marks.step()  # type: ignore[union-attr]
            run(servers["west"], "OPTIMIZE TABLE t FINAL")
            run(servers["east"], "OPTIMIZE TABLE t FINAL")
            return [count_rows(server) for server in servers.values()] == [1, 1]

        wait(is_done, "the end of the tombstone")
        assert {run(server, "SELECT k, v FROM t FINAL") for server in servers.values()} == {"2\t1\n"}


@pytest.mark.long
def test_the_largest_time_travels_with_a_copy(tmp_path: Path) -> None:
    """What is inserted into the copy is later than every row of the source, also than those that are gone."""
    with linked_servers(tmp_path, west=1, east=1) as found:
        west, east = found["west"][0], found["east"][0]
        for server in (west, east):
            run(server, CREATE)
        run(west, "INSERT INTO t VALUES (1, 1)")
        run(west, "DELETE FROM t WHERE k = 1")
        run(west, "INSERT INTO t VALUES (2, 1)")
        run(west, "OPTIMIZE TABLE t FINAL")
        run(east, "CREATE REPLICATION LINK l ON t FROM CLUSTER west")
        run(east, "SYSTEM WAIT REPLICATION LINK l TIMEOUT 30")
        source, copy = west.table().replication, east.table().replication
        assert source is not None
        assert copy is not None
        times = []
        for replica in (source, copy):
            keeper, paths = replica.require_keeper(), replica.paths
            names = keeper.children(paths.log)
            entries = [LogEntry.parse(keeper.get(f"{paths.log}/{name}")[0]) for name in names]
            times.append(max(entry.commit_time for entry in entries))
        assert times[0] == times[1] > 0


def run(server: LinkedServer, text: str) -> str:
    with server.client() as client:
        return client.execute(text).text


def count_rows(server: LinkedServer) -> int:
    return sum(part.rows for part in server.table().store.list_active())  # type: ignore[attr-defined]
