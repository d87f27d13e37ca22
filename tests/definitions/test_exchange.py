"""EXCHANGE TABLES, CREATE OR REPLACE and REPLACE TABLE: one table or the other, for readers and over a crash."""

from __future__ import annotations

import errno
import threading
from pathlib import Path

import pytest

from engine.queries.session import Session
from parts.common.errors import PandoError
from parts.format import hashed_file
from parts.format.hashed_file import replace_sync
from tests.definitions.conftest import Both
from tests.engine.conftest import Local
from tests.power_cut import power_cut

pytestmark = pytest.mark.long

TWO = (
    "CREATE TABLE a (x UInt8) ENGINE = MergeTree ORDER BY x",
    "CREATE TABLE b (y String) ENGINE = Log",
    "INSERT INTO a VALUES (1), (2)",
    "INSERT INTO b VALUES ('three')",
)


def test_create_or_replace(both: Both) -> None:
    both.compare(
        """
        CREATE OR REPLACE TABLE a (x Int32) ENGINE = MergeTree ORDER BY x;
        INSERT INTO a VALUES (1);
        CREATE OR REPLACE TABLE a (y String) ENGINE = Log;
        SHOW CREATE TABLE a;
        SELECT count() FROM a;
        REPLACE TABLE c (y String) ENGINE = Log;
        REPLACE TABLE a (z String) ENGINE = Memory;
        SHOW CREATE TABLE a;
        CREATE OR REPLACE TABLE IF NOT EXISTS a (z String) ENGINE = Memory;
        CREATE OR REPLACE TABLE b ENGINE = Memory AS SELECT number AS n FROM numbers(3);
        CREATE OR REPLACE TABLE b AS SELECT n + 1 AS n FROM b;
        SELECT * FROM b ORDER BY n;
        CREATE OR REPLACE TABLE b ENGINE = Log AS SELECT throwIf(number = 2) AS n FROM numbers(10);
        CREATE OR REPLACE TABLE b (a Int8) ENGINE = Log ORDER BY a;
        SELECT * FROM b ORDER BY n;
        SHOW TABLES
        """
    )


def test_exchange(both: Both) -> None:
    both.compare(
        """
        CREATE TABLE a ENGINE = Memory AS SELECT 1 AS x;
        CREATE TABLE b ENGINE = Log AS SELECT 'b' AS y;
        CREATE TABLE c ENGINE = MergeTree AS SELECT 3 AS z;
        EXCHANGE TABLES a AND b;
        SHOW CREATE TABLE a;
        SELECT * FROM a;
        SELECT * FROM b;
        EXCHANGE TABLES a AND b, b AND c;
        SELECT * FROM a;
        SELECT * FROM b;
        SELECT * FROM c;
        EXCHANGE TABLES a AND nope;
        EXCHANGE TABLES nope AND a;
        EXCHANGE TABLES a AND a;
        EXCHANGE TABLE a AND b;
        RENAME TABLE a TO d, b TO a, d TO b;
        SELECT * FROM a;
        DROP TABLE a, c;
        CREATE TABLE a ENGINE = Log AS SELECT 'new' AS w;
        CREATE TABLE c AS a;
        INSERT INTO c SELECT * FROM a;
        SELECT * FROM a, b, c;
        DETACH TABLE a;
        ATTACH TABLE a;
        SELECT * FROM a;
        SHOW TABLES
        """
    )


def test_exchange_of_two_databases(both: Both) -> None:
    both.compare(
        """
        CREATE DATABASE exchanged_with;
        CREATE TABLE a ENGINE = Memory AS SELECT 1 AS x;
        CREATE TABLE exchanged_with.b ENGINE = MergeTree AS SELECT 'b' AS y;
        EXCHANGE TABLES a AND exchanged_with.b;
        SHOW CREATE TABLE a;
        SHOW CREATE TABLE exchanged_with.b;
        DROP DATABASE exchanged_with;
        SELECT * FROM a;
        DROP TABLE a
        """
    )


