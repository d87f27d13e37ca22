"""An INSERT that fails half-way leaves nothing: no rows, no files, no open files, no memory of its blocks."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.tables import insert_sink
from parts.common.errors import UnavailableError
from parts.format.hashed_file import HashedFile
from parts.store.part_store import PartStore
from tests.engine.conftest import Local

CREATE = "CREATE TABLE t (p UInt8, k UInt32) ENGINE = MergeTree PARTITION BY p ORDER BY k"
INSERT = "INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)"


def failing_at(call: int, function: Callable[..., object]) -> Callable[..., object]:
    """The function, with a full disk at one of its calls."""
    calls = 0

    def wrapped(*arguments: object, **named: object) -> object:
        nonlocal calls
        calls += 1
        if calls == call:
            raise OSError(errno.ENOSPC, "No space left on device")
        return function(*arguments, **named)

    return wrapped


def directories(local: Local) -> list[str]:
    table = local.engine.catalog.table("default", "t")
    return sorted(entry.name for entry in table.store.path.iterdir() if entry.name != "detached")


@pytest.mark.parametrize("call", [1, 2, 3])
@pytest.mark.parametrize("after_rename", [False, True])
def test_a_commit_cut_short_can_be_repeated(
    local: Local, monkeypatch: pytest.MonkeyPatch, call: int, after_rename: bool
) -> None:
    """What was renamed before the failure is taken back, and its blocks are not known."""
    local.run(f"{CREATE} SETTINGS non_replicated_deduplication_window = 100")
    with monkeypatch.context() as patch:
        if after_rename:
            renamed = failing_at(call, lambda: None)
            at = {"insert.after_rename": renamed}
            patch.setattr(local.engine.services, "failpoint", lambda name: at.get(name, lambda: None)())
        else:
            patch.setattr(PartStore, "add_preactive", failing_at(call, PartStore.add_preactive))
        with pytest.raises(UnavailableError, match="No space"):
            local.run(INSERT)
    assert local.value("SELECT count() FROM t") == 0
    assert directories(local) == []
    local.run(INSERT)
    assert local.value("SELECT count() FROM t") == 3
    local.run(INSERT)
    assert local.value("SELECT count() FROM t") == 3
    local.restart()
    assert local.value("SELECT count() FROM t") == 3


def test_equal_blocks_of_one_insert_are_all_stored(local: Local) -> None:
    """As in ClickHouse 26: only the repeat of the whole INSERT is a duplicate."""
    local.run(
        "CREATE TABLE t (k UInt32) ENGINE = MergeTree ORDER BY k SETTINGS non_replicated_deduplication_window = 9"
    )
    local.run("SET max_insert_block_size = 1, min_insert_block_size_rows = 1, min_insert_block_size_bytes = 0")
    for _ in range(2):
        local.run("INSERT INTO t FORMAT TSV", b"1\n1\n2\n1\n")
        assert local.value("SELECT groupArray(k) FROM (SELECT k FROM t ORDER BY k)") == [1, 1, 1, 2]


@pytest.mark.parametrize("call", [1, 2, 3])
@pytest.mark.parametrize("in_threads", [False, True])
def test_a_failed_write_leaves_no_files(
    local: Local, monkeypatch: pytest.MonkeyPatch, call: int, in_threads: bool
) -> None:
    local.run(CREATE)
    local.engine.services.write_inline_rows = 0 if in_threads else 10_000
    monkeypatch.setattr(insert_sink, "write_part", failing_at(call, insert_sink.write_part))
    with pytest.raises(UnavailableError, match="No space"):
        local.run(INSERT)
    assert directories(local) == []
    assert local.value("SELECT count() FROM t") == 0


@pytest.mark.parametrize("is_wide", [False, True])
@pytest.mark.parametrize("method", ["_write_out", "__init__", "sync"])
@pytest.mark.parametrize("call", [1, 2, 3])
def test_a_full_disk_keeps_no_file_open(
    local: Local, monkeypatch: pytest.MonkeyPatch, is_wide: bool, method: str, call: int
) -> None:
    local.run(f"{CREATE} SETTINGS min_bytes_for_wide_part = {0 if is_wide else 10_000_000}")
    with monkeypatch.context() as patch:
        real = getattr(HashedFile, method)
        calls = 0

        def full(file: HashedFile, *arguments: object) -> object:
            nonlocal calls
            calls += 1
            if calls >= call:
                raise OSError(errno.ENOSPC, "No space left on device")
            return real(file, *arguments)

        patch.setattr(HashedFile, method, full)
        with pytest.raises(UnavailableError, match="No space"):
            local.run(INSERT)
    data = str(local.engine.catalog.table("default", "t").store.path)
    open_files = [os.readlink(entry) for entry in Path("/proc/self/fd").iterdir() if os.path.islink(entry)]
    assert not [file for file in open_files if file.startswith(data)]
    assert directories(local) == []


def test_a_merge_that_gets_no_name_leaves_no_files(local: Local, monkeypatch: pytest.MonkeyPatch) -> None:
    local.run(f"{CREATE} SETTINGS max_bytes_to_merge_at_max_space_in_pool = 1")  # no merge but the asked one
    for _ in range(2):
        local.run("INSERT INTO t VALUES (1, 1)")
    with monkeypatch.context() as patch:
        patch.setattr(PartStore, "add_preactive", failing_at(1, PartStore.add_preactive))
        with pytest.raises(UnavailableError, match="No space"):
            local.run("OPTIMIZE TABLE t FINAL")
    assert not [name for name in directories(local) if name.startswith("tmp_")]
    assert local.value("SELECT count() FROM t") == 2
