"""The table function ``file``: what it may touch, what it finds, and that a file is whole or not there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xxhash

from engine.queries.session import Session
from engine.server.user_files import UserFiles
from parts.common.errors import UserError
from tests.engine.conftest import Local
from tests.sql.oracle import Oracle

_TYPES = {
    "u64": ("UInt64", "18446744073709551615"),
    "i8": ("Int8", "-128"),
    "f": ("Float64", "1.5"),
    "b": ("Bool", "true"),
    "d": ("Date", "'2149-06-06'"),
    "d32": ("Date32", "'1900-01-01'"),
    "t": ("DateTime('Europe/Berlin')", "'2026-11-22 01:02:03'"),
    "t3": ("DateTime64(3)", "'2026-11-22 01:02:03.456'"),
    "t9": ("DateTime64(9, 'UTC')", "'2026-11-22 01:02:03.123456789'"),
    "dec": ("Decimal(38, 10)", "'-1234567890.0123456789'"),
    "s": ("String", "'häkchen'"),
    "fs": ("FixedString(4)", "'ab'"),
    "lc": ("LowCardinality(Nullable(String))", "NULL"),
    "n": ("Nullable(Int32)", "NULL"),
    "e": ("Enum8('a' = 1, 'b' = -2)", "'b'"),
    "a": ("Array(Nullable(UInt8))", "[1, NULL]"),
    "m": ("Map(String, Array(UInt16))", "map('x', [1, 2])"),
    "tup": ("Tuple(a Int8, b String)", "(1, 'x')"),
    "u": ("UUID", "'61f0c404-5cb3-11e7-907b-a6006ad3dba0'"),
    "v4": ("IPv4", "'10.0.0.1'"),
    "v6": ("IPv6", "'2001:db8::1'"),
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "files"


@pytest.fixture
def local(tmp_path: Path, root: Path) -> Iterator[Local]:
    running = Local(tmp_path / "data", user_files_path=root)
    yield running
    running.engine.stop()


def code(local: Local, sql: str) -> int:
    with pytest.raises(UserError) as caught:
        local.run(sql)
    return caught.value.code


def test_every_type_comes_back(local: Local) -> None:
    columns = ", ".join(f"{name} {type_}" for name, (type_, _) in _TYPES.items())
    values = ", ".join(f"CAST({value} AS {type_}) AS {name}" for name, (type_, value) in _TYPES.items())
    local.run(f"CREATE TABLE t ({columns}) ENGINE = MergeTree ORDER BY ()")
    local.run(f"INSERT INTO t SELECT {values} FROM numbers(3)")
    local.run("INSERT INTO FUNCTION file('x/all.parquet') SELECT * FROM t")
    local.run("CREATE TABLE again AS t")
    local.run("INSERT INTO again SELECT * FROM file('x/all.parquet', Parquet, '" + columns.replace("'", "\\'") + "')")
    assert local.run("SELECT * FROM again") == local.run("SELECT * FROM t")
    assert len(local.run("SELECT * FROM again")) == 3


def test_types_are_inferred_as_clickhouse_does(local: Local, root: Path) -> None:
    oracle = Oracle()
    try:
        values = ", ".join(f"CAST({value} AS {type_}) AS {name}" for name, (type_, value) in _TYPES.items())
        path = root / "theirs.parquet"
        root.mkdir()
        oracle.query(f"INSERT INTO FUNCTION file('{path}', Parquet) SELECT {values}")
        theirs = oracle.query(f"DESCRIBE file('{path}') SETTINGS print_pretty_type_names = 0", "TSVRaw")
        ours = [row[:2] for row in local.run("DESCRIBE file('theirs.parquet')")]
        assert ours == [tuple(line.split("\t")[:2]) for line in theirs.decode().splitlines()]
        local.run(f"INSERT INTO FUNCTION file('ours.parquet') SELECT {values}")
        for name in set(_TYPES) - {"u", "v6"}:  # 16 bytes: no text to compare
            sql = f"SELECT toString({name}) FROM file('{{}}')"
            expected = oracle.query(sql.format(path), "TSVRaw").decode().rstrip("\n")
            assert local.run(sql.format("theirs.parquet"))[0][0] == (None if expected == "\\N" else expected)
            assert oracle.query(sql.format(root / "ours.parquet"), "TSVRaw").decode().rstrip("\n") == expected
    finally:
        oracle.close()


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("../secret.csv", 291),
        ("a/../../secret.csv", 291),
        ("/etc/passwd", 291),
        ("link.csv", 291),
        ("linked/secret.csv", 291),
        ("link*", 291),
        ("link{.csv,}", 291),
        ("", 36),
        ("a\\0b", 36),
        (".", 76),
        ("directory", 76),
        ("pipe", 76),
        ("none.csv", 107),
        ("directory/none.csv", 107),
        ("inside.csv/x", 76),
        ("x" * 300, 76),
        ("{1..99999999}.csv", 36),
        ("**/x.csv", 48),
        ("../none*", 291),
        ("/etc/none*", 291),
        ("*/../../none.csv", 291),
        ("linked/*", 291),
        ("linked/none{1,2}", 291),
    ],
)
def test_nothing_outside_is_read_or_written(local: Local, root: Path, path: str, expected: int) -> None:
    (root / "directory").mkdir(parents=True)
    (root / "inside.csv").write_text("1\n")
    (root.parent / "secret.csv").write_text("7\n")
    (root / "link.csv").symlink_to(root.parent / "secret.csv")
    (root / "linked").symlink_to(root.parent)
    os.mkfifo(root / "pipe")
    assert code(local, f"SELECT * FROM file('{path}', CSV, 'x UInt8')") == expected
    if expected in (291, 36) and "{" not in path and "*" not in path:
        assert code(local, f"INSERT INTO FUNCTION file('{path}', CSV) SELECT 1 AS x") == expected
    assert (root.parent / "secret.csv").read_text() == "7\n"


def test_a_link_that_stays_inside_is_followed(local: Local, root: Path) -> None:
    (root / "a").mkdir(parents=True)
    (root / "a" / "x.csv").write_text("1\n")
    (root / "b").symlink_to(root / "a")
    assert local.run("SELECT x, _path FROM file('b/x.csv', CSV, 'x UInt8')") == [(1, str(root / "a" / "x.csv"))]


@pytest.mark.parametrize("path", ["a\ud800", "\ud800*", "a\0b"])
def test_what_is_no_path(root: Path, path: str) -> None:
    with pytest.raises(UserError) as caught:
        UserFiles(root).find(path)
    assert caught.value.code == 36


def test_a_directory_that_becomes_a_link_is_not_followed(root: Path) -> None:
    (root / "a").mkdir(parents=True)
    (root / "a" / "x").write_text("mine")
    (found,) = UserFiles(root).find("a/x")
    (root.parent / "x").write_text("secret")
    (root / "a").rename(root / "former")
    (root / "a").symlink_to(root.parent)
    with pytest.raises(UserError) as caught:
        found.open()
    assert caught.value.code == 76


@pytest.mark.skipif(os.getuid() == 0, reason="root reads everything")
def test_an_unreadable_file(local: Local, root: Path) -> None:
    root.mkdir()
    (root / "x.csv").write_text("1\n")
    (root / "x.csv").chmod(0)
    assert code(local, "SELECT * FROM file('x.csv', CSV, 'x UInt8')") == 76


def test_a_file_is_whole_or_not_there(local: Local, root: Path) -> None:
    with pytest.raises(UserError):
        local.run("INSERT INTO FUNCTION file('d/x.parquet') SELECT throwIf(number = 200000) AS n FROM numbers(300000)")
    assert list((root / "d").iterdir()) == []
    local.run("INSERT INTO FUNCTION file('d/x.parquet') SELECT 1 AS n")
    with pytest.raises(UserError):
        local.run(
            "INSERT INTO FUNCTION file('d/x.parquet') SELECT throwIf(number = 200000) AS n FROM numbers(300000) "
            "SETTINGS engine_file_truncate_on_insert = 1"
        )
    assert [path.name for path in (root / "d").iterdir()] == ["x.parquet"]
    assert local.run("SELECT n FROM file('d/x.parquet')") == [(1,)]


def test_a_file_that_is_there_is_not_appended_to(local: Local) -> None:
    local.run("INSERT INTO FUNCTION file('x.csv', CSV) SELECT 1 AS n")
    assert code(local, "INSERT INTO FUNCTION file('x.csv', CSV) SELECT 2 AS n") == 641
    local.run("INSERT INTO FUNCTION file('x.csv', CSV) SELECT 2 AS n SETTINGS engine_file_truncate_on_insert = 1")
    assert local.run("SELECT n FROM file('x.csv', CSV, 'n UInt8')") == [(2,)]


def test_patterns_and_what_is_known_of_files(local: Local, root: Path) -> None:
    for number in range(12):
        local.run(f"INSERT INTO TABLE FUNCTION file('p{number:02}.parquet') SELECT number FROM numbers({number})")
    (root / ".tmp-left").write_bytes(b"unfinished")
    (root / "directory.parquet").mkdir()
    sql = "SELECT _file, _size, _hash, count() FROM file('{}') GROUP BY ALL ORDER BY _file"
    data = (root / "p03.parquet").read_bytes()
    expected = ("p03.parquet", len(data), xxhash.xxh3_128_hexdigest(data), 3)
    assert local.run(sql.format("p03.parquet")) == [expected]
    assert expected in local.run(sql.format("*.parquet"))
    assert len(local.run(sql.format("*.parquet"))) == 11  # the first has no rows
    assert [row[0] for row in local.run(sql.format("p{02..04}.parquet"))] == [f"p0{n}.parquet" for n in (2, 3, 4)]
    assert [row[0] for row in local.run(sql.format("p{02,11}*.parquet"))] == ["p02.parquet", "p11.parquet"]
    assert [row[0] for row in local.run(sql.format("p?1.parquet"))] == ["p01.parquet", "p11.parquet"]
    assert code(local, "SELECT * FROM file('q*.parquet')") == 636
    assert local.run("SELECT count() FROM file('q*.parquet', Parquet, 'x UInt8')") == [(0,)]


def test_only_what_is_asked_for_is_read(local: Local, root: Path) -> None:
    """A column of another type than the structure says stops only who reads it."""
    root.mkdir()
    pq.write_table(pa.table({"a": [1, 2], "b": ["x", "y"]}), root / "x.parquet")
    assert local.run("SELECT sum(a) FROM file('x.parquet', Parquet, 'a UInt8, b UInt8')") == [(3,)]
    assert local.run("SELECT a, c FROM file('x.parquet', Parquet, 'a UInt8, c String')") == [(1, ""), (2, "")]
    assert code(local, "SELECT b FROM file('x.parquet', Parquet, 'a UInt8, b UInt8')") == 27


def test_broken_data_are_told(local: Local, root: Path) -> None:
    root.mkdir()
    pq.write_table(
        pa.table({"a": list(range(10_000))}), root / "x.parquet", write_page_checksum=True, use_dictionary=False
    )
    data = bytearray((root / "x.parquet").read_bytes())
    data[5000] ^= 1
    (root / "flipped.parquet").write_bytes(data)
    (root / "cut.parquet").write_bytes(data[:-100])
    assert code(local, "SELECT sum(a) FROM file('flipped.parquet')") == 117
    assert code(local, "SELECT sum(a) FROM file('cut.parquet')") == 117


def test_data_go_into_a_file_by_its_structure(local: Local) -> None:
    local.run("INSERT INTO FUNCTION file('v.parquet', auto, 'a UInt8, b String') VALUES (1, 'x'), (2, 'y')")
    local.run("INSERT INTO FUNCTION file('c.csv', CSV, 'a UInt8, b String') FORMAT CSV", b"3,z\n4,w\n")
    assert local.run("SELECT * FROM file('v.parquet')") == [(1, "x"), (2, "y")]
    assert local.run("SELECT * FROM file('c.csv', CSV, 'a UInt8, b String')") == [(3, "z"), (4, "w")]
    assert code(local, "INSERT INTO FUNCTION file('n.csv') VALUES (1)") == 36
    assert code(local, "INSERT INTO FUNCTION url('http://x') SELECT 1") == 48
    assert code(local, "SELECT * FROM file('noending')") == 73


@pytest.mark.parametrize(("readonly", "may_read"), [(1, False), (2, True)])
def test_sessions_that_only_read(local: Local, readonly: int, may_read: bool) -> None:
    local.run("INSERT INTO FUNCTION file('x.csv', CSV) SELECT 1 AS n")
    local.session = Session(settings={"readonly": readonly})
    assert code(local, "INSERT INTO FUNCTION file('y.csv', CSV) SELECT 1 AS n") == 164
    if may_read:
        assert local.run("SELECT n FROM file('x.csv', CSV, 'n UInt8')") == [(1,)]
    else:
        assert code(local, "SELECT n FROM file('x.csv', CSV, 'n UInt8')") == 164


def test_a_file_is_joined_grouped_and_inserted_like_a_table(local: Local) -> None:
    local.run("CREATE TABLE t (k UInt64, v String) ENGINE = MergeTree ORDER BY k")
    local.run("INSERT INTO FUNCTION file('x.parquet') SELECT number AS k, toString(number) AS v FROM numbers(100000)")
    local.run("INSERT INTO t SELECT * FROM file('x.parquet')")
    assert local.run("SELECT count(), sum(k), uniq(v) FROM t") == [(100000, 4999950000, 100000)]
    assert local.run("SELECT count() FROM t JOIN file('x.parquet') AS f ON t.k = f.k WHERE f.k % 2 = 0") == [(50000,)]
