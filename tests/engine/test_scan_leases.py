"""Leases of scans, what is written down of them, and how granules are dealt to slots: without servers."""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from coordination.keeper.memory_keeper import MemoryEnsemble
from coordination.nodes.paths import TablePaths
from coordination.reads.scan_records import KeeperScanRecords, delete_unused_scan_records
from engine.front.http.scan_routes import get_replica_delay_seconds
from engine.scan.leases import Lease, LeaseBook, ScanOpening
from engine.scan.slot_planning import TaskSize, WeighedGranules, measure_steps
from engine.tables.capabilities.replica_status import ReplicaStatus
from engine.tables.capabilities.scan_records import FileScanRecords, ScanRecords
from parts.common.errors import UnavailableError, UserError
from parts.common.part_name import PartName
from parts.common.thread_pool import POOL_THREADS
from parts.format.primary_index import (
    MarkRange,
)
from parts.read.batch_plan import (
    RowRange,
)
from parts.read.read_ahead import decode_ahead
from parts.table.table_description import Column, TableSchema
from parts.types import parse_type


@dataclass
class FakePart:
    name: PartName
    content_hash: str = "x"
    marks: int = 4
    granularity: int = 8192
    row_bytes: int = 9

    @property
    def rows(self) -> int:
        return self.marks * self.granularity - 1

    def estimate_bytes_before(self, columns: Sequence[str], granules: np.ndarray) -> np.ndarray:
        return np.asarray(granules) * self.granularity * float(self.row_bytes * len(columns))


class FakeSnapshot:
    def __init__(self, parts: Sequence[FakePart] = ()) -> None:
        self.parts = parts
        self.released = 0

    def release(self) -> None:
        self.released += 1


class FakeTable:
    """A table of one part, on a server of its own; ``records`` is shared by its replicas."""

    link_group = ""

    def __init__(self, records: ScanRecords, part: str = "all_1_1_0", **differences: Any) -> None:
        self.records = records
        self.here = {PartName.parse(part): FakePart(PartName.parse(part), **differences)}
        self.snapshots: list[FakeSnapshot] = []
        self.definition = SimpleNamespace(full_name="d.t")
        schema = TableSchema(tuple(Column(name, parse_type("String")) for name in "ks"))
        self.description = SimpleNamespace(schema=schema, metadata_version=0)

    def scan_records(self, *, is_alone: bool) -> ScanRecords:
        return self.records

    def snapshot(self, *, sequential_consistency: bool = False) -> FakeSnapshot:
        return self._taken(list(self.here.values()))

    def pin(self, names: Sequence[PartName]) -> FakeSnapshot:
        if any(name not in self.here for name in names):
            raise UserError("NO_SUCH_DATA_PART", "it is not here")
        return self._taken([self.here[name] for name in names])

    def _taken(self, parts: Sequence[FakePart]) -> FakeSnapshot:
        self.snapshots.append(FakeSnapshot(parts))
        return self.snapshots[-1]


@pytest.fixture(params=["files", "keeper"])
def records(request: pytest.FixtureRequest, tmp_path: Path) -> ScanRecords:
    if request.param == "files":
        return FileScanRecords(tmp_path / "scans", uuid.uuid4)
    keeper = MemoryEnsemble(time.time).connect()
    keeper.create_parents("/t/replicas")
    return KeeperScanRecords(keeper, TablePaths("/t"))


def test_the_first_record_stays(records: ScanRecords) -> None:
    assert records.find("a") is None
    assert records.record("a", b"first") == b"first"
    assert records.record("a", b"second") == b"first"
    records.touch("a")
    assert records.find("a") == b"first"
    assert records.find("b") is None


def test_records_go_when_they_are_not_used(tmp_path: Path) -> None:
    files = FileScanRecords(tmp_path / "scans", uuid.uuid4)
    files.clean_up(1.0)
    files.record("a", b"1")
    files.clean_up(100_000.0)  # seen for the first time: that it was written before says a wall clock
    files.clean_up(180_000.0)
    files.touch("a")
    files.clean_up(190_000.0)
    files.clean_up(270_000.0)
    assert files.find("a") == b"1"
    files.clean_up(280_000.0)
    assert files.find("a") is None


def test_records_of_replicas_go_by_the_one_that_was_used_last() -> None:
    now = [1e6]
    keeper = MemoryEnsemble(lambda: now[0]).connect()
    table = TablePaths("/t")
    keeper.create_parents("/t/replicas")
    kept = KeeperScanRecords(keeper, table)
    assert delete_unused_scan_records(keeper, table) == 0
    for name in ("old", "used"):
        kept.record(name, b"")
    now[0] += 80_000
    kept.touch("used")
    now[0] += 80_000
    assert delete_unused_scan_records(keeper, table) == 0
    kept.record("new", b"")
    assert delete_unused_scan_records(keeper, table) == 1
    assert (kept.find("old"), kept.find("used")) == (None, b"")


