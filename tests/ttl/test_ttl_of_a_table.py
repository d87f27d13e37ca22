"""TTL of a table of one server: what goes, when, and what is read for it."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from parts.common.errors import PandoError
from parts.read.part_reader import Part
from tests.engine.conftest import Local, local

__all__ = ["local"]
DAY = 24 * 3600
STILL = "max_bytes_to_merge_at_max_space_in_pool = 1, max_number_of_merges_with_ttl_in_pool = 0"
"""Nothing is merged but by OPTIMIZE."""


def until(wanted: Callable[[], bool], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not wanted():
        assert time.monotonic() < deadline, "it did not come true"
        time.sleep(0.02)


def keys(local: Local, table: str = "t") -> list[object]:
    return [key for (key,) in local.run(f"SELECT k FROM {table} ORDER BY k")]


def parts(local: Local, columns: str = "name", table: str = "t") -> list[tuple[object, ...]]:
    return local.run(f"SELECT {columns} FROM system.parts WHERE active AND table = '{table}' ORDER BY name")


@pytest.fixture
def unread(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The parts that are read."""
    read: list[str] = []
    for name in ("read", "read_rows"):
        original = getattr(Part, name)

        def noted(self: Part, *args: object, _original: Callable[..., object] = original, **more: object) -> object:
            read.append(str(self.name))
            return _original(self, *args, **more)

        monkeypatch.setattr(Part, name, noted)
    return read


def test_a_part_of_which_no_row_is_left_is_dropped_unread(local: Local, unread: list[str]) -> None:
    local.run("CREATE TABLE t (k UInt32, d DateTime) ENGINE = MergeTree ORDER BY k TTL d + INTERVAL 1 DAY")
    local.run("SYSTEM STOP TTL MERGES t")
    local.run("INSERT INTO t SELECT number, now() - INTERVAL 2 DAY FROM numbers(1000)")
    local.run("INSERT INTO t SELECT 5000 + number, now() FROM numbers(10)")
    unread.clear()
    local.run("SYSTEM START TTL MERGES t")
    until(lambda: [rows for (rows,) in parts(local, "rows")] == [10])
    assert not unread
    local.restart()
    assert keys(local) == list(range(5000, 5010))


def test_a_merge_reads_nothing_of_a_source_that_is_gone(local: Local, unread: list[str]) -> None:
    local.run(f"CREATE TABLE t (k UInt32, d Date) ENGINE = MergeTree ORDER BY k TTL d SETTINGS {STILL}")
    local.run("SYSTEM STOP TTL MERGES t")
    local.run("INSERT INTO t VALUES (1, '2090-01-01'), (2, '2000-01-01')")
    local.run("INSERT INTO t VALUES (3, '2000-01-01')")
    local.run("INSERT INTO t VALUES (4, '2090-01-01')")
    local.run("OPTIMIZE TABLE t FINAL")
    assert parts(local, "rows, toYear(delete_ttl_info_min), length(rows_where_ttl_info.expression)") == [(4, 2000, 0)]
    local.run("INSERT INTO t VALUES (5, '2000-01-01')")
    with local.engine.catalog.table("default", "t").store.lock:  # nothing is dropped before it is merged
        unread.clear()
        local.run("SYSTEM START TTL MERGES t")
    local.run("OPTIMIZE TABLE t FINAL")
    assert keys(local) == [1, 4]
    assert "all_4_4_0" not in unread


def test_nothing_is_merged_before_it_is_time(local: Local) -> None:
    local.run("CREATE TABLE t (k UInt32, d DateTime) ENGINE = MergeTree ORDER BY k TTL d + INTERVAL 1 DAY")
    local.run("INSERT INTO t SELECT number, now() FROM numbers(10)")
    table = local.engine.catalog.table("default", "t")
    before = parts(local)
    for _ in range(3):
        assert not table._merges._merge_selected()  # type: ignore[attr-defined]
        assert not table._merges._drop_gone()  # type: ignore[attr-defined]
    assert parts(local) == before
    assert len(keys(local)) == 10