def test_as_another_table(both: Both) -> None:
    both.compare(
        """
        CREATE TABLE a (x Int32, y String DEFAULT 'y', INDEX i x TYPE minmax)
        ENGINE = MergeTree PARTITION BY x ORDER BY x;
        CREATE TABLE b AS a;
        SHOW CREATE TABLE b;
        CREATE TABLE c AS a ORDER BY y;
        SHOW CREATE TABLE c;
        CREATE TABLE d (x Int32) ENGINE = Memory;
        CREATE TABLE e AS d ENGINE = Log;
        SHOW CREATE TABLE e;
        CREATE TABLE f AS d ORDER BY x;
        CREATE TABLE g AS system.one;
        CREATE TABLE g ENGINE = Log AS system.one;
        SELECT * FROM g;
        CREATE TABLE IF NOT EXISTS e (w Int8);
        CREATE TABLE IF NOT EXISTS e AS SELECT 1;
        SELECT count() FROM e;
        CREATE TABLE h (a Int8, b Int8) ENGINE = Log AS SELECT 1 AS a;
        CREATE TABLE i (a String, b Int8) ENGINE = Log AS SELECT 1, 2;
        SELECT * FROM i;
        CREATE TABLE j EMPTY AS SELECT 1 AS a, 'x' AS b;
        SHOW CREATE TABLE j
        """
    )


def test_a_failed_replacement_leaves_nothing(local: Local) -> None:
    for statement in TWO:
        local.run(statement)
    with pytest.raises(PandoError):
        local.run("CREATE OR REPLACE TABLE a ENGINE = Log AS SELECT throwIf(number = 2) AS n FROM numbers(10)")
    assert local.run("SHOW TABLES") == [("a",), ("b",)]
    assert sorted(path.name for path in (local.path / "data" / "default").iterdir()) == ["a", "b"]


@pytest.mark.parametrize(
    ("statement", "wanted"),
    [
        ("EXCHANGE TABLES a AND b", {"[(1,), (2,)] [('three',)]", "[('three',)] [(1,), (2,)]"}),
        (
            "CREATE OR REPLACE TABLE a ENGINE = Log AS SELECT 4 AS z",
            {"[(1,), (2,)] [('three',)]", "[(4,)] [('three',)]"},
        ),
        ("REPLACE TABLE b AS a", {"[(1,), (2,)] [('three',)]", "[(1,), (2,)] []"}),
    ],
)
def test_the_power_goes_at_every_fsync(tmp_path: Path, statement: str, wanted: set[str]) -> None:
    """The statement's cases are as many as it syncs files."""
    seen: list[str] = []
    for number in range(1000):
        root, image = tmp_path / f"{number}_before", tmp_path / f"{number}_after"
        root.mkdir()
        local = Local(root)
        for before in TWO:
            local.run(before)
        with power_cut(root, image):
            has_ended = _run_until(number, local, statement)
        local.engine.stop()
        local = Local(image)
        names = [str(name) for (name,) in local.run("SHOW TABLES")]
        assert names in (["a", "b"], ["_tmp_replace_1", "a", "b"]), number  # a journal costs no rows, not even new ones
        seen.append(f"{local.run('SELECT * FROM a')} {local.run('SELECT * FROM b')}")
        assert seen[-1] in wanted, number
        left = {part.parent.name for part in image.glob("data/default/*/all_*")}
        assert len(left) <= len(names), (number, left)
        local.engine.stop()
        if has_ended:
            break
    assert seen == sorted(seen, key=lambda state: state != seen[0]), "once new, it is new"
    assert set(seen) == wanted
    print(f"{len(seen)} cases of {statement}")


def _run_until(number: int, local: Local, statement: str) -> bool:
    """Every fsync from that number on fails. Whether none did."""
    sync, done = hashed_file._sync, 0

    def fail(descriptor: int) -> None:
        nonlocal done
        done += 1
        if done > number:
            raise OSError(errno.EIO, "the power is gone")
        sync(descriptor)

    with replace_sync(fail):
        try:
            local.run(statement)
        except (PandoError, OSError):
            return False
    return True


def test_readers_always_find_a_table(local: Local) -> None:
    for name, value in (("a", 1), ("b", 2)):
        local.run(f"CREATE TABLE {name} ENGINE = MergeTree ORDER BY x AS SELECT {value} AS x FROM numbers(100)")
    found: set[object] = set()
    is_over = threading.Event()

    def read() -> None:
        try:
            while not is_over.is_set():
                result = local.engine.execute("SELECT sum(x) FROM a", Session())
                found.update(
                    row[0] for batch in result.batches for row in zip(*batch.to_pydict().values(), strict=True)
                )
        except Exception as error:
            found.add(repr(error))

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for _ in range(20):
        local.run("EXCHANGE TABLES a AND b")
        local.run("CREATE OR REPLACE TABLE a ENGINE = Log AS SELECT 3 AS x FROM numbers(100)")
        local.run("CREATE OR REPLACE TABLE a ENGINE = MergeTree AS SELECT 1 AS x FROM numbers(100)")
    is_over.set()
    for reader in readers:
        reader.join()
    assert found <= {100, 200, 300}
