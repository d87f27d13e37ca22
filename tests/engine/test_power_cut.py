"""The power goes: what was acknowledged is there, what was dropped is not, and nothing is half done."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path

import pytest

from engine.catalog.catalog import Catalog
from parts.read.part_reader import Part
from parts.store.part_store import PartStore
from tests.engine.conftest import Local
from tests.portions import one_in
from tests.power_cut import power_cut

CREATE = "CREATE TABLE {} (p UInt8, k UInt32) ENGINE = MergeTree PARTITION BY p ORDER BY k"
NO_MERGES = " SETTINGS max_bytes_to_merge_at_max_space_in_pool = 1"  # but those that OPTIMIZE asks for
INSERT = "INSERT INTO {} VALUES (1, 1), (2, 2)"


class After:
    """Statements on a first server, the cut, and a server on what was left."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.path, self.monkeypatch = path, monkeypatch
        (path / "one").mkdir()

    def run(self, *statements: str, before: tuple[str, ...] = ()) -> Local:
        local = Local(self.path / "one")
        try:
            for statement in before:
                local.run(statement)
            with power_cut(self.path / "one", self.path / "two"):
                for statement in statements:
                    local.run(statement)
        finally:
            local.engine.stop()
        self.after = Local(self.path / "two")
        return self.after


