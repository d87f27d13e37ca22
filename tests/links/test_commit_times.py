"""The clock of a ``last_writer_wins`` table: what began after a commit has a later time, whatever was trimmed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordination.inserts.block_numbers import BlockLock, allocate_block_number
from coordination.keeper.interface import Answer, Delete, MultiFailed, Read
from coordination.keeper.memory_keeper import MemoryEnsemble, MemoryKeeper
from coordination.links.stream.commit_times import CommitTimes, CommitVersion, LargestTime
from coordination.log.log_entry import EntryType, LogEntry
from coordination.nodes.paths import TablePaths, log_entry_name, parse_sequence_number
from parts.common.errors import CorruptionError
from parts.common.part_name import PartName

TABLE = TablePaths("/t")


class World:
    """A table's log and numbers, and servers that commit blocks."""

    def __init__(self, servers: int) -> None:
        self.now = 1_000.0
        self.ensemble = MemoryEnsemble(lambda: self.now)
        self.keepers = [self.ensemble.connect() for _ in range(servers)]
        for path in (TABLE.log, TABLE.block_numbers, TABLE.blocks, TABLE.replicas, TABLE.gate):
            self.keepers[0].create_parents(path)
        self.keepers[0].set(TABLE.gate, b'{"version":1,"epoch":"3-00c0ffee00c0ffee","bars":[]}')
        self.clocks = [CommitTimes(TABLE) for _ in range(servers)]

    def begin(self, server: int) -> BlockLock:
        taken = allocate_block_number(self.keepers[server], TABLE, "all", owner=f"r{server}")
        assert isinstance(taken, BlockLock)
        return taken

    def version(self, server: int, lock: BlockLock) -> CommitVersion:
        return self.clocks[server].make_version(self.keepers[server], lock, 0)

    def commit(self, server: int, lock: BlockLock, time: int) -> None:
        part = PartName("all", lock.number, lock.number, 0)
        entry = LogEntry(EntryType.GET_PART, part, 0.0, f"r{server}", commit_time=time)
        keeper = self.keepers[server]
        keeper.create(TABLE.log_prefix, entry.to_bytes(), sequential=True)
        keeper.multi([Delete(lock.path)])

    def log_merge(self, server: int) -> None:
        entry = LogEntry(EntryType.MERGE_PARTS, PartName("all", 0, 1, 1), 0.0, f"r{server}")
        self.keepers[server].create(TABLE.log_prefix, entry.to_bytes(), sequential=True)

    def trim(self, server: int, keep: int) -> None:
        """As the cleaning of the log does."""
        keeper = self.keepers[server]
        indices = sorted(parse_sequence_number(name) for name in keeper.children(TABLE.log))
        surplus = indices[: max(0, len(indices) - keep)]
        if not surplus:
            return
        try:
            self.clocks[server].keep(keeper, surplus[-1] + 1)
        except MultiFailed:  # another one trims; the next round does it
            return
        for index in surplus:
            if keeper.exists(f"{TABLE.log}/{log_entry_name(index)}") is not None:
                keeper.delete(f"{TABLE.log}/{log_entry_name(index)}")


def before_reads(keeper: MemoryKeeper, action: Callable[[], None]) -> None:
    """Runs the action before each of the next reads."""
    read_many = keeper.read_many

    def read(reads: Sequence[Read]) -> list[Answer]:
        action()
        return read_many(reads)

    keeper.read_many = read  # type: ignore[method-assign]


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 1_000_000))
def test_what_begins_after_a_commit_is_later(seed: int) -> None:
    random = Random(seed)
    world = World(3)
    committed = 0
    open_: list[tuple[int, BlockLock, int, CommitVersion | None]] = []
    seen: set[tuple[int, int]] = set()

    def disturb() -> None:
        if random.random() < 0.3:
            world.trim(random.randrange(1, 3), random.randrange(3))

    before_reads(world.keepers[0], disturb)
    for _ in range(random.randrange(5, 60)):
        world.now += random.choice([0.0, 0.0001, 3.0, -500.0])
        server = random.randrange(3)
        match random.choice(["begin", "begin", "version", "commit", "commit", "merge", "trim", "session"]):
            case "begin":
                open_.append((server, world.begin(server), committed, None))
            case "version" if open_:
                place = random.randrange(len(open_))
                server, lock, floor, known = open_[place]
                if known is None:
                    made = world.version(server, lock)
                    assert made.commit_time > floor
                    assert (made.commit_time, made.block) not in seen
                    seen.add((made.commit_time, made.block))
                    open_[place] = (server, lock, floor, made)
            case "commit" if ready := [item for item in open_ if item[3] is not None]:
                item = random.choice(ready)
                open_.remove(item)
                assert item[3] is not None
                world.commit(item[0], item[1], item[3].commit_time)
                committed = max(committed, item[3].commit_time)
            case "merge":
                for _ in range(random.randrange(1, 20)):
                    world.log_merge(server)
            case "trim":
                world.trim(server, random.randrange(4))
            case "session" if server:
                world.clocks[server] = CommitTimes(TABLE)
            case _:
                pass


def test_the_origin_is_cluster_table_and_epoch_of_now() -> None:
    world = World(1)
    keeper = world.keepers[0]
    root = keeper.get(TABLE.root)[1].created_zxid
    first = world.version(0, world.begin(0))
    assert first.origin == f"00000000-0000-0000-0000-000000000000.{root}.3-00c0ffee00c0ffee"
    uuid = "6b1f0c2e-5f5d-4b57-9d0c-0f6f6f1f9a10"
    keeper.create_parents("/pando")
    keeper.create("/pando/cluster", f'{{"version":1,"name":"west","uuid":"{uuid}"}}'.encode())
    keeper.set(TABLE.gate, b'{"version":1,"epoch":"4-00c0ffee00c0ffee","bars":[]}')
    second = world.version(0, world.begin(0))
    assert second.origin == f"{uuid}.{root}.4-00c0ffee00c0ffee"
    assert (first.block, second.block) == (0, 1)
    assert second.commit_time == first.commit_time + 1


def test_a_number_that_a_drop_took_back_gets_a_time_too() -> None:
    """The commit then fails, because the lock is gone."""
    world = World(1)
    lock = world.begin(0)
    world.keepers[0].delete(lock.path)
    assert world.version(0, lock).commit_time == 1


def test_content_of_the_node() -> None:
    known = LargestTime(1_764_230_400_000_000, 42)
    assert known.to_bytes() == b'{"version":1,"commit_time":1764230400000000,"trimmed":42}'
    assert LargestTime.parse(known.to_bytes()) == known
    for content in (
        b"",
        b"{}",
        b'{"version":2,"commit_time":1,"trimmed":1}',
        b'{"version":1,"commit_time":"x","trimmed":1}',
    ):
        with pytest.raises(CorruptionError):
            LargestTime.parse(content)
