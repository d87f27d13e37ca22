"""How the replicas of a target carry batches out: in their order, each as one exchange."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from coordination.links.stream.change import Block, Change
from engine.interserver.transfer import Transfer
from parts.common.errors import UnavailableError
from parts.common.part_name import PartName
from tests.links.linked_tables import LinkedTables, linked_tables


@pytest.fixture
def tables(tmp_path: Path) -> Iterator[LinkedTables]:
    with linked_tables(tmp_path) as made:
        made.create_source()
        made.begin()
        yield made


class HeldFetches:
    """Fetches of one server that fail as long as a place is held."""

    def __init__(self, tables: LinkedTables, replica: int) -> None:
        self.server = tables.servers[replica]
        self.held: set[str] = set()
        self.failures = 0
        self._fetch = self.server.fetch_part
        self.server.fetch_part = self.fetch_part  # type: ignore[method-assign]

    def fetch_part(self, base_url: str, endpoint: str, part: PartName, directory: Path, transfer: Transfer) -> None:
        if str(part) in self.held:
            self.failures += 1
            raise UnavailableError("NETWORK_ERROR", f"Part {part} is held by a test")
        self._fetch(base_url, endpoint, part, directory, transfer)


def tries(tables: LinkedTables, replica: int) -> int:
    queue = tables.table.of(tables.servers[replica]).replication.queue
    return max((item.num_tries for item in queue.list_entries()), default=0)


def keys(tables: LinkedTables, replica: int) -> list[object]:
    return [key for (key,) in tables.rows(replica=replica, columns="k")]


def test_a_small_late_batch_waits_for_a_large_early_one(tables: LinkedTables) -> None:
    """On a replica that fetches, whose first fetch takes long. In another partition, too."""
    fetches = HeldFetches(tables, 1)
    fetches.held = {"1_0_0_0"}
    tables.first.sql("INSERT INTO source VALUES (1, 1, 0), (3, 2, 0)")
    tables.apply()
    for partition, key in ((1, 3), (2, 4)):
        tables.first.sql(f"INSERT INTO source VALUES ({partition}, {key}, 0)")
        tables.apply()
    tables.table.work_until(lambda: fetches.failures > 2)
    assert keys(tables, 0) == [1, 2, 3, 4]
    assert keys(tables, 1) == []
    fetches.held.clear()
    tables.must_be_equal()


def test_a_mutation_waits_for_the_batches_before_it(tables: LinkedTables) -> None:
    """It would show rows as they are after a batch that is not visible yet.

    Of the second batch only the mutated part can be fetched; it brings the third along.
    """
    tables.first.sql("INSERT INTO source VALUES (1, 1, 0)")
    tables.apply()
    tables.settle()
    fetches = HeldFetches(tables, 1)
    fetches.held = {"1_1_1_0", "1_2_2_0"}
    for key in (2, 3):
        tables.first.sql(f"INSERT INTO source VALUES (1, {key}, 0)")
        tables.apply()
    tables.first.sql("ALTER TABLE source UPDATE v = 7 WHERE 1", mutations_sync=0)
    tables.apply()
    tables.table.work_until(lambda: tables.rows() == [(1, 1, 7), (1, 2, 7), (1, 3, 7)])
    fetches.held |= {"1_1_1_0_3", "1_2_2_0_3"}
    tables.table.work_until(lambda: fetches.failures > 20)
    assert tables.rows(replica=1) == [(1, 1, 0)]
    fetches.held = {"1_1_1_0", "1_2_2_0", "1_2_2_0_3"}  # the second could be shown as it is behind the third
    tables.table.work_until(lambda: fetches.failures > 60)
    assert tables.rows(replica=1) == [(1, 1, 0)]
    fetches.held = {"1_1_1_0"}
    tables.table.work_until(lambda: len(tables.rows(replica=1)) > 1)
    assert keys(tables, 1) == [1, 2, 3]
    fetches.held.clear()
    tables.must_be_equal()


def test_a_batch_that_drops_another_brings_those_between_along(tables: LinkedTables) -> None:
    """The first and the third run in one step, for the third drops what the first adds; so the second joins."""
    fetches = HeldFetches(tables, 1)
    fetches.held = {"1_0_0_0", "2_0_0_0"}
    tables.first.sql("INSERT INTO source VALUES (1, 1, 0)")
    tables.apply()
    tables.first.sql("INSERT INTO source VALUES (2, 2, 0)")
    tables.apply()
    tables.first.sql("ALTER TABLE source DROP PARTITION 1")
    tables.first.sql("INSERT INTO source VALUES (1, 3, 0)")
    tables.apply()
    tables.table.work_until(lambda: fetches.failures > 2)
    assert keys(tables, 1) == []
    fetches.held = {"1_0_0_0"}  # it is dropped, so nobody needs it
    tables.must_be_equal()
    assert keys(tables, 1) == [2, 3]


def test_a_part_that_the_target_lost_comes_from_the_source_again(tables: LinkedTables) -> None:
    """The server that committed the batch lost its disk before anybody had fetched it."""
    tables.first.sql("INSERT INTO source VALUES (1, 1, 0)")
    fetches = HeldFetches(tables, 1)
    fetches.held = {"1_0_0_0"}
    tables.apply()
    staged = tables.table.table.store.staged
    (name,) = staged.list_transactions()  # the apply has not given background work a turn
    staged.remove(name)
    tables.table.work_until(lambda: tries(tables, 0) > 8)
    assert keys(tables, 0) == []
    tables.target().set_refetch("l", tables.fetch)
    fetches.held.clear()
    tables.must_be_equal()
    assert tables.fetched == {PartName.parse("1_0_0_0"): 2}


def test_a_lost_part_comes_from_the_source_that_brought_it(tables: LinkedTables) -> None:
    """Another source gave the part's number to other rows. What it sends is not taken, and the next one is asked."""
    tables.first.sql("INSERT INTO source VALUES (1, 1, 0), (2, 2, 0)")
    fetches = HeldFetches(tables, 1)
    fetches.held = {"1_0_0_0", "2_0_0_0"}
    tables.apply()
    staged = tables.table.table.store.staged
    (name,) = staged.list_transactions()
    staged.remove(name)

    def fetch_other_rows(change: Change, block: Block, directory: Path) -> None:
        other = "2_0_0_0" if str(block.part) == "1_0_0_0" else "1_0_0_0"
        tables.fetch(change, replace(block, part=PartName.parse(other)), directory)

    tables.target().set_refetch("another", fetch_other_rows)
    tables.target().set_refetch("l", tables.fetch)
    fetches.held.clear()
    tables.must_be_equal()