def opened(book: LeaseBook, table: FakeTable, name: str, **options: Any) -> AbstractContextManager[Lease]:
    return book.hold_lease(table, ScanOpening(name, **{"seconds": 10, **options}))  # type: ignore[arg-type]


def test_leases_end_by_time_and_by_pressure(records: ScanRecords) -> None:
    now = [0.0]
    book = LeaseBook(lambda: now[0], limit=3)
    table = FakeTable(records)
    with opened(book, table, "timed"):
        now[0] = 30
        book.expire()
        assert not table.snapshots[0].released
    now[0] = 39
    book.expire()
    with opened(book, table, "timed"):
        assert len(table.snapshots) == 1
    now[0] = 50
    book.expire()
    assert table.snapshots[0].released == 1

    for name in ("oldest", "middle", "newest"):
        with opened(book, table, name):
            now[0] += 1
    with opened(book, table, "oldest"), opened(book, table, "another"):
        pass
    assert [item.released for item in table.snapshots[1:]] == [0, 1, 0, 0]
    assert not book.release(table, "middle")  # type: ignore[arg-type]
    assert book.release(table, "newest")  # type: ignore[arg-type]
    book.close()
    assert [item.released for item in table.snapshots] == [1] * 5


def test_busy_leases_are_not_taken_away(records: ScanRecords) -> None:
    book = LeaseBook(lambda: 0.0, limit=1)
    table = FakeTable(records)
    with opened(book, table, "a"), pytest.raises(UserError) as raised, opened(book, table, "b"):
        pass
    assert raised.value.code == 202
    assert [item.released for item in table.snapshots] == [0, 1]


def test_a_lease_that_is_released_while_it_is_read_lasts_so_long(records: ScanRecords) -> None:
    book, table = LeaseBook(lambda: 0.0), FakeTable(records)
    with opened(book, table, "a"):
        assert book.release(table, "a")  # type: ignore[arg-type]
        assert not table.snapshots[0].released
    assert table.snapshots[0].released == 1


def test_replicas_read_what_the_first_one_saw(records: ScanRecords) -> None:
    first, same, merged, other = (
        FakeTable(records), FakeTable(records), FakeTable(records, "all_1_2_1"), FakeTable(records, content_hash="y"),
    )  # fmt: skip
    book = LeaseBook(lambda: 0.0)
    same.here |= FakeTable(records, "all_2_2_0").here
    for table in (first, same):
        with opened(book, table, "a") as lease:
            assert [str(part.name) for part in lease.parts] == ["all_1_1_0"]
    for table in (merged, other):
        with pytest.raises(UserError) as raised, opened(book, table, "a"):
            pass
        assert raised.value.code == 232
    with opened(book, same, "b") as lease:
        assert len(lease.parts) == 2


def test_replicas_deal_as_the_first_one_measured(records: ScanRecords) -> None:
    """The same rows may have other bytes elsewhere; granules of another size cannot be dealt alike."""
    steps = []
    for table in (FakeTable(records), FakeTable(records, row_bytes=20)):
        with opened(LeaseBook(lambda: 0.0), table, "a", columns=("k", "s")) as lease:
            steps.append(list(lease.steps.values()))
    assert steps == [[[18 * 8192] * 4]] * 2
    other = FakeTable(records, granularity=4096)
    with pytest.raises(UserError, match="granules of 4096") as raised, opened(LeaseBook(lambda: 0.0), other, "a"):
        pass
    assert raised.value.code == 232


@pytest.mark.parametrize("slots", [1, 2, 3, 7, 40])
def test_every_granule_is_in_one_slot(slots: int) -> None:
    parts = [FakePart(PartName.parse(f"all_{n}_{n}_0"), marks=n * n, row_bytes=n * n) for n in range(6)]
    chosen: Any = [(part, [MarkRange(0, 1), MarkRange(2, part.marks)]) for part in parts if part.marks > 3]
    steps = measure_steps(parts, ["k"])  # type: ignore[arg-type]
    scan = WeighedGranules.of(chosen, steps, TaskSize())
    dealt = [scan.slot(number, slots) for number in range(slots)]
    granules = [(part, mark) for slot in dealt for part, ranges in slot for item in ranges
                for mark in range(item.begin, item.end)]  # fmt: skip
    assert granules == [(part, mark) for part, ranges in chosen for item in ranges
                        for mark in range(item.begin, item.end)]  # fmt: skip
    sizes = [sum(part.row_bytes * 8192 * (item.end - item.begin) for part, ranges in slot for item in ranges)
             for slot in dealt]  # fmt: skip
    assert max(sizes) - sum(sizes) / slots <= 25 * 8192, "a granule of the widest rows"


