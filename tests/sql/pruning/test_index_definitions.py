"""Skip indexes in definitions: CREATE TABLE and ALTER TABLE beside ClickHouse's, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from parts.common.errors import PandoError
from tests.portions import one_in
from tests.sql.pruning.conftest import Local, Oracle

COLUMNS = (
    "id UInt64, s String, a Array(String), m Map(String, String), n Nullable(Int32), f Float64, z Int64 DEFAULT id"
)
ENGINE = "ENGINE = MergeTree ORDER BY id SETTINGS index_granularity = 4"


def code(local: Local, sql: str) -> int:
    try:
        local.run(sql)
    except PandoError as error:
        return error.code
    return 0


def definition(text: str) -> str:
    """Columns and indexes as SHOW CREATE TABLE has them."""
    return text[text.index("(") : text.index("ENGINE")].strip()


@pytest.mark.parametrize(
    "indexes",
    one_in(
        3,
        [
            "INDEX i1 id TYPE minmax GRANULARITY 2, INDEX i2 (id + 1) * 2 TYPE set(100)",
            "INDEX i s TYPE bloom_filter, INDEX j lower(s) TYPE ngrambf_v1(3, 256, 2, 0) GRANULARITY 4",
            "INDEX i (id, s) TYPE bloom_filter(0.01), INDEX j mapKeys(m) TYPE bloom_filter(0.1) GRANULARITY 1000",
            "INDEX `i x` a TYPE tokenbf_v1(256, 2, 0), INDEX j (s, a) TYPE tokenbf_v1(256, 2, 7)",
            "INDEX i n TYPE minmax(3), INDEX j m['a'] TYPE MinMax, INDEX k (id) TYPE SET(0)",
            "INDEX i (id, n) TYPE minmax, INDEX j f TYPE bloom_filter, INDEX k n TYPE bloom_filter",
            "INDEX i id TYPE minmax, INDEX i id TYPE minmax",
            "INDEX i zz TYPE minmax",
            "INDEX i (id, zz) TYPE minmax",
            "INDEX i id TYPE foo",
            "INDEX i s TYPE full_text",
            "INDEX i id = 1 TYPE hypothesis",
            "INDEX i id TYPE set",
            "INDEX i id TYPE set('a')",
            "INDEX i id TYPE set(1, 2)",
            "INDEX i id TYPE set(-1)",
            "INDEX i id TYPE bloom_filter(2)",
            "INDEX i id TYPE bloom_filter(0)",
            "INDEX i id TYPE bloom_filter('a')",
            "INDEX i id TYPE bloom_filter(0.1, 2)",
            "INDEX i m TYPE bloom_filter",
            "INDEX i [n] TYPE bloom_filter",
            "INDEX i id TYPE ngrambf_v1(3, 256, 2, 0)",
            "INDEX i (s, id) TYPE tokenbf_v1(256, 2, 0)",
            "INDEX i s TYPE ngrambf_v1(3, 256, 2)",
            "INDEX i s TYPE ngrambf_v1(0, 256, 2, 0)",
            "INDEX i s TYPE ngrambf_v1(3, 256, 0, 0)",
            "INDEX i s TYPE ngrambf_v1(3, 99999999999, 2, 0)",
            "INDEX i s TYPE tokenbf_v1(256, 2)",
            "INDEX i s TYPE tokenbf_v1(0, 2, 0)",
            "INDEX i s TYPE tokenbf_v1('a', 2, 0)",
            "INDEX i id TYPE minmax GRANULARITY 0",
            "INDEX i id TYPE minmax GRANULARITY -1",
            "INDEX i id",
            "INDEX id TYPE minmax",
            "INDEX i (s, rand()) TYPE minmax",
            "INDEX i now() TYPE minmax",
            "INDEX i 1 TYPE minmax",
            "INDEX i (SELECT 1) TYPE minmax",
            "INDEX i sum(id) TYPE minmax",
            "INDEX i arrayJoin(a) TYPE minmax",
        ],
    ),
)
def test_create(local: Local, oracle: Oracle, indexes: str) -> None:
    sql = f"CREATE TABLE t ({COLUMNS}, {indexes}) {ENGINE}"
    expected = oracle.error(sql)
    assert code(local, sql) == expected
    if not expected:
        shown = str(local.value("SHOW CREATE TABLE t"))
        assert definition(shown) == definition(oracle.run("SHOW CREATE TABLE t"))
        local.restart()
        assert local.value("SHOW CREATE TABLE t") == shown


ALTERS = (
    "ADD INDEX i1 zz TYPE minmax",
    "ADD INDEX i1 n TYPE minmax",
    "ADD INDEX i1 z TYPE minmax",
    "ADD INDEX IF NOT EXISTS i1 z TYPE minmax",
    "ADD INDEX i2 s TYPE set(10) GRANULARITY 2, ADD INDEX i3 z TYPE minmax FIRST",
    "ADD INDEX i4 z TYPE minmax AFTER i3",
    "ADD INDEX i5 z TYPE minmax AFTER zz",
    "DROP INDEX zz",
    "DROP INDEX IF EXISTS zz",
    "DROP COLUMN s",
    "DROP INDEX i2, DROP COLUMN s",
    "CLEAR COLUMN n",
    "RENAME COLUMN n TO n2",
    "DROP INDEX i4, ADD INDEX i4 n2 + 1 TYPE minmax",
    "ADD COLUMN q Int32, ADD INDEX iq (q, z) TYPE set(0)",
    "DROP COLUMN q",
    "ADD COLUMN r Int32, ADD INDEX ir r TYPE foo",
)


def test_alter(local: Local, oracle: Oracle) -> None:
    create = f"CREATE TABLE t ({COLUMNS}) {ENGINE}"
    local.run(create)
    oracle.run(create)
    for commands in ALTERS:
        sql = f"ALTER TABLE t {commands}"
        assert code(local, sql) == oracle.error(sql), sql
        assert definition(str(local.value("SHOW CREATE TABLE t"))) == definition(oracle.run("SHOW CREATE TABLE t")), sql


def test_index_on_replicas_is_one(tmp_path: Path) -> None:
    from engine.simulator.simulated_disk import (
        record_syncs,
    )
    from engine.simulator.simulated_servers import SimulatedServers
    from engine.simulator.trace import Trace
    from parts.common.thread_pool import (
        run_jobs_inline,
    )

    disks: dict[Path, object] = {}
    with record_syncs(disks), run_jobs_inline():  # type: ignore[arg-type]
        servers = SimulatedServers(tmp_path, 2, 0, Trace(None), disks)  # type: ignore[arg-type]
        servers.settle()
        one, two = servers.servers
        two.is_frozen = True
        one.sql("ALTER TABLE t ADD INDEX i k + 1 TYPE set(3) GRANULARITY 2, ADD INDEX j v TYPE bloom_filter")
        two.is_frozen = False
        two.sql("ALTER TABLE t DROP INDEX j, ADD INDEX l v TYPE minmax FIRST")
        servers.settle()
        shown = [str(server.sql("SHOW CREATE TABLE t")[1][0][0]) for server in (one, two)]
        assert shown[0] == shown[1]
        assert "INDEX l v TYPE minmax GRANULARITY 1,\n    INDEX i k + 1 TYPE set(3) GRANULARITY 2\n" in shown[0]
        servers.end()


@pytest.mark.parametrize("setting", ["", "min_bytes_for_full_part_storage = 0", "min_bytes_for_wide_part = 0"])
def test_replicas_fetch_indexes(tmp_path: Path, setting: str) -> None:
    from engine.simulator.simulated_disk import (
        record_syncs,
    )
    from engine.simulator.simulated_servers import SimulatedServers
    from engine.simulator.trace import Trace
    from parts.common.thread_pool import (
        run_jobs_inline,
    )

    disks: dict[Path, object] = {}
    with record_syncs(disks), run_jobs_inline():  # type: ignore[arg-type]
        servers = SimulatedServers(tmp_path, 2, 0, Trace(None), disks)  # type: ignore[arg-type]
        servers.settle()
        one, two = servers.servers
        one.sql("ALTER TABLE t ADD INDEX i k TYPE minmax, ADD INDEX j v TYPE bloom_filter(0.0001)")
        for server in (one, two) if setting else ():
            server.sql(f"ALTER TABLE t MODIFY SETTING {setting}")
        servers.settle()
        for begin in (0, 100):
            one.insert(1, list(range(begin, begin + 100)))
            servers.settle()
        two.sql("OPTIMIZE TABLE t FINAL")
        servers.settle()
        sizes = "SELECT name, secondary_indices_compressed_bytes FROM system.parts WHERE active ORDER BY name"
        assert one.sql(sizes)[1] == two.sql(sizes)[1]
        assert all(size for _, size in two.sql(sizes)[1])
        assert one.check() == two.check() == []
        explained = "EXPLAIN indexes = 1 SELECT * FROM t WHERE v = 'value 500'"
        assert [str(line).strip() for (line,) in two.sql(explained)[1]][-1] == "Granules: 0/1"
        assert two.sql("SELECT k FROM t WHERE v = 'value 150'")[1] == [(150,)]
        servers.end()