def test_merges_by_ttl_rest(local: Local) -> None:
    create = "CREATE TABLE {} (k UInt32, d DateTime) ENGINE = MergeTree PARTITION BY k % 2 ORDER BY k TTL d SETTINGS {}"
    values = "(2, now() - 100), (4, now() + 3600)"
    for name, settings in (("long", "merge_with_ttl_timeout = 3600"), ("short", "merge_with_ttl_timeout = 0")):
        local.run(create.format(name, f"{settings}, max_bytes_to_merge_at_max_space_in_pool = 100000"))
        for _ in range(2):
            local.run(f"INSERT INTO {name} VALUES {values}")
            if name == "short" or not parts(local, table=name)[1:]:
                until(lambda: 2 not in keys(local, name))  # noqa: B023
    assert keys(local, "short").count(4) == 2
    table = local.engine.catalog.table("default", "long")
    resting = table._merges._ttl_merges._resting("TTLDelete")  # type: ignore[attr-defined]
    assert resting == {"0"}


def test_only_whole_parts(local: Local) -> None:
    local.run(
        "CREATE TABLE t (k UInt32, d DateTime) ENGINE = MergeTree ORDER BY k TTL d "
        "SETTINGS ttl_only_drop_parts = 1, merge_with_ttl_timeout = 0, max_bytes_to_merge_at_max_space_in_pool = 100000"
    )
    local.run("INSERT INTO t VALUES (1, now() - 100), (2, now() + 3600)")
    table = local.engine.catalog.table("default", "t")
    for _ in range(3):
        assert not table._merges._merge_selected()  # type: ignore[attr-defined]
    local.run("INSERT INTO t VALUES (3, now() - 100)")
    until(lambda: 3 not in keys(local))
    assert 2 in keys(local)


def test_stopped_and_started(local: Local) -> None:
    local.run(f"CREATE TABLE t (k UInt32, d Date) ENGINE = MergeTree ORDER BY k TTL d SETTINGS {STILL}")
    local.run("SYSTEM STOP TTL MERGES t")
    local.run("INSERT INTO t VALUES (1, '2090-01-01'), (2, '2000-01-01')")
    local.run("OPTIMIZE TABLE t FINAL")
    assert keys(local) == [1, 2]
    local.run("SYSTEM START TTL MERGES t")
    local.run("OPTIMIZE TABLE t FINAL")
    assert keys(local) == [1]


@pytest.mark.parametrize("kind", ["wide", "compact"])
def test_recompression(local: Local, kind: str) -> None:
    wide = ", min_bytes_for_wide_part = 1" if kind == "wide" else ""
    local.run(
        "CREATE TABLE t (k UInt32, d DateTime, s String) ENGINE = MergeTree ORDER BY k "
        "TTL d RECOMPRESS CODEC(ZSTD(9)), "
        f"d + INTERVAL 1 DAY RECOMPRESS CODEC(NONE) SETTINGS merge_with_recompression_ttl_timeout = 0{wide}"
    )
    local.run("SYSTEM STOP TTL MERGES t")
    local.run("INSERT INTO t SELECT number, now() - 100, toString(number) FROM numbers(20000)")
    before = int(str(parts(local, "bytes_on_disk")[0][0]))
    digest = local.run("SELECT count(), sum(k), sum(k * toUInt64(s)) FROM t")
    local.run("SYSTEM START TTL MERGES t")
    until(lambda: parts(local, "default_compression_codec") == [("ZSTD(9)",)])
    assert int(str(parts(local, "bytes_on_disk")[0][0])) < before * 0.9
    assert local.run("SELECT count(), sum(k), sum(k * toUInt64(s)) FROM t") == digest
    name = parts(local)
    table = local.engine.catalog.table("default", "t")
    assert not table._merges._merge_selected()  # type: ignore[attr-defined]
    assert parts(local) == name
    local.run("OPTIMIZE TABLE t FINAL")
    assert parts(local, "default_compression_codec") == [("ZSTD(9)",)]


