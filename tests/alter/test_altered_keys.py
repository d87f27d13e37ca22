"""MODIFY ORDER BY and SAMPLE BY of one server: rows stay findable and mergeable, as in ClickHouse."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import numpy as np
import pytest

from parts.common.errors import PandoError
from parts.merge.part_merge import merge_parts
from parts.read.key_mapping import map_primary_index
from parts.read.part_reader import open_part
from sql.formats.registry import write_blocks
from sql.settings.supported_settings import DEFAULT_SETTINGS
from tests.engine.conftest import Local
from tests.portions import one_in
from tests.sql.oracle import Oracle

SETTINGS = "index_granularity = 4, index_granularity_bytes = 0, min_bytes_for_wide_part = 0"


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Local]:
    running = Local(tmp_path_factory.mktemp("keys") / "data")
    running.run("CREATE DATABASE altered_keys")
    running.run("USE altered_keys")
    yield running
    running.engine.stop()


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    asked = Oracle()
    asked.query("CREATE DATABASE altered_keys")
    asked.query("USE altered_keys")
    yield asked
    asked.query("USE default")
    asked.query("DROP DATABASE altered_keys")
    asked.close()


def answer(local: Local, sql: str) -> str:
    result = local.engine.execute(sql, local.session, None)
    return b"".join(write_blocks("TSV", result.columns, result.batches, settings=DEFAULT_SETTINGS)).decode()


def history(seed: int) -> Iterator[str]:
    """Keys grow and shrink between INSERTs, merges and mutations; k is unique, so the order of rows is settled."""
    random = Random(seed)
    first = random.choice(("k % 5", "intDiv(k, 10)", "k"))
    key, columns, used = [first], [], 0
    yield f"CREATE TABLE t (k UInt32, v UInt32) ENGINE = MergeTree ORDER BY ({first}) SETTINGS {SETTINGS}"
    for _ in range(12):
        match random.choice(("insert", "insert", "insert", "grow", "grow", "shrink", "merge", "drop", "update")):
            case "insert":
                values = ["number", "number * 7 % 31", *(f"number * {random.randrange(9)} % 5" for _ in columns)]
                names = ", ".join(["k", "v", *columns])
                yield f"INSERT INTO t ({names}) SELECT {', '.join(values)} FROM numbers({used}, 30)"
                used += 30
            case "grow":
                name = f"c{len(columns)}_{random.randrange(2)}"
                if name in columns:
                    continue
                type_ = random.choice(("UInt8", "Int64", "String", "LowCardinality(String)"))
                new = random.choice((name, f"length({name})" if "String" in type_ else f"{name} + 1"))
                key.insert(random.randrange(1, len(key) + 1), new)
                columns.append(name)
                yield f"ALTER TABLE t ADD COLUMN {name} {type_}, MODIFY ORDER BY ({', '.join(key)})"
            case "shrink" if len(key) > 1:
                del key[random.randrange(1, len(key)) :]
                yield f"ALTER TABLE t MODIFY ORDER BY ({', '.join(key)})"
            case "merge":
                yield "OPTIMIZE TABLE t FINAL"
            case "drop":
                free = [name for name in columns if not any(name in text for text in key)]
                if free:
                    columns.remove(free[0])
                    yield f"ALTER TABLE t DROP COLUMN {free[0]}"
            case "update":
                yield "ALTER TABLE t UPDATE v = v + 1 WHERE k % 3 = 0 SETTINGS mutations_sync = 1"


def questions(columns: list[str], random: Random) -> Iterator[str]:
    yield "SELECT * FROM t ORDER BY k"
    for name in ("k", *columns):
        bound = random.randrange(5)
        yield f"SELECT groupArray(k) FROM (SELECT k FROM t WHERE toString({name}) = '{bound}' ORDER BY k)"
        if name == "k":
            yield f"SELECT count(), sum(v) FROM t WHERE k > {bound * 9} AND k < {bound * 20}"


@pytest.mark.parametrize("seed", one_in(14, range(14)))
@pytest.mark.long
def test_histories(local: Local, oracle: Oracle, seed: int) -> None:
    random = Random(seed)
    for server in (local.run, oracle.query):
        server("DROP TABLE IF EXISTS t")
    told = []
    for statement in history(seed):
        told.append(statement)
        local.run(statement)
        oracle.query(statement)
        columns = [
            str(name)
            for (name,) in local.run(
                "SELECT name FROM system.columns WHERE table = 't' AND database = currentDatabase()"
            )
        ]
        for question in questions(columns[2:], random):
            found, expected = answer(local, question), oracle.query(question).decode()
            assert found == expected, ";\n".join([*told, question])
    for server in (local.run, oracle.query):
        server("DROP TABLE t")


def test_parts_of_former_keys_merge_in_slices(local: Local, tmp_path: Path) -> None:
    """The cuts of a large merge come from the indexes, of which some lack an expression."""
    local.run(f"CREATE TABLE m (k UInt32, v UInt32) ENGINE = MergeTree ORDER BY k SETTINGS {SETTINGS}")
    local.run("INSERT INTO m SELECT intDiv(number, 9), number FROM numbers(200)")
    local.run("ALTER TABLE m ADD COLUMN a Int32, MODIFY ORDER BY (k, -a)")
    local.run("INSERT INTO m SELECT intDiv(number, 9), number, number % 7 - 3 FROM numbers(200)")
    local.run("ALTER TABLE m ADD COLUMN b UInt8, MODIFY ORDER BY (k, b, -a)")
    local.run("INSERT INTO m SELECT intDiv(number, 9), number, number % 5 - 2, number % 3 FROM numbers(200)")
    table = local.engine.catalog.table("altered_keys", "m")
    with table.snapshot() as snapshot:
        merge_parts(snapshot.parts, tmp_path / "merged", table.description, target_slice_rows=40)
    part = open_part(tmp_path / "merged", table_schema=table.description.schema)
    found = [row for batch in part.read(["k", "b", "a", "v"]) for row in zip(*batch.to_pydict().values(), strict=True)]
    assert found == sorted(found, key=lambda row: (row[0], row[1], -row[2])), "the rows are in the order of the key"
    assert len(found) == 600
    index = map_primary_index(part, table.description.sorting_key)
    assert np.array_equal(index.keys[0].to_numpy(), [row[0] for row in [*found[::4], found[-1]]])
    local.run("DROP TABLE m")


@pytest.mark.parametrize("source", ["detached", "another table"])
def test_parts_of_before_are_attached(local: Local, oracle: Oracle, source: str) -> None:
    statements = [
        "CREATE TABLE t (k UInt32, p UInt8) ENGINE = MergeTree PARTITION BY p ORDER BY k",
        "INSERT INTO t SELECT number, number % 2 FROM numbers(50)",
        "CREATE TABLE u AS t",
        "INSERT INTO u SELECT number + 100, 0 FROM numbers(5)",
        "ALTER TABLE t DETACH PARTITION 0",
        "ALTER TABLE t ADD COLUMN a UInt8, MODIFY ORDER BY (k, a)",
        "ALTER TABLE u ADD COLUMN a UInt8, MODIFY ORDER BY (k, a)",
        "INSERT INTO t SELECT number, 0, number % 3 FROM numbers(20)",
        "ALTER TABLE t ATTACH PARTITION 0" if source == "detached" else "ALTER TABLE t ATTACH PARTITION 0 FROM u",
        "OPTIMIZE TABLE t PARTITION 0 FINAL",
    ]
    question = "SELECT count(), sum(k), sum(a), countIf(a = 0) FROM t WHERE p = 0 AND a < 2"
    try:
        for statement in statements:
            local.run(statement)
            oracle.query(statement)
        assert answer(local, question) == oracle.query(question).decode()
        local.run("CREATE TABLE other (k UInt32, p UInt8, a UInt8) ENGINE = MergeTree PARTITION BY p ORDER BY (a, k)")
        with pytest.raises(PandoError, match="different sorting key"):
            local.run("ALTER TABLE t ATTACH PARTITION 1 FROM other")
    finally:
        for server in (local.run, oracle.query):
            server("DROP TABLE t")
            server("DROP TABLE u")
        local.run("DROP TABLE IF EXISTS other")


def test_a_restart_knows_the_keys(tmp_path: Path) -> None:
    local = Local(tmp_path / "data")
    local.run("CREATE TABLE t (k UInt32) ENGINE = MergeTree ORDER BY tuple()")
    local.run("INSERT INTO t SELECT number FROM numbers(9)")
    local.run("ALTER TABLE t ADD COLUMN a UInt32, MODIFY ORDER BY a")
    local.run("INSERT INTO t SELECT number, number % 3 FROM numbers(9)")
    for _ in range(2):
        assert "PRIMARY KEY tuple()\nORDER BY a" in str(local.value("SHOW CREATE TABLE t"))
        assert local.value("SELECT sum(k) FROM t WHERE a = 0") == 36 + 0 + 3 + 6
        assert local.value("SELECT count() FROM t WHERE a > 0") == 6
        local.restart()
    local.engine.stop()


@pytest.mark.parametrize(
    ("commands", "code", "message"),
    [
        ("MODIFY ORDER BY (k, v)", 36, "Existing column v"),
        ("ADD COLUMN x UInt8, MODIFY ORDER BY (k, x + k)", 36, "Existing column k"),
        ("ADD COLUMN x UInt8 DEFAULT 1, MODIFY ORDER BY (k, x)", 36, "has a default"),
        ("RENAME COLUMN v TO w, MODIFY ORDER BY (k, w)", 36, "Existing column w"),
        ("ADD COLUMN x Nullable(UInt8), MODIFY ORDER BY (k, x)", 44, "nullable"),
        ("ADD COLUMN x UInt8, MODIFY ORDER BY (x, k)", 36, "prefix"),
        ("MODIFY ORDER BY tuple()", 36, "prefix"),
        ("MODIFY ORDER BY (k, 1)", 44, "constants"),
        ("MODIFY ORDER BY (k, nope)", 47, "nope"),
        ("MODIFY ORDER BY", 62, "key expression"),
        ("MODIFY SAMPLE BY v", 36, "primary key"),
        ("MODIFY SAMPLE BY k", 59, "Int32"),
        ("REMOVE SAMPLE BY", 36, "doesn't have SAMPLE BY"),
        ("MODIFY COLUMN late UInt8 DEFAULT v", 36, "came into the sorting key after"),
        ("UPDATE late = 1 WHERE 1", 420, "key column"),
        ("DROP COLUMN late, MODIFY ORDER BY k", 524, "sorting key"),
    ],
)
def test_what_parts_are_not_sorted_by_is_refused(local: Local, commands: str, code: int, message: str) -> None:
    local.run("CREATE TABLE IF NOT EXISTS r (k Int32, v UInt32) ENGINE = MergeTree ORDER BY k")
    if not local.value("SELECT count() FROM system.columns WHERE table = 'r' AND name = 'late'"):
        local.run("ALTER TABLE r ADD COLUMN late UInt8, MODIFY ORDER BY (k, late)")
    before = local.run("SHOW CREATE TABLE r")
    with pytest.raises(PandoError, match=message) as caught:
        local.run(f"ALTER TABLE r {commands}")
    assert caught.value.code == code
    assert local.run("SHOW CREATE TABLE r") == before


def test_sampling(local: Local, oracle: Oracle) -> None:
    statements = [
        "CREATE TABLE t (k UInt32, h UInt32) ENGINE = MergeTree ORDER BY (h, k)",
        "INSERT INTO t SELECT number, intHash32(number) FROM numbers(5000)",
        "ALTER TABLE t MODIFY SAMPLE BY h",
    ]
    for statement in statements:
        local.run(statement)
        oracle.query(statement)
    for sample in ("1/10", "0.3 OFFSET 0.5", "700"):
        question = f"SELECT count(), sum(k) FROM t SAMPLE {sample}"
        assert answer(local, question) == oracle.query(question).decode()
    for server in (local.run, oracle.query):
        server("ALTER TABLE t REMOVE SAMPLE BY")
    with pytest.raises(PandoError, match="doesn't support sampling"):
        local.run("SELECT count() FROM t SAMPLE 1/2")
    for server in (local.run, oracle.query):
        server("DROP TABLE t")


def test_a_merge_by_what_is_computed_of_low_cardinality(local: Local) -> None:
    local.run("CREATE TABLE c (k UInt32, s LowCardinality(String)) ENGINE = MergeTree ORDER BY (length(s), k)")
    for first in (0, 50):
        local.run(f"INSERT INTO c SELECT number, repeat('a', number % 3) FROM numbers({first}, 50)")
    local.run("OPTIMIZE TABLE c FINAL")
    assert local.run("SELECT length(s), count(), max(k) FROM c GROUP BY 1 ORDER BY 1") == [
        (0, 34, 99), (1, 33, 97), (2, 33, 98)
    ]  # fmt: skip
    local.run("DROP TABLE c")
