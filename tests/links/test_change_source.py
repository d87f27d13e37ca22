"""What a source's replica gives to a link: every change once, in order, up to a place at which nothing is undecided."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from coordination.inserts.block_numbers import BlockLock, LockKind, allocate_block_number, release_block_number
from coordination.keeper.interface import Create, Delete
from coordination.links.positions import Position
from coordination.links.stream.change import Change
from coordination.links.stream.stream_index import StreamIndex
from coordination.log.log_entry import EntryType, LogEntry
from coordination.merges_mutations.mutation_set import MutationEntry
from coordination.nodes.part_record import PartRecord
from coordination.nodes.table_lists import create_lists
from engine.simulator.simulated_servers import SimulatedServer
from engine.tables.replicated.links.source import stream_reading
from engine.tables.replicated.links.source.change_keeping import SCAN_BYTES
from parts.common.errors import ConflictError, UnavailableError, UnknownOutcomeError, UserError
from parts.common.part_name import PartName
from parts.read.part_reader import open_part
from tests.links.linked_source import Asker, linked_table, restart
from tests.portions import one_in

INSERT = "INSERT INTO costs (p, k, v) VALUES ({}, {}, 0)"


@pytest.fixture
def asker(tmp_path: Path) -> Iterator[Asker]:
    with linked_table(tmp_path) as asker:
        asker.table.first.sql(INSERT.format(1, 0))
        asker.table.settle()
        yield asker


def test_changes_of_every_kind_come_once_and_in_order(asker: Asker) -> None:
    asker.begin()
    first, second = asker.table.servers.servers
    first.sql(INSERT.format(1, 1))
    second.sql(INSERT.format(2, 2))
    first.sql("ALTER TABLE costs UPDATE v = 1 WHERE k = 1 SETTINGS mutations_sync = 0")
    first.sql("ALTER TABLE costs ADD COLUMN w UInt8")
    first.sql("INSERT INTO costs VALUES (1, 3, 0, 0)")
    asker.table.settle()
    first.sql("ALTER TABLE costs DROP PARTITION 2")
    changes = asker.take_all()
    kinds = [
        "block" if c.blocks else "mutation" if c.mutations else "definition" if c.definitions else "drop"
        for c in changes
    ]
    assert kinds == ["block", "block", "mutation", "definition", "block", "drop"]
    assert [c.place for c in changes] == sorted(c.place for c in changes)
    previous = [c.previous for c in changes]
    assert previous[1:] == [c.position.zxid for c in changes[:-1]]
    assert asker.take(1).changes == ()


def test_a_question_waits_for_something_new(asker: Asker) -> None:
    asker.begin()
    servers = asker.table.servers
    started = servers.now
    assert asker.ask(wait=5.0).cuts == ()
    assert servers.now >= started + 5.0

    def insert_once() -> None:
        servers.on_wait = servers.step_others
        servers.servers[1].sql(INSERT.format(1, 5))

    servers.on_wait = insert_once
    started = servers.now
    assert len(asker.ask(wait=500.0).changes) == 1
    assert servers.now < started + 10


def test_a_target_that_is_far_behind_reads_page_by_page(asker: Asker) -> None:
    asker.begin()
    for key in range(1, 31):
        asker.table.servers.servers[key % 2].sql(INSERT.format(key % 3, key))
    asker.table.settle()
    answer = asker.ask(max_rows=7)
    assert (len(answer.changes), answer.rows_behind) == (7, 30)
    assert answer.cuts == tuple(change.place for change in answer.changes)
    assert answer.frontier > answer.cuts[-1]
    asker.take_all(max_rows=7)
    assert len(asker.changes) == 30
    asker.changes.clear()
    fresh = Asker(asker.table, asker.link, asker.vector)
    assert fresh.ask(1).changes == ()


@pytest.mark.parametrize("number", [0, 1])
def test_an_index_is_made_again_after_a_restart(asker: Asker, number: int) -> None:
    asker.begin()
    start = asker.vector
    for key in range(1, 11):
        asker.table.first.sql(INSERT.format(key % 3, key))
    asker.table.settle()
    asker.take_all(number, max_rows=4)
    server = asker.table.servers.servers[number]
    server.stop()
    restart(asker, server)
    asker.table.settle()
    again = Asker(asker.table, asker.link, start)
    assert again.take_all(number, max_rows=4) == asker.changes


def test_a_command_waits_for_a_lower_block_and_a_block_does_not(asker: Asker) -> None:
    """An INSERT holds number 1 of partition 1 while others commit."""
    asker.begin()
    first, second = asker.table.servers.servers
    paths = asker.table.table.replication.paths
    keeper = asker.table.servers.ensemble.connect()
    lock = allocate_block_number(keeper, paths, "1", owner="r9", kind=LockKind.BLOCK)
    assert isinstance(lock, BlockLock)
    first.sql(INSERT.format(1, 5))
    assert [str(b.part) for c in asker.take().changes for b in c.blocks] == ["1_2_2_0"]
    command = allocate_block_number(keeper, paths, "1", owner="r9", kind=LockKind.COMMAND)
    assert isinstance(command, BlockLock)
    second.sql(INSERT.format(1, 6))
    second.sql(INSERT.format(2, 7))
    answer = asker.ask()
    assert answer.changes == ()
    assert answer.waits == ("block number 3 of partition 1 is not decided",)
    release_block_number(keeper, command)
    assert [str(b.part) for c in asker.take(1).changes for b in c.blocks] == ["1_4_4_0", "2_0_0_0"]
    release_block_number(keeper, lock)


def test_where_the_order_of_blocks_counts_a_block_waits_too(tmp_path: Path) -> None:
    with linked_table(tmp_path, engine="ReplicatedReplacingMergeTree") as asker:
        asker.table.first.sql(INSERT.format(1, 0))
        asker.begin()
        keeper = asker.table.servers.ensemble.connect()
        lock = allocate_block_number(keeper, asker.table.table.replication.paths, "1", owner="r9", kind=LockKind.BLOCK)
        assert isinstance(lock, BlockLock)
        asker.table.first.sql(INSERT.format(1, 5))
        assert asker.ask().changes == ()
        release_block_number(keeper, lock)
        assert len(asker.ask().changes) == 1


def test_a_mutation_takes_back_the_numbers_of_inserts_that_last(asker: Asker) -> None:
    """Between the INSERT's number and its commit another replica mutates: the INSERT takes a number above it."""
    asker.begin()
    first, second = asker.table.servers.servers
    left = [1]

    def on_request(node: object, kind: str, path: str) -> None:
        if node is second and kind == "multi" and path == asker.table.table.replication.paths.log_prefix and left[0]:
            left[0] = 0
            first.sql("ALTER TABLE costs UPDATE v = 7 WHERE 1 SETTINGS mutations_sync = 0")

    asker.table.servers.on_request = on_request
    second.sql(INSERT.format(1, 5))
    asker.table.servers.on_request = lambda node, kind, path: None
    asker.table.settle()
    mutation, block = asker.take_all()
    assert mutation.mutations[0].numbers == (("1", 2),)
    assert block.blocks[0].number == 3
    assert asker.cuts[:2] == [mutation.place, block.place]