def test_parts_show_their_times(local: Local) -> None:
    local.run(
        "CREATE TABLE t (k UInt32, d DateTime('UTC'), v UInt8 TTL d + INTERVAL 3 DAY) ENGINE = MergeTree ORDER BY k "
        "TTL d + INTERVAL 1 DAY, d + INTERVAL 2 DAY WHERE v = 1, d + INTERVAL 4 DAY RECOMPRESS CODEC(ZSTD), "
        f"d + INTERVAL 5 DAY GROUP BY k SET v = max(v) SETTINGS {STILL}"
    )
    local.run("INSERT INTO t VALUES (1, '2090-01-01 00:00:00', 1), (2, '2090-02-01 00:00:00', 2)")
    shown = parts(
        local,
        "toString(delete_ttl_info_min), toString(delete_ttl_info_max), rows_where_ttl_info.expression AS w, "
        "toString(rows_where_ttl_info.max), recompression_ttl_info.expression AS r, "
        "toString(recompression_ttl_info.min), "
        "group_by_ttl_info.expression, toString(group_by_ttl_info.max), default_compression_codec, move_ttl_info.min",
    )
    assert shown == [
        (
            "2090-01-02 00:00:00", "2090-02-02 00:00:00", ["d + toIntervalDay(2)"], "['2090-01-03 00:00:00']",
            ["d + toIntervalDay(4)"], "['2090-01-05 00:00:00']", ["d + toIntervalDay(5)"], "['2090-02-06 00:00:00']",
            "LZ4", [],
        )
    ]  # fmt: skip
    query = "SELECT column, toString(column_ttl_max) FROM system.parts_columns WHERE table = 't' ORDER BY column"
    assert local.run(query) == [("d", None), ("k", None), ("v", "2090-02-04 00:00:00")]


def test_a_part_of_before_the_ttl(local: Local) -> None:
    """Nothing is known of it, so a merge looks; what it found the new part knows."""
    local.run(f"CREATE TABLE t (k UInt32, d Date) ENGINE = MergeTree ORDER BY k SETTINGS {STILL}")
    local.run("INSERT INTO t VALUES (1, '2090-01-01'), (2, '2000-01-01')")
    local.run("ALTER TABLE t MODIFY TTL d SETTINGS materialize_ttl_after_modify = 0")
    local.restart()
    assert keys(local) == [1, 2]
    assert parts(local, "toUInt32(delete_ttl_info_max)") == [(0,)]
    local.run("OPTIMIZE TABLE t FINAL")
    assert keys(local) == [1]
    assert parts(local, "toString(delete_ttl_info_max)") == [("2090-01-01 00:00:00",)]
    local.run("ALTER TABLE t RENAME COLUMN d TO e")
    assert "TTL e" in str(local.value("SHOW CREATE TABLE t"))
    with pytest.raises(PandoError) as caught:
        local.run("ALTER TABLE t DROP COLUMN e")
    assert caught.value.code == 47
    local.run("ALTER TABLE t REMOVE TTL, DROP COLUMN e")
    assert "TTL" not in str(local.value("SHOW CREATE TABLE t"))


