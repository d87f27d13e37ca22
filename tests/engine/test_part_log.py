"""What system tables show of parts: where they came from, what they are made of, what is under way."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pytest
from chdb.session import Session

from engine.system_tables import SYSTEM_TABLES
from engine.tables.services import MergeOrder
from parts.common.errors import PandoError, UnavailableError
from parts.merge import MergeProgress
from parts.read.batch_plan import (
    RowRange,
)
from parts.read.part_reader import (
    Part,
)
from sql.mutations import changed_rows, combined_steps
from tests.engine.conftest import Local

_OWN = {
    "merges": {"total_rows"},
    "parts": {"_state", "last_check_time", "last_check_error"},
}
"""Columns that ClickHouse has not."""
_OTHER_TYPES = {("parts", "uuid"), ("parts_columns", "uuid")}


@pytest.fixture(scope="module")
def clickhouse() -> Session:
    session = Session()
    session.query("CREATE DATABASE part_log")
    session.query("CREATE TABLE part_log.t (a Int32) ENGINE = MergeTree ORDER BY a")
    return session


@pytest.mark.parametrize(
    "name",
    [
        "parts",
        "parts_columns",
        "detached_parts",
        "dropped_tables",
        "merges",
        "replicated_fetches",
        "replication_queue",
        "merge_tree_settings",
        "replicated_merge_tree_settings",
        "errors",
        "events",
        "metrics",
    ],
)
def test_columns_are_those_of_clickhouse(clickhouse: Session, name: str) -> None:
    query = f"SELECT name, type FROM system.columns WHERE database = 'system' AND table = '{name}'"
    theirs = dict(line.split("\t") for line in str(clickhouse.query(query, "TSVRaw")).splitlines())
    for column in SYSTEM_TABLES[name].schema.columns:
        if column.name in _OWN.get(name, ()):
            assert column.name not in theirs
        elif (name, column.name) not in _OTHER_TYPES:
            assert str(column.type) == theirs[column.name], column.name


def events(local: Local, *columns: str) -> list[tuple[object, ...]]:
    return local.run(f"SELECT toString(event_type), part_name, {', '.join(columns)} FROM system.part_log")


def test_the_life_of_a_part(local: Local) -> None:
    create = "CREATE TABLE t (p Int32, a Int32) ENGINE = MergeTree PARTITION BY p ORDER BY a"
    local.run(f"{create} SETTINGS old_parts_lifetime = 0")
    for number in range(2):
        local.run(f"INSERT INTO t SELECT 7, number FROM numbers({number + 1})")
    local.run("OPTIMIZE TABLE t FINAL")
    local.engine.catalog.table("default", "t").clean_up_step()
    assert events(local, "rows", "merged_from", "read_rows", "toString(merge_reason)", "partition", "error") == [
        ("NewPart", "7_1_1_0", 1, [], 0, "NotAMerge", "7", 0),
        ("NewPart", "7_2_2_0", 2, [], 0, "NotAMerge", "7", 0),
        ("MergeParts", "7_1_2_1", 3, ["7_1_1_0", "7_2_2_0"], 3, "RegularMerge", "7", 0),
        ("RemovePart", "7_1_1_0", 1, [], 0, "NotAMerge", "7", 0),
        ("RemovePart", "7_2_2_0", 2, [], 0, "NotAMerge", "7", 0),
    ]
    assert (
        local.value("SELECT uniq(query_id) FROM system.part_log WHERE event_type = 'NewPart' AND query_id != ''") == 2
    )
    sizes = "SELECT name, bytes_on_disk, path FROM system.parts WHERE active"
    logged = "SELECT part_name, size_in_bytes, path_on_disk FROM system.part_log WHERE event_type = 'MergeParts'"
    assert local.run(sizes) == local.run(logged)
    assert local.run("SELECT event, value FROM system.events") == [("Merge", 1), ("MergedRows", 3)]


def test_a_merge_that_fails_and_one_under_way(local: Local) -> None:
    local.run("CREATE TABLE t (a Int32) ENGINE = MergeTree ORDER BY a")
    for _ in range(2):
        local.run("INSERT INTO t SELECT number FROM numbers(100)")
    seen: list[tuple[object, ...]] = []

    def merge(_: MergeOrder, is_cancelled: Callable[[], bool], on_progress: Callable[[MergeProgress], None]) -> None:
        on_progress(MergeProgress(rows_read=100, rows_written=90, total_rows=200))
        seen.extend(
            local.run(
                "SELECT result_part_name, partition_id, num_parts, progress, rows_read, rows_written, is_mutation,"
                " total_size_bytes_compressed = (SELECT sum(bytes_on_disk) FROM system.parts WHERE active),"
                " source_part_paths = (SELECT groupArray(path) FROM system.parts WHERE active)"
                " FROM system.merges"
            )
        )
        assert local.value("SELECT value FROM system.metrics WHERE metric = 'Merge'") == 1
        raise UnavailableError("NOT_ENOUGH_SPACE", "the disk is full")

    local.engine.services.run_in_merge_process = merge
    with pytest.raises(PandoError, match="the disk is full"):
        local.run("OPTIMIZE TABLE t FINAL")
    assert seen == [("all_1_2_1", "all", 2, 0.5, 100, 90, 0, 1, 1)]
    assert events(local, "error", "exception", "merged_from")[-1] == (
        "MergeParts",
        "all_1_2_1",
        243,
        "Code: 243. DB::Exception: the disk is full (NOT_ENOUGH_SPACE)",
        ["all_1_1_0", "all_2_2_0"],
    )
    assert local.run("SELECT * FROM system.merges") == []


@pytest.mark.parametrize(("held_rows", "eighths"), [(250, range(8)), (1000, range(4, 8))], ids=["alone", "together"])
def test_a_mutation_under_way(
    local: Local, monkeypatch: pytest.MonkeyPatch, held_rows: int, eighths: Sequence[int]
) -> None:
    monkeypatch.setattr(changed_rows, "WINDOW_ROWS", 250)
    monkeypatch.setattr(combined_steps, "WINDOW_ROWS", held_rows)
    local.run("CREATE TABLE t (a Int32, b Int32) ENGINE = MergeTree ORDER BY a")
    local.run("INSERT INTO t SELECT number, number FROM numbers(1000)")
    seen: list[tuple[object, ...]] = []
    windows = changed_rows._windows

    def windows_seen(part: Part, names: Sequence[str], look: Callable[[int], None]) -> Iterator[RowRange]:
        for window in windows(part, names, look):
            seen.extend(local.run("SELECT result_part_name, is_mutation, progress, rows_read FROM system.merges"))
            yield window

    monkeypatch.setattr(changed_rows, "_windows", windows_seen)
    local.run("ALTER TABLE t UPDATE b = 0 WHERE a % 2, DELETE WHERE a > 990 SETTINGS mutations_sync = 1")
    name = "all_1_1_0_2"
    shares = [number / 8 for number in eighths]
    assert seen == [(name, 1, share, int(share * 2000 / 2)) for share in shares]
    assert events(local, "rows", "merged_from")[-1] == ("MutatePart", name, 991, ["all_1_1_0"])
    assert local.run("SELECT event, value FROM system.events") == [("PartMutation", 1), ("MutatedRows", 1000)]


def test_stopped_merges_keep_mutations_too(local: Local) -> None:
    local.run("CREATE TABLE t (a Int32, b Int32) ENGINE = MergeTree ORDER BY a")
    local.run("INSERT INTO t VALUES (1, 1)")
    local.run("SYSTEM STOP MERGES t")
    local.run("ALTER TABLE t UPDATE b = 2 WHERE 1 SETTINGS mutations_sync = 0")
    assert local.engine.catalog.table("default", "t")._mutate_step() > 0  # type: ignore[attr-defined]
    assert local.run("SELECT is_done, parts_to_do FROM system.mutations") == [(0, 1)]
    local.run("SYSTEM START MERGES t")
    local.run("ALTER TABLE t UPDATE b = b + 1 WHERE 1 SETTINGS mutations_sync = 1")
    assert local.value("SELECT b FROM t") == 3


def test_the_columns_of_parts(local: Local) -> None:
    local.run("CREATE TABLE t (a Int32, s String DEFAULT 'x', c Int32 ALIAS a + 1) ENGINE = MergeTree ORDER BY a")
    local.run("INSERT INTO t (a) SELECT number FROM numbers(1000)")
    query = (
        "SELECT column, type, column_position, default_kind, default_expression, column_data_uncompressed_bytes"
        " FROM system.parts_columns WHERE table = 't' AND active"
    )
    assert local.run(query) == [("a", "Int32", 1, "", "", 4000), ("s", "String", 2, "DEFAULT", "'x'", 5000)]
    local.run("ALTER TABLE t ADD COLUMN n Int32")
    assert len(local.run(query)) == 2  # the part has it not
    whole = "SELECT data_compressed_bytes, data_uncompressed_bytes FROM system.parts WHERE active"
    summed = "SELECT sum(column_data_compressed_bytes), sum(column_data_uncompressed_bytes) FROM system.parts_columns"
    assert local.run(whole) == local.run(summed)


def test_dates_of_parts_and_detached_ones(local: Local) -> None:
    create = "CREATE TABLE t (d Date, t DateTime, a Int32) ENGINE = MergeTree ORDER BY a"
    local.run(f"{create} PARTITION BY (toYYYYMM(d), toDate(t))")
    local.run("INSERT INTO t VALUES ('2024-01-03', '2024-02-01 10:00:00', 1), ('2024-01-05', '2024-02-01 11:00:00', 2)")
    shown = "SELECT toString(min_date), toString(max_date), toString(min_time), toString(max_time) FROM system.parts"
    assert local.run(shown) == [("2024-01-03", "2024-01-05", "2024-02-01 10:00:00", "2024-02-01 11:00:00")]
    local.run("ALTER TABLE t DETACH PARTITION ALL")
    columns = "partition_id, reason, disk, toUnixTimestamp(modification_time) > 0, path != ''"
    assert local.run(f"SELECT {columns} FROM system.detached_parts") == [("202401-20240201", "", "default", 1, 1)]