def test_a_place_between_a_command_and_its_block_is_refused(asker: Asker) -> None:
    """A drop that committed before a lower block of another session: no batch ends between them."""
    asker.begin()
    first = asker.table.first
    paths, keeper = asker.table.table.replication.paths, asker.table.servers.ensemble.connect()
    lower = allocate_block_number(keeper, paths, "1", owner="r9", kind=LockKind.BLOCK)
    assert isinstance(lower, BlockLock)
    number = lower.number
    mutation = MutationEntry("", 1.0, "r1", "x", {"1": number + 1})
    keeper.multi([Create(paths.mutation_prefix, mutation.to_bytes(), sequential=True)])
    entry = LogEntry(EntryType.GET_PART, PartName("1", number, number, 0), 1.0, "r9", rows=1, size_bytes=9)
    keeper.multi([Create(paths.log_prefix, entry.to_bytes(), sequential=True), Delete(lower.path)])
    answer = asker.ask()
    (place,) = answer.cuts[:1]
    assert [change.place for change in answer.changes][-1] == place
    wrong = Asker(asker.table, asker.link, asker.vector.advance(Position(answer.source.origin, place - 1)))
    with pytest.raises(UserError, match="no batch ends there"):
        wrong.ask()
    assert first is asker.table.first


def test_a_block_that_is_nowhere_is_sent_as_lost_if_its_loss_was_recorded(asker: Asker) -> None:
    asker.begin()
    asker.table.first.sql(INSERT.format(1, 5))
    asker.table.settle()
    (change,) = asker.ask().changes
    part = change.blocks[0].part
    for server in asker.table.servers.servers:
        table = asker.table.of(server)
        table.links.blocks.outbox.remove()
        table.store.detach(part, "test")
    assert not asker.ask().changes[0].blocks[0].is_lost
    keeper, paths = asker.table.servers.ensemble.connect(), asker.table.table.replication.paths
    create_lists(keeper, paths, paths.lost_blocks)
    keeper.create(paths.lost_block(str(part)))
    for number in (0, 1):
        keeper.delete(paths.replica(f"r{number + 1}").part(str(part)))
    (block,) = asker.ask().changes[0].blocks
    assert (block.is_lost, block.rows) == (True, 1)


