"""A server starts with the tables that it can load; the others say why not, and come back when that is mended."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.catalog.database_names import TEMPORARY_DATABASE
from parts.common.errors import PandoError
from parts.format.hashed_file import replace_sync
from tests.engine.conftest import Local
from tests.portions import one_in

TABLE = "CREATE TABLE {} (k UInt32) ENGINE = MergeTree ORDER BY k"
REPLICATED = "ATTACH TABLE t (k UInt32) ENGINE = ReplicatedMergeTree('/t/{nowhere}', 'r') ORDER BY k\n"
ERRORS = "SELECT name FROM system.tables WHERE load_error != ''"

Damage = Callable[[Path], None]


def definition(path: Path) -> Path:
    return path / "metadata" / "default" / "t.sql"


def data(path: Path) -> Path:
    return path / "data" / "default" / "t"


def a_folder(path: Path) -> None:
    definition(path).unlink()
    definition(path).mkdir()


def a_file_for_data(path: Path) -> None:
    data(path).rename(path / "away")
    data(path).write_text("no folder")


DAMAGES: dict[str, tuple[Damage, str]] = {
    "empty": (lambda path: definition(path).write_bytes(b""), "t.sql"),
    "zeroed": (lambda path: definition(path).write_bytes(bytes(100)), "t.sql"),
    "cut off": (lambda path: definition(path).write_text("ATTACH TABLE t (k UIn"), "t.sql"),
    "another statement": (lambda path: definition(path).write_text("SELECT 1"), "t.sql"),
    "no text": (lambda path: definition(path).write_bytes(b"\xff\xfe\x00ATTACH"), "t.sql"),
    "a folder": (a_folder, "t.sql"),
    "a missing macro": (lambda path: definition(path).write_text(REPLICATED), "nowhere"),
    "a file for the data": (a_file_for_data, "data/default/t"),
    "a mutation": (lambda path: (data(path) / "mutation_7.txt").write_text("create time: "), "mutation_7.txt"),
    "an empty mutation": (lambda path: (data(path) / "mutation_7.txt").write_text(""), "mutation_7.txt"),
    "the data of another": (
        lambda path: definition(path).write_text(
            'ATTACH TABLE t (k UInt32) ENGINE = MergeTree ORDER BY k\n-- place {"directory": "default/other"}\n'
        ),
        "data/default/other",
    ),
}


@pytest.fixture
def two(local: Local) -> Local:
    for name in ("other", "t"):
        local.run(TABLE.format(name))
        local.run(f"INSERT INTO {name} VALUES (1)")
    return local


def refusal(local: Local, sql: str) -> str:
    with pytest.raises(PandoError) as refused:
        local.run(sql)
    assert refused.value.code == 695
    return refused.value.message


@pytest.mark.parametrize("name", one_in(3, DAMAGES))
def test_the_others_are_served(two: Local, name: str) -> None:
    damage, named = DAMAGES[name]
    saved = definition(two.path).read_text()
    two.engine.stop()
    damage(two.path)
    two.engine.stop()
    two.restart()
    assert two.run("SELECT k FROM other") == [(1,)]
    two.run("INSERT INTO other VALUES (2)")
    assert two.run(ERRORS) == [("t",)]
    assert two.run("SHOW TABLES") == [("other",), ("t",)]
    assert two.run("SELECT * FROM system.detached_tables") == []
    reasons = {
        refusal(two, sql.format("t")) for sql in ("SELECT * FROM {}", "INSERT INTO {} VALUES (1)", "DROP TABLE {}")
    }
    for reason in (*reasons, refusal(two, TABLE.format("t")), refusal(two, "RENAME TABLE other TO t")):
        assert named in reason, reason
        assert "ATTACH TABLE" in reason, reason
    (status,) = two.engine.replicas_status() if "macro" in name or named == "t.sql" else [None]
    assert status is None or status.problem
    # and what is mended comes back
    if definition(two.path).is_dir():
        definition(two.path).rmdir()
    definition(two.path).write_text(saved)
    for file in (data(two.path) / "mutation_7.txt", data(two.path)):
        if file.is_file():
            file.unlink()
    if (two.path / "away").exists():
        (two.path / "away").rename(data(two.path))
    two.run("ATTACH TABLE t")
    assert two.run("SELECT k FROM t") == [(1,)]
    assert two.run(ERRORS) == []


def test_one_that_is_not_loaded_may_be_left_out(two: Local) -> None:
    two.engine.stop()
    definition(two.path).write_text("")
    two.restart()
    two.run("DETACH TABLE t PERMANENTLY")
    assert two.run("SHOW TABLES") == [("other",)]
    two.restart()
    assert two.run(ERRORS) == []
    assert two.run("SELECT table, is_permanently FROM system.detached_tables") == [("t", 1)]


def test_rows_for_a_view_that_is_not_loaded_are_refused(two: Local) -> None:
    two.run("CREATE VIEW earlier AS SELECT 1 AS k")
    two.run("CREATE MATERIALIZED VIEW m TO t AS SELECT k FROM other")
    two.engine.stop()
    with (two.path / "metadata" / "default" / "m.sql").open("a") as file:
        file.write('-- place {"directory": "default/earlier"}\n')
    (two.path / "metadata" / "default" / "m.sql").rename(two.path / "metadata" / "default" / "z.sql")
    two.restart()
    assert "default.z" in refusal(two, "INSERT INTO other VALUES (2)")
    two.run("DETACH TABLE z PERMANENTLY")
    two.run("INSERT INTO other VALUES (2)")


@pytest.mark.parametrize(
    "content",
    ['{"definitions": {', '{"former": []}', "[]", "3", '{"definitions": {}, "former": {"a": 3}}', '{"paths": []}', ""],
)
def test_a_damaged_journal(two: Local, content: str) -> None:
    """Nobody knows what it says: nothing changes until somebody has looked, and rows are read and written."""
    two.engine.stop()
    journal = two.path / "metadata" / "rename_in_progress"
    journal.write_text(content)
    two.restart()
    two.run("INSERT INTO t VALUES (2)")
    for statement in (TABLE.format("new"), "DROP TABLE t", "ALTER TABLE t ADD COLUMN v UInt8", "DETACH TABLE t"):
        with pytest.raises(PandoError, match=r"rename_in_progress.*move it away"):
            two.run(statement)
    journal.unlink()
    two.run(TABLE.format("new"))


def test_a_journal_that_cannot_be_undone_yet(two: Local) -> None:
    """Its tables wait, because their definitions may be half changed."""
    two.engine.stop()
    journal = two.path / "metadata" / "rename_in_progress"
    former = {"metadata/default/t.sql": definition(two.path).read_text()}
    journal.write_text(json.dumps({"definitions": {"metadata/default/t.sql": None}, "former": former}))
    definition(two.path).unlink()

    def full(descriptor: int) -> None:
        if "/metadata" in os.readlink(f"/proc/self/fd/{descriptor}"):
            raise OSError(errno.ENOSPC, "No space left on device")

    with replace_sync(full):
        two.restart()
        assert two.run("SELECT k FROM other") == [(1,)]
        assert "rename_in_progress" in refusal(two, "SELECT * FROM t")
        with pytest.raises(PandoError, match="rename_in_progress"):
            two.run(TABLE.format("new"))
    two.run(TABLE.format("new"))
    assert not journal.exists()
    assert two.run("SELECT k FROM t") == [(1,)]
    two.restart()
    assert two.run("SELECT k FROM t") == [(1,)]


@pytest.mark.parametrize("has_former", [True, False])
def test_a_start_deletes_no_rows_on_the_word_of_a_journal(two: Local, has_former: bool) -> None:
    """``False``: one of a former version. Both tables of a CREATE OR REPLACE are there, whichever has the name."""
    two.engine.stop()
    text = definition(two.path).read_text()
    scratch = definition(two.path).with_name("_tmp_replace_1.sql")
    place = '-- place {{"directory": "default/{}", "is_scratch": {}}}\n'
    (two.path / "data" / "default" / "t+1").mkdir()
    new = {"t": text + place.format("t+1", "false"), "_tmp_replace_1": text + place.format("t", "true")}
    old = {"t": text, "_tmp_replace_1": text + place.format("t+1", "true")}
    named = [{f"metadata/default/{name}.sql": value for name, value in texts.items()} for texts in (new, old)]
    content = {"definitions": named[0], **({"former": named[1]} if has_former else {})}
    scratch.write_text(old["_tmp_replace_1"])
    (two.path / "metadata" / "rename_in_progress").write_text(json.dumps(content))
    two.restart()
    two.restart()
    assert two.run("SHOW TABLES") == [("_tmp_replace_1",), ("other",), ("t",)]
    assert two.run(f"SELECT k FROM {'t' if has_former else '_tmp_replace_1'}") == [(1,)]


def test_a_start_that_fails_tells_why(two: Local) -> None:
    """And not that a database of temporary tables is missing, which the clean-up would not find."""
    two.engine.stop()
    (two.path / "metadata").rename(two.path / "away")
    (two.path / "metadata").write_text("no folder")
    with pytest.raises(NotADirectoryError, match="metadata"):
        two.restart()
    assert TEMPORARY_DATABASE not in two.engine.catalog.databases()