def test_many_blocks(local: Local) -> None:
    """Groups and runs that go on in the next slice of a merge are the same as in one."""
    local.run(
        "CREATE TABLE t (k UInt32, g UInt32, d Date, v UInt64, s String) ENGINE = MergeTree ORDER BY (k, g) "
        f"TTL d GROUP BY k SET v = sum(v), s = max(s) SETTINGS {STILL}"
    )
    day = "if(number % 400000 = 399999, '2090-01-01', '2000-01-01')"
    values = f"intDiv(number, 300000), number, {day}, 1, toString(number % 10)"
    for first in (0, 1):
        local.run(f"INSERT INTO t SELECT {values} FROM numbers(1500000) WHERE number % 2 = {first}")
    local.run("OPTIMIZE TABLE t FINAL")
    found = local.run("SELECT k, g, v, s FROM t ORDER BY k, g")
    young = [399_999, 799_999, 1_199_999]
    expected, begin = [], 0
    for end in sorted({*range(300_000, 1_500_001, 300_000), *young, *(number + 1 for number in young)}):
        is_young = begin in young
        expected.append((begin // 300_000, begin, end - begin, "9"))
        assert not is_young or end == begin + 1
        begin = end
    assert found == expected


def test_the_time_of_now(local: Local) -> None:
    local.run("CREATE TABLE t (k UInt32) ENGINE = MergeTree ORDER BY k " + f"SETTINGS {STILL}")
    local.run("INSERT INTO t SELECT number FROM numbers(6)")
    local.run("ALTER TABLE t MODIFY TTL k % 2 = 0 ? today() - 10 : toDate('2100-01-01')")
    assert keys(local) == [1, 3, 5]
    assert "TTL if((k % 2) = 0, today() - 10, toDate('2100-01-01'))" in str(local.value("SHOW CREATE TABLE t"))
    replicated = (
        "CREATE TABLE r (k UInt32) ENGINE = ReplicatedMergeTree('/r', 'a') ORDER BY k TTL toDate(k) + (today() - 1)"
    )
    with pytest.raises(PandoError, match="contains function today") as caught:
        local.run(replicated)
    assert caught.value.code == 36


def test_empty_parts_that_stay(local: Local) -> None:
    local.run(
        "CREATE TABLE t (k UInt32, d DateTime) ENGINE = MergeTree ORDER BY k TTL d + INTERVAL 10 DAY "
        "SETTINGS remove_empty_parts = 0"
    )
    local.run("INSERT INTO t VALUES (1, '2000-01-01 01:02:03'), (2, '2000-02-03 04:05:06')")
    local.run("OPTIMIZE TABLE t FINAL")
    assert parts(local, "rows, toUInt32(delete_ttl_info_min), toUInt32(delete_ttl_info_max)") == [(0, 0, 0)]
    local.restart()
    assert parts(local, "rows") == [(0,)]
    local.run("INSERT INTO t VALUES (3, now())")
    local.run("OPTIMIZE TABLE t FINAL")
    assert parts(local, "rows") == [(1,)]


def test_times_of_a_column_that_has_the_name_no_more(local: Local) -> None:
    """What a part knows of a rule was of the column that had the name then."""
    for change in (
        ("DROP COLUMN d", "ADD COLUMN d Date DEFAULT '2090-01-01'"),
        ("RENAME COLUMN d TO old", "RENAME COLUMN e TO d"),
        ("CLEAR COLUMN d", "MODIFY COLUMN d DEFAULT '2090-01-01'"),
    ):
        local.run(f"CREATE TABLE t (k UInt32, d Date, e Date) ENGINE = MergeTree ORDER BY k TTL d SETTINGS {STILL}")
        local.run("SYSTEM STOP TTL MERGES t")
        local.run("INSERT INTO t VALUES (1, '2000-01-01', '2090-01-01')")
        if change[0].startswith("CLEAR"):
            local.run("ALTER TABLE t MODIFY COLUMN d DEFAULT '2090-01-01'")
            local.run("ALTER TABLE t CLEAR COLUMN d")
        else:
            local.run("ALTER TABLE t REMOVE TTL")
            for command in change:
                local.run(f"ALTER TABLE t {command}")
            local.run("ALTER TABLE t MODIFY TTL d SETTINGS materialize_ttl_after_modify = 0")
        assert local.run("SELECT k, toString(d) FROM t") == [(1, "2090-01-01")]
        local.run("SYSTEM START TTL MERGES t")
        local.engine.catalog.table("default", "t")._merges._drop_gone()  # type: ignore[attr-defined]
        local.run("OPTIMIZE TABLE t FINAL")
        assert keys(local) == [1]
        local.run("DROP TABLE t")


def test_the_same_ttl_again_changes_no_part(local: Local) -> None:
    local.run("CREATE TABLE t (k UInt32, d Date, v String TTL d + 1) ENGINE = MergeTree ORDER BY k TTL d + 2")
    for command in ("MODIFY TTL d + 2", "MODIFY COLUMN v String TTL d + 1"):
        local.run(f"ALTER TABLE t {command}")
    assert local.value("SELECT count() FROM system.mutations WHERE table = 't'") == 0
    local.run("ALTER TABLE t MODIFY TTL d + 3")
    assert local.value("SELECT count() FROM system.mutations WHERE table = 't'") == 1