def test_a_block_whose_rows_a_replica_lists_is_not_lost(asker: Asker) -> None:
    """A merged part was given up, and one of its sources is on a replica that is away: the table will show its rows."""
    asker.begin()
    for key in (5, 6):
        asker.table.first.sql(INSERT.format(1, key))
    asker.table.settle()
    parts = [change.blocks[0].part for change in asker.ask().changes]
    for server in asker.table.servers.servers:
        table = asker.table.of(server)
        table.links.blocks.outbox.remove()
        for part in parts:
            table.store.detach(part, "test")
    asker.table.servers.servers[1].crash()
    asker.table.servers.end_zombies()
    keeper, paths = asker.table.servers.ensemble.connect(), asker.table.table.replication.paths
    create_lists(keeper, paths, paths.lost_blocks)
    keeper.create(paths.lost_block("1_1_2_1"))
    keeper.delete(paths.replica("r1").part(str(parts[0])))
    keeper.delete(paths.replica("r1").part(str(parts[1])))
    keeper.delete(paths.replica("r2").part(str(parts[1])))
    assert [change.blocks[0].is_lost for change in asker.ask().changes] == [False, True]
    keeper.create(paths.replica("r1").part("1_0_3_2"), PartRecord("", 1, 1).to_bytes())
    assert [change.blocks[0].is_lost for change in asker.ask().changes] == [False, False]
    keeper.create(paths.lost_block(str(parts[1])))  # a block that was given up itself is in no merged part
    assert [change.blocks[0].is_lost for change in asker.ask().changes] == [False, True]


@pytest.mark.parametrize("seed", one_in(12, range(12)))
def test_what_comes_gives_the_rows_of_the_source(asker: Asker, seed: int) -> None:
    """Random statements on two replicas, which interrupt each other; random pages of random replicas."""
    random = Random(seed)
    begun = asker.begin()
    start = dict.fromkeys(read_keys(asker), ("1", 0))
    world = RandomStatements(asker, random)
    taken = ModelTarget(start)
    asker.source(1)._reading.scan_bytes = 1000 if seed % 2 else SCAN_BYTES
    for _ in range(25):
        world.run()
        if random.random() < 0.3:
            taken.take(asker, random, world.blocks)
    asker.table.servers.on_request = lambda node, kind, path: None
    asker.table.settle()
    asker.table.work_until(lambda: all(m.is_done for m in asker.table.table.mutations.shown()))
    while taken.take(asker, random, world.blocks):
        pass
    assert sorted(taken.rows) == sorted(read_keys(asker))
    assert asker.applied(begun.origin) >= begun.newest
    whole, by_pages = (index_anew(asker, scan_bytes) for scan_bytes in (1 << 30, 1000))
    assert len(whole) > 10
    assert vars(whole) == vars(by_pages)


def index_anew(asker: Asker, scan_bytes: int) -> StreamIndex:
    """Returns the index of the first replica's journal, which is read anew."""
    reading = asker.source()._reading
    reading._index, reading.scan_bytes = None, scan_bytes
    assert asker.ask().changes == ()
    index = reading._index
    assert index is not None
    return index


def test_a_long_journal_that_has_a_failed_quorum_is_read_by_pages(asker: Asker) -> None:
    """The quorum fails pages behind its block."""
    asker.begin()
    keeper, paths = asker.table.servers.ensemble.connect(), asker.table.table.replication.paths
    for key in range(1, 12):
        asker.table.first.sql(INSERT.format(1, key))
    asker.table.settle()
    keeper.create(paths.quorum_failed_part("1_2_2_0"), b"r9")
    with asker.table.first.acting(), asker.table.table.state.hold_write_access() as (acting, _):
        asker.table.table.links.keeping.read_failures(acting)
    keeper.delete(paths.quorum_failed_part("1_2_2_0"))
    asker.source()._reading.scan_bytes = 1000
    assert "1_2_2_0" not in [str(block.part) for change in asker.take_all() for block in change.blocks]
    assert len(asker.changes) == 10


