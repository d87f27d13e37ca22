"""A full disk is told as 243 (NOT_ENOUGH_SPACE), leaves nothing behind, and the table goes on when there is room."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.engine import Engine
from engine.queries.session import Session
from engine.server.config import Config
from parts.common.errors import PandoError

ROWS = "SELECT number, repeat(toString(number), 8) FROM numbers({})"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 24 MiB."""
    directory = tmp_path / "small"
    directory.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(directory)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting takes root")
    try:
        yield directory
    finally:
        subprocess.run(["umount", "-l", str(directory)], check=True)


@pytest.fixture
def engine(small_disk: Path) -> Iterator[Engine]:
    engine = Engine(Config.local(small_disk))
    engine.start()
    engine.execute("CREATE TABLE t (a UInt64, s String CODEC(NONE)) ENGINE = MergeTree ORDER BY a", Session())
    try:
        yield engine
    finally:
        engine.stop()


def rows(engine: Engine, sql: str) -> list[dict[str, object]]:
    return [row for batch in engine.execute(sql, Session()).batches for row in batch.to_pylist()]


def test_insert(engine: Engine, small_disk: Path) -> None:
    with pytest.raises(PandoError) as caught:
        engine.execute(f"INSERT INTO t {ROWS.format(1_000_000)}", Session())
    assert (caught.value.code, caught.value.name) == (243, "NOT_ENOUGH_SPACE")
    assert rows(engine, "SELECT count() AS n FROM t") == [{"n": 0}]
    assert not list(small_disk.rglob("tmp_insert_*"))
    engine.execute(f"INSERT INTO t {ROWS.format(1000)}", Session())
    assert rows(engine, "SELECT count() AS n FROM t") == [{"n": 1000}]


def test_merge(engine: Engine, small_disk: Path) -> None:
    for _ in range(2):
        engine.execute(f"INSERT INTO t {ROWS.format(150_000)}", Session())
    with pytest.raises(PandoError) as caught:
        engine.execute("OPTIMIZE TABLE t FINAL", Session())
    assert caught.value.code == 243
    assert rows(engine, "SELECT count() AS n FROM t") == [{"n": 300_000}]
    assert not list(small_disk.rglob("tmp_merge_*"))
