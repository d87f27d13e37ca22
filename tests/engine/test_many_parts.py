"""Tables of many parts: what a statement does does not grow faster than the parts, where it must grow at all."""

from __future__ import annotations

from collections import Counter
from datetime import date

import pytest

from engine.queries.context import OwnerContext
from engine.system_tables import SYSTEM_DATABASES
from engine.system_tables.system_table import SystemRelation
from sql.settings.supported_settings import DEFAULT_SETTINGS
from tests.engine.conftest import Local
from tests.work import calls_of

_SETTINGS = "max_bytes_to_merge_at_max_space_in_pool = 1, parts_to_delay_insert = 100000"


def _fill(local: Local, table: str, parts: int, first: int = 0) -> None:
    for number in range(first, first + parts):
        local.run(f"INSERT INTO {table} VALUES ({number}, '2024-01-{number % 28 + 1:02}')")


def _make(local: Local, parts: int, table: str = "t") -> None:
    local.run(
        f"CREATE TABLE {table} (k UInt64, d Date) ENGINE = MergeTree PARTITION BY toYYYYMM(d) ORDER BY k "
        f"SETTINGS {_SETTINGS}"
    )
    _fill(local, table, parts)


def _read(local: Local, *columns: str) -> Counter[str]:
    """The functions that run when these columns of system.parts are read; DuckDB's threads could not be counted."""
    context = OwnerContext(local.engine, local.session, DEFAULT_SETTINGS, "")
    relation = SystemRelation(SYSTEM_DATABASES["system"]["parts"], context)
    return calls_of(lambda: relation.read(columns))


def test_of_parts_only_the_values_that_are_asked_for_are_made(local: Local) -> None:
    _make(local, 20)
    _read(local, "active")
    made = _read(local, "active")
    assert made["engine.system_tables.parts._active"] == 20
    assert made.total() < 20 * 10 + 100
    assert local.value("SELECT count() FROM system.parts") == 20


def test_the_value_of_a_partition_is_written_once(local: Local) -> None:
    _make(local, 20)
    assert local.run("SELECT DISTINCT partition, partition_id FROM system.parts") == [("202401", "202401")]
    assert _read(local, "partition")["engine.tables.part_log._written"] == 0


def test_some_columns_of_parts_are_those_of_all(local: Local) -> None:
    _make(local, 3)
    (names,) = list(local.run("SELECT groupArray(name) FROM system.columns WHERE table = 'parts'"))
    assert len(names[0]) > 40  # type: ignore[arg-type]
    whole = local.run("SELECT * FROM system.parts ORDER BY name")
    shown = [row[0] for row in local.run("SELECT name FROM system.columns WHERE table = 'parts' AND default_kind = ''")]
    for place, name in enumerate(shown):
        alone = local.run(f"SELECT `{name}` FROM system.parts ORDER BY name")
        if name != "refcount":
            assert [row[0] for row in alone] == [row[place] for row in whole], name


def test_a_point_query_looks_at_the_index_of_few_parts(local: Local) -> None:
    _make(local, 60)
    sql = "SELECT d FROM t WHERE k = 7"
    local.run(sql)
    made = calls_of(lambda: local.run(sql))
    assert made["sql.pruning.index_analysis.prune_granules"] == 1
    assert made["parts.read.key_mapping.map_primary_index"] <= 2
    assert "sql.pruning.part_bounds._find_extremes" not in made
    assert local.run(sql) == [(date(2024, 1, 8),)]
    assert local.value("SELECT count() FROM t WHERE k BETWEEN 10 AND 29") == 20
    assert local.value("SELECT count() FROM t WHERE NOT (k BETWEEN 10 AND 29) AND d != '2024-01-01'") == 38


def test_a_snapshot_of_parts_that_did_not_change_touches_none(local: Local) -> None:
    _make(local, 30)
    store = local.engine.catalog.table("default", "t").store
    first = store.snapshot()
    calls = calls_of(lambda: store.snapshot().release())
    assert calls.total() < 25
    assert store.is_read()
    local.run("TRUNCATE TABLE t")
    outdated = store.list_deletable(now=1e12)
    assert outdated == []  # somebody reads them
    assert {entry.references for entry in store.entries()} == {1}
    first.release()
    assert not store.is_read()
    assert len(store.list_deletable(now=1e12)) == 30


def test_a_new_part_is_seen_beside_ranges_that_were_kept(local: Local) -> None:
    _make(local, 20)
    for number in (100, 3):
        assert local.value(f"SELECT count() FROM t WHERE k = {number}") == int(number == 3)
    local.run("INSERT INTO t VALUES (100, '2024-02-01')")
    assert local.value("SELECT count() FROM t WHERE k = 100") == 1
    assert local.value("SELECT count() FROM t WHERE d = '2024-02-01'") == 1
    local.run("ALTER TABLE t DROP PARTITION 202402")
    assert local.value("SELECT count() FROM t WHERE k = 100") == 0


@pytest.mark.parametrize("statement", ["TRUNCATE TABLE t", "ALTER TABLE t DROP PARTITION tuple()"])
def test_a_drop_beside_dropped_parts_does_not_ask_of_those_again(local: Local, statement: str) -> None:
    local.run(
        "CREATE TABLE t (k UInt64) ENGINE = MergeTree ORDER BY k SETTINGS max_bytes_to_merge_at_max_space_in_pool = 1"
    )
    for number in range(60):
        local.run(f"INSERT INTO t VALUES ({number})")
    assert calls_of(lambda: local.run(statement))["parts.common.part_name.PartName.covers"] <= 4 * 60
    local.run("INSERT INTO t VALUES (1)")
    made = calls_of(lambda: local.run(statement))
    assert made["parts.store.drop_markers.DropMarkers.is_dropped"] == 1
    assert made["parts.common.part_name.PartName.covers"] <= 10
    local.run("INSERT INTO t VALUES (7)")
    local.restart()
    assert local.run("SELECT k FROM t") == [(7,)]
