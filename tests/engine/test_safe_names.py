"""Names of users on disk and in ZooKeeper: whatever they are, nothing outside their own place is touched."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote

import pytest

from coordination.nodes.paths import TablePaths
from engine.interserver.protocol import Manifest
from parts.common.errors import PandoError, UserError
from parts.common.part_name import PartName
from parts.common.safe_names import check_znode_path, encode_file_name, is_plain_file_name
from sql.grammar.tokens import quote_identifier
from tests.engine.conftest import Local
from tests.portions import one_in

STRANGE = [".", "..", "...", "a/b", "../x", "x.sql", "x.tmp", "rename_in_progress", "%2E", "~", "ä\n", "a.b", "`", "\\"]
LAYOUT = "ENGINE = MergeTree ORDER BY k"


def _code(local: Local, sql: str) -> int:
    with pytest.raises(PandoError) as raised:
        local.run(sql)
    return raised.value.code


def _entries(path: Path) -> set[str]:
    return {str(entry.relative_to(path)) for entry in path.rglob("*")}


@pytest.mark.parametrize("name", one_in(3, STRANGE))
def test_a_name_is_only_a_name(local: Local, name: str) -> None:
    quoted = quote_identifier(name)
    local.run(f"CREATE TABLE other (k UInt8) {LAYOUT}")
    local.run("INSERT INTO other VALUES (1)")
    outside, before = _entries(local.path.parent) - _entries(local.path), _entries(local.path)
    local.run(f"CREATE DATABASE {quoted}")
    local.run(f"CREATE TABLE {quoted} (k UInt8, {quoted} UInt8) {LAYOUT}")
    local.run(f"CREATE TABLE {quoted}.{quoted} AS {quoted}")
    local.run(f"INSERT INTO {quoted}.{quoted} VALUES (1, 2)")
    local.run(f"RENAME TABLE {quoted} TO second")
    local.run(f"RENAME TABLE second TO {quoted}")
    local.restart()
    assert local.run(f"SELECT k, {quoted} FROM {quoted}.{quoted}") == [(1, 2)]
    assert local.run("SELECT count() FROM system.tables WHERE name = 'x' OR database = 'x'") == [(0,)]
    local.run(f"DROP TABLE {quoted}")
    local.run(f"DROP DATABASE {quoted}")
    assert local.run("SELECT k FROM other") == [(1,)]
    assert {entry for entry in before if "other" in entry and "tmp" not in entry} <= _entries(local.path)
    assert _entries(local.path.parent) - _entries(local.path) >= outside
    assert {entry.name for entry in local.path.parent.iterdir()} == {local.path.name}


@pytest.mark.parametrize(("name", "code"), [("", 62), ("a\0b", 36), ("x" * 248, 69), ("ä" * 50, 69), ("." * 90, 69)])
def test_names_that_cannot_be(local: Local, name: str, code: int) -> None:
    quoted = quote_identifier(name).replace("\0", "\\0")
    local.run(f"CREATE TABLE t (k UInt8) {LAYOUT}")
    before = _entries(local.path)
    assert _code(local, f"CREATE DATABASE {quoted}") == code
    assert _code(local, f"CREATE TABLE {quoted} (k UInt8) {LAYOUT}") == code
    assert _code(local, f"RENAME TABLE t TO {quoted}") == code
    assert _entries(local.path) == before
    local.restart()


def test_longest_name(local: Local) -> None:
    name = "x" * 247
    local.run(f"CREATE DATABASE {name}")
    local.run(f"CREATE TABLE {name}.{name} (k UInt8) {LAYOUT}")
    local.run(f"RENAME TABLE {name}.{name} TO {name}.y")
    local.run(f"DROP DATABASE {name}")


def test_column_names(local: Local) -> None:
    assert _code(local, f"CREATE TABLE t (`` UInt8) {LAYOUT.replace('k', 'tuple()')}") == 62
    assert _code(local, f"CREATE TABLE t (k UInt8, `a\\0` UInt8) {LAYOUT}") == 36


def test_directories_of_earlier_versions_keep_their_names(local: Local) -> None:
    local.run("CREATE DATABASE `d.1`")
    local.run(f"CREATE TABLE `d.1`.`t.2` (k UInt8) {LAYOUT}")
    local.run("INSERT INTO `d.1`.`t.2` VALUES (7)")
    local.engine.stop()
    for entry in sorted(local.path.rglob("*%2E*"), reverse=True):
        entry.rename(entry.with_name(unquote(entry.name)))
    local.restart()
    assert local.run("SELECT k FROM `d.1`.`t.2`") == [(7,)]
    local.run("RENAME TABLE `d.1`.`t.2` TO `d.1`.`t.3`")
    local.restart()
    assert local.run("SELECT k FROM `d.1`.`t.3`") == [(7,)]
    local.run("DROP DATABASE `d.1`")
    assert not [entry for entry in _entries(local.path) if "t.2" in entry or "t%2E" in entry]


@pytest.mark.parametrize("name", STRANGE)
def test_a_file_is_read_back_as_its_name(name: str) -> None:
    assert unquote(encode_file_name(name)) == name
    assert is_plain_file_name(encode_file_name(name))


@pytest.mark.parametrize(
    "path",
    ["", "/", "x", "/a/", "//a", "/a//b", "/a/../b", "/a/.", "/zookeeper/config", "/zookeeper", "/a\0", "/a\n",
     "/\ue000", "/\ud800", "/" + "a" * 5000],
)  # fmt: skip
def test_paths_in_zookeeper_that_cannot_be(path: str) -> None:
    for check in (TablePaths, lambda value: check_znode_path("Path", value)):
        with pytest.raises(UserError) as raised:
            check(path)
        assert raised.value.code == 36


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\0", "a\n", "r" * 300, "\ud800"])
def test_replica_names_that_cannot_be(name: str) -> None:
    with pytest.raises(UserError) as raised:
        TablePaths("/t").replica(name)
    assert raised.value.code == 237


@pytest.mark.parametrize(
    "text", ["../../x_1_1_0", "a/b_1_1_0", "._1_1_0", ".._1_1_0", "a_1_1_" + "9" * 5000, "\0_1_1_0"]
)
def test_part_names_that_cannot_be(text: str) -> None:
    with pytest.raises(UserError) as raised:
        PartName.parse(text)
    assert raised.value.code == 233


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/b", "a\\u0000", "x" * 256])
def test_files_of_a_part_that_another_server_names(name: str) -> None:
    line = f'{{"version": 1, "files": [{{"name": "{name}", "size": 1}}]}}'
    with pytest.raises(ValueError, match="unacceptable file name"):
        Manifest.from_line(line.encode())