@pytest.fixture
def after(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> After:
    return After(tmp_path, monkeypatch)


def test_first_insert_into_a_new_table(after: After) -> None:
    local = after.run(CREATE.format("t"), INSERT.format("t"))
    assert local.run("SELECT k FROM t ORDER BY k") == [(1,), (2,)]
    local.engine.stop()


def test_first_start_of_a_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with power_cut(tmp_path, tmp_path.parent / f"{tmp_path.name}_image") as image:
        local = Local(tmp_path / "new" / "server")
        local.run(CREATE.format("t"))
        local.run(INSERT.format("t"))
    local.engine.stop()
    local = Local(image / "new" / "server")
    assert local.value("SELECT count() FROM t") == 2
    local.engine.stop()


def test_table_in_a_new_database(after: After) -> None:
    local = after.run("CREATE DATABASE d", CREATE.format("d.t"), INSERT.format("d.t"))
    assert local.value("SELECT count() FROM d.t") == 2
    local.engine.stop()


def test_truncate(after: After) -> None:
    local = after.run("TRUNCATE TABLE t", before=(CREATE.format("t"), INSERT.format("t")))
    assert local.value("SELECT count() FROM t") == 0
    local.engine.stop()


def test_truncated_parts_are_deleted(after: After) -> None:
    """The mark of a dropped part must not go before the part has."""
    settings = " SETTINGS old_parts_lifetime = 0"
    create = (CREATE.format("t") + settings, INSERT.format("t"))
    first = Local(after.path / "one")
    for statement in (*create, "TRUNCATE TABLE t"):
        first.run(statement)
    with power_cut(after.path / "one", after.path / "two"):
        table = first.engine.catalog.table("default", "t")
        table.clean_up_step()
    assert not [p for p, _ in table.store.list_parts()]
    first.engine.stop()
    local = Local(after.path / "two")
    assert local.value("SELECT count() FROM t") == 0
    assert local.value("SELECT count() FROM system.detached_parts") == 0
    local.engine.stop()


def test_merge(after: After) -> None:
    before = (CREATE.format("t") + NO_MERGES, INSERT.format("t"), INSERT.format("t"))
    local = after.run("OPTIMIZE TABLE t FINAL", before=before)
    assert local.value("SELECT count() FROM t") == 4
    assert local.value("SELECT count() FROM system.parts WHERE table = 't' AND active") == 2
    local.engine.stop()


def test_rename(after: After) -> None:
    local = after.run("RENAME TABLE t TO u", before=(CREATE.format("t"), INSERT.format("t")))
    assert local.run("SHOW TABLES") == [("u",)]
    assert local.value("SELECT count() FROM u") == 2
    local.engine.stop()


def test_rename_to_another_database(after: After) -> None:
    before = ("CREATE DATABASE d", CREATE.format("t"), INSERT.format("t"))
    local = after.run("RENAME TABLE t TO d.u", before=before)
    assert local.value("EXISTS TABLE t") == 0
    assert local.value("SELECT count() FROM d.u") == 2
    local.engine.stop()


def test_drop(after: After) -> None:
    local = after.run("DROP TABLE t", before=(CREATE.format("t"), INSERT.format("t")))
    assert local.value("EXISTS TABLE t") == 0
    local.run(CREATE.format("t"))
    assert local.value("SELECT count() FROM t") == 0
    local.engine.stop()


def test_drop_database(after: After) -> None:
    local = after.run("DROP DATABASE d", before=("CREATE DATABASE d", CREATE.format("d.t")))
    assert local.value("SELECT count() FROM system.databases WHERE name = 'd'") == 0
    local.engine.stop()


class _Killed(BaseException):
    pass


@pytest.mark.parametrize("step", one_in(3, range(12)))
def test_rename_cut_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    """Killed before any change on disk: after the restart the rows are there under exactly one of the names."""
    first = Local(tmp_path / "data")
    first.run("CREATE DATABASE d")
    first.run(CREATE.format("t"))
    first.run(INSERT.format("t"))
    left = [step]

    def dying(function: object) -> object:
        def changed(*arguments: object, **options: object) -> object:
            left[0] -= 1
            if left[0] < 0:
                raise _Killed
            return function(*arguments, **options)  # type: ignore[operator]

        return changed

    with monkeypatch.context() as patch:
        for name in ("rename", "unlink", "mkdir"):
            patch.setattr(Path, name, dying(getattr(Path, name)))
        with contextlib.suppress(_Killed):
            first.run("RENAME TABLE t TO d.u")
    first.engine.stop()
    local = Local(tmp_path / "data")
    tables = local.run("SELECT database, name FROM system.tables WHERE database IN ('default', 'd') ORDER BY name")
    assert tables in ([("default", "t")], [("d", "u")])
    (table,) = (".".join(row) for row in tables)
    assert local.value(f"SELECT count() FROM {table}") == 2
    local.run(f"DROP TABLE {table}")
    for name in ("t", "d.u"):
        local.run(CREATE.format(name))
    local.engine.stop()


def test_create_that_failed_can_be_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    local = Local(tmp_path / "data")
    with monkeypatch.context() as patch:
        patch.setattr(
            "engine.server.durable_texts.write_durably", lambda *_: (_ for _ in ()).throw(OSError("disk full"))
        )
        with pytest.raises(OSError, match="disk full"):
            local.run(CREATE.format("t"))
    local.run(CREATE.format("t"))
    local.run(INSERT.format("t"))
    assert local.value("SELECT count() FROM t") == 2
    local.engine.stop()
    assert isinstance(local.engine.catalog, Catalog)


def test_merge_overtaken_by_a_truncate_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed when the merge finds out: a merged part that has its name already would bring the dropped rows back."""
    local = Local(tmp_path / "one")
    local.run(CREATE.format("t") + NO_MERGES)
    local.run("INSERT INTO t VALUES (1, 1)")
    local.run("INSERT INTO t VALUES (1, 2)")

    def truncate(name: str) -> None:
        if name == "merge.after_temporary_part":
            local.run("TRUNCATE TABLE t")

    def rollback(store: PartStore, part: Part) -> None:
        shutil.copytree(tmp_path / "one", tmp_path / "two")
        raise _Killed

    with monkeypatch.context() as patch:
        patch.setattr(local.engine.services, "failpoint", truncate)
        patch.setattr(PartStore, "rollback", rollback)
        with contextlib.suppress(_Killed):
            local.run("OPTIMIZE TABLE t PARTITION 1 FINAL")
    if not (tmp_path / "two").exists():
        shutil.copytree(tmp_path / "one", tmp_path / "two")
    assert local.value("SELECT count() FROM t") == 0
    local.engine.stop()
    after = Local(tmp_path / "two")
    assert after.value("SELECT count() FROM t") == 0
    after.engine.stop()
