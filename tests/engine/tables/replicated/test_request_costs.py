"""What grows with partitions and parts: requests to ZooKeeper are counted at several sizes, and must be linear."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from coordination.inserts.block_numbers import BlockLock, allocate_block_number, release_block_number
from engine.simulator.statement_costs import CountedTable, counted_table
from parts.common.errors import PandoError

SIZES = (8, 16, 32)
FIXED = 60
"""Requests that do not grow: timers, watches, the statement itself."""
Make = Callable[..., CountedTable]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """``make(partitions, parts)``: a table with so many parts of one row in each partition."""
    with contextlib.ExitStack() as stack:

        def make(partitions: int, parts: int = 1, *, replicas: int = 1) -> CountedTable:
            path = tmp_path / f"{partitions} {parts} {replicas}"
            columns = "p UInt16, k UInt64, v UInt64"
            table = stack.enter_context(counted_table(path, columns, "PARTITION BY p ORDER BY k", replicas=replicas))
            for part in range(parts):
                insert(table, partitions, part)
            table.settle()
            return table

        yield make


def insert(table: CountedTable, partitions: int, part: int) -> None:
    table.first.sql(
        "INSERT INTO costs SETTINGS max_partitions_per_insert_block = 0 "
        f"SELECT number, {part}, 0 FROM numbers({partitions})"
    )


def check_linear(requests: list[int], each: float) -> None:
    """``requests`` at :data:`SIZES`: at most ``each`` for one of what grows, and not more for the second half."""
    for size, count in zip(SIZES, requests, strict=True):
        assert count <= FIXED + each * size, requests
    small, middle, large = requests
    assert large - middle <= 1.3 * 2 * (middle - small), requests


def merged(table: CountedTable, partitions: int) -> int:
    table.select_merges(True)
    with table.measure_cost() as cost:
        table.work_until(lambda: len(table.table.store.list_active()) == partitions)
        table.settle()
    return cost.requests


def test_merging_one_pair_in_each_partition(make: Make) -> None:
    check_linear([merged(make(size, 2), size) for size in SIZES], 20)


@pytest.mark.long
def test_merging_one_pair_in_each_partition_on_two_replicas(make: Make) -> None:
    check_linear([merged(make(size, 2, replicas=2), size) for size in SIZES], 30)


def is_done(table: CountedTable) -> bool:
    mutations = table.table.mutations.shown()
    return bool(mutations) and all(mutation.is_done for mutation in mutations)


def mutated(table: CountedTable) -> int:
    with table.measure_cost() as cost:
        table.first.sql("ALTER TABLE costs UPDATE v = 1 WHERE p = 3 SETTINGS mutations_sync = 0")
        table.work_until(lambda: is_done(table))
        table.settle()
    return cost.requests


@pytest.mark.long
def test_an_update_of_one_partition_in_a_table_of_many(make: Make) -> None:
    """ClickHouse 18.16 makes 595 requests for 30 partitions and 1,925 for 100."""
    check_linear([mutated(make(size)) for size in SIZES], 19)


def truncated(table: CountedTable) -> int:
    with table.measure_cost() as cost:
        table.first.sql("TRUNCATE TABLE costs")
        table.settle()
    assert not table.table.store.list_active()
    return cost.requests


def test_truncate_of_many_partitions(make: Make) -> None:
    check_linear([truncated(make(size)) for size in SIZES], 10)


# --- what the cheaper ways must not leave out ----------------------------------------------------------------------


def test_what_truncate_took_can_be_inserted_again(make: Make) -> None:
    table = make(5)
    table.first.sql("TRUNCATE TABLE costs")
    insert(table, 5, 0)
    assert table.first.sql("SELECT count() FROM costs")[1] == [(5,)]


def test_a_merge_waits_for_the_block_that_is_being_inserted_between_its_sources(make: Make) -> None:
    table = make(2)
    keeper, paths = table.servers.ensemble.connect(), table.table.replication.paths
    lock = allocate_block_number(keeper, paths, "1", owner="another replica")
    assert isinstance(lock, BlockLock)
    insert(table, 2, 1)
    table.select_merges(True)
    end = table.servers.now + 600
    asked: list[str] = []
    table.on_request = lambda kind, path: asked.append(path) if path == paths.partition("1") else None
    table.work_until(lambda: table.servers.now > end)
    assert [str(part.name) for part in table.table.store.list_active()] == ["0_0_1_1", "1_0_0_0", "1_2_2_0"]
    assert 5 < len(asked) < 20, "now and then"
    assert release_block_number(keeper, lock)
    table.work_until(lambda: len(table.table.store.list_active()) == 2)


def test_a_partition_that_cannot_merge_does_not_keep_the_others_from_it(make: Make) -> None:
    table = make(8)
    keeper, paths = table.servers.ensemble.connect(), table.table.replication.paths
    for partition in range(5):  # more than are asked about at once
        assert isinstance(allocate_block_number(keeper, paths, str(partition), owner="another replica"), BlockLock)
    insert(table, 8, 1)
    table.select_merges(True)
    end = table.servers.now + 30
    table.work_until(lambda: len(table.table.store.list_active()) == 5 * 2 + 3)
    assert table.servers.now < end


def test_optimize_looks_at_the_other_partitions_when_the_best_cannot_merge(make: Make) -> None:
    table = make(3)
    keeper, paths = table.servers.ensemble.connect(), table.table.replication.paths
    assert isinstance(allocate_block_number(keeper, paths, "0", owner="another replica"), BlockLock)
    insert(table, 3, 1)
    table.first.sql("OPTIMIZE TABLE costs")
    assert sum(part.name.level for part in table.table.store.list_active()) == 1
    with pytest.raises(PandoError, match="still being inserted"):
        table.first.sql("OPTIMIZE TABLE costs PARTITION 0 FINAL")