def test_a_task_keeps_within_rows_and_bytes() -> None:
    parts: Any = [FakePart(PartName.parse("all_1_1_0"), marks=64, row_bytes=1),
                  FakePart(PartName.parse("all_2_2_0"), marks=64, row_bytes=99)]  # fmt: skip
    chosen: Any = [(part, [MarkRange(0, part.marks)]) for part in parts]

    def tasks(size: TaskSize, partitions: int | None = None) -> int:
        return WeighedGranules.of(chosen, measure_steps(parts, ["k"]), size).tasks(size, partitions)

    granule = 8192
    assert tasks(TaskSize(rows=8 * granule)) == 16
    assert tasks(TaskSize(bytes=800 * granule)) == 9
    assert tasks(TaskSize(rows=16 * granule, bytes=800 * granule)) == 12, "4 by rows, 8 by bytes"
    assert tasks(TaskSize()) == 8, "some parallelism for what is worth it"
    assert tasks(TaskSize(), partitions=3) == 3
    assert WeighedGranules.of([], {}, TaskSize()).tasks(TaskSize(), None) == 1
    assert (
        WeighedGranules.of(chosen, measure_steps(parts, ["k"]), TaskSize()).tasks(TaskSize(), None, is_computed=True)
        == 1
    )


def test_long_rows_are_not_decoded_far_ahead() -> None:
    begun = []

    def read(batch: RowRange, names: list[str]) -> list[pa.Array]:
        begun.append(batch)
        return [pa.array([0])]

    batches = [RowRange(start, start + 8) for start in range(0, 8000, 8)]
    with contextlib.closing(decode_ahead(batches, ["k"], 4 << 20, POOL_THREADS, read, is_split=True)) as decoded:  # type: ignore[type-var]
        next(decoded)
        assert len(begun) <= POOL_THREADS + 2


def test_what_came_in_between_is_not_read(records: ScanRecords) -> None:
    """Another replica records between this one's look and its record."""
    table, other = FakeTable(records), FakeTable(records)
    book = LeaseBook(lambda: 0.0)
    find = records.find

    def find_late(name: str) -> bytes | None:
        found = find(name)
        table.here |= FakeTable(records, "all_2_2_0").here
        with opened(LeaseBook(lambda: 0.0), other, "a"):
            return found

    table.records = SimpleNamespace(find=find_late, record=records.record, touch=records.touch)  # type: ignore[assignment]
    with opened(book, table, "a") as lease:
        assert [str(part.name) for part in lease.parts] == ["all_1_1_0"]
    assert [item.released for item in table.snapshots] == [1, 0]


def test_a_read_does_not_need_its_record_to_be_touched(records: ScanRecords) -> None:
    now = [0.0]
    table, touched = FakeTable(records), []

    def touch(name: str) -> None:
        touched.append(name)
        raise UnavailableError("KEEPER_EXCEPTION", "another replica touched it")

    table.records = SimpleNamespace(find=records.find, record=records.record, touch=touch)  # type: ignore[assignment]
    book = LeaseBook(lambda: now[0])
    for _ in range(3):
        with opened(book, table, "a", seconds=3600) as lease:
            assert len(lease.parts) == 1
        now[0] += 400
    assert len(touched) == 1


def test_a_replica_that_is_behind_opens_nothing(records: ScanRecords) -> None:
    book = LeaseBook(lambda: 0.0, lambda _: 61.0)
    table = FakeTable(records)
    with pytest.raises(UnavailableError) as raised, opened(book, table, "a", max_delay_seconds=60):
        pass
    assert raised.value.code == 369
    with opened(book, table, "a", max_delay_seconds=62):
        pass
    with opened(LeaseBook(lambda: 0.0, lambda _: 61.0), table, "a", max_delay_seconds=60) as lease:
        assert len(lease.parts) == 1, "it has been opened, and its parts are here"


def test_a_replica_that_has_not_met_zookeeper_since_its_start_opens_nothing(records: ScanRecords) -> None:
    """Its disk may have been lost."""
    status = ReplicaStatus("d.t", 0.0, "The table is starting", "", has_started=False)
    server: Any = SimpleNamespace(replicas_status=lambda: [status])
    book = LeaseBook(lambda: 0.0, partial(get_replica_delay_seconds, server))
    table = FakeTable(records)
    with pytest.raises(UnavailableError, match="does not know yet"), opened(book, table, "a", max_delay_seconds=300):
        pass
    with opened(book, table, "a"):
        pass