def test_a_page_has_no_more_changes_than_a_batch(asker: Asker, monkeypatch: pytest.MonkeyPatch) -> None:
    """However small they are: what a target does not take is read and sent again."""
    asker.begin()
    for key in range(1, 11):
        asker.table.first.sql(INSERT.format(1, key))
    monkeypatch.setattr(stream_reading, "MAX_PAGE_CHANGES", 4)
    assert [len(asker.take().changes) for _ in range(4)] == [4, 4, 2, 0]


def read_keys(asker: Asker) -> list[int]:
    return [row[0] for row in asker.table.first.sql("SELECT k FROM costs")[1]]  # type: ignore[misc]


class RandomStatements:
    """Statements on both servers; each may be interrupted once by another, at any request."""

    def __init__(self, asker: Asker, random: Random) -> None:
        self.asker, self.random = asker, random
        self.key = 100
        self.blocks: dict[str, list[int]] = {}
        """The keys of each block, by its content hash."""
        self.depth = 0

    def run(self) -> None:
        servers = self.asker.table.servers
        server = servers.servers[self.random.randrange(2)]
        other = servers.servers[1 - servers.servers.index(server)]
        left = [self.random.randrange(1, 30)]

        def on_request(node: object, kind: str, path: str) -> None:
            left[0] -= node is server
            if left[0] == 0 and self.depth == 0:
                self.depth += 1
                self.execute(other)
                self.depth -= 1

        servers.on_request = on_request
        self.execute(server)
        servers.on_request = lambda node, kind, path: None
        servers.now += 1

    def execute(self, server: SimulatedServer) -> None:
        partition, kind = self.random.randrange(1, 3), self.random.random()
        with suppress(UnavailableError, ConflictError, UnknownOutcomeError):
            if kind < 0.6:
                self.key += 1
                server.sql(INSERT.format(partition, self.key))
            elif kind < 0.8:
                key = self.random.randrange(95, self.key + 1)
                server.sql(f"ALTER TABLE costs DELETE WHERE k = {key} SETTINGS mutations_sync = 0")
            elif kind < 0.9:
                server.sql(f"ALTER TABLE costs DROP PARTITION {partition}")
            else:
                server.sql(f"ALTER TABLE costs ADD COLUMN IF NOT EXISTS c{self.key} UInt8 SETTINGS alter_sync = 0")


class ModelTarget:
    """A target by brute force: key → where its block is."""

    def __init__(self, rows: dict[int, tuple[str, int]]) -> None:
        self.rows = rows
        self.number = 0

    def take(self, asker: Asker, random: Random, _: object) -> bool:
        """Takes a page, and applies it cut by cut or as one batch."""
        replica = random.randrange(2)
        answer = asker.take(replica, max_rows=random.randrange(1, 5))
        ends = answer.cuts if random.random() < 0.5 else answer.cuts[-1:]
        after = 0
        for end in ends:
            self.apply(asker, replica, [c for c in answer.changes if after < c.place <= end])
            after = end
        return bool(answer.cuts)

    def apply(self, asker: Asker, replica: int, changes: list[Change]) -> None:
        """Applies a batch: its blocks and commands in the order of their numbers."""
        items: list[tuple[str, int, object]] = []
        for change in changes:
            items += [(b.partition_id, b.number, read_block(asker, replica, change, b.part)) for b in change.blocks]
            items += [(d.partition_id, d.number, None) for d in change.drops]
            items += [(p, number, m.text) for m in change.mutations for p, number in m.numbers]
        for partition, _, what in sorted(items, key=lambda item: item[:2]):
            if isinstance(what, list):
                self.rows |= dict.fromkeys(what, (partition, 0))
            elif what is None:
                self.rows = {key: place for key, place in self.rows.items() if place[0] != partition}
            else:
                (key,) = map(int, re.findall(r"k\D*= *\D*(\d+)", str(what)))
                if self.rows.get(key, ("", 0))[0] == partition:
                    del self.rows[key]


def read_block(asker: Asker, replica: int, change: Change, part: PartName) -> list[int]:
    with asker.table.servers.servers[replica].acting():
        snapshot, path = asker.source(replica).open_block(change.position, part)
    with snapshot:
        return [key for batch in open_part(path, name=part).read(["k"]) for key in batch.column("k").to_pylist()]
