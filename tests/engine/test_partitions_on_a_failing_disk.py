"""Commands of partitions on a disk of which an fsync fails: what the answer says is so, then and after a restart."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from parts.common.errors import PandoError
from parts.format.hashed_file import replace_sync
from tests.engine.conftest import Local
from tests.portions import one_in

PREPARE = """
CREATE TABLE t (p UInt8, k UInt8) ENGINE = MergeTree PARTITION BY p ORDER BY k
CREATE TABLE s AS t
INSERT INTO t VALUES (1, 1), (2, 2)
INSERT INTO s VALUES (2, 3)
ALTER TABLE t DETACH PARTITION 1
"""
COMMANDS = {
    "ALTER TABLE t ATTACH PARTITION 1": [(1,), (2,)],
    "ALTER TABLE t DETACH PARTITION 2": [],
    "ALTER TABLE t DROP PARTITION 2": [],
    "ALTER TABLE t ATTACH PARTITION 2 FROM s": [(2,), (3,)],
    "ALTER TABLE t REPLACE PARTITION 2 FROM s": [(3,)],
    "ALTER TABLE s MOVE PARTITION 2 TO TABLE t": [(2,), (3,)],
    "TRUNCATE TABLE t": [],
}


class Failing:
    """A disk that is full at one fsync."""

    def __init__(self, number: int) -> None:
        self.left = number

    def __call__(self, _: int) -> None:
        self.left -= 1
        if self.left == 0:
            raise OSError(errno.ENOSPC, "fsync failed")


@pytest.mark.parametrize("command", one_in(3, COMMANDS))
@pytest.mark.long
def test_an_fsync_that_fails_is_told_as_it_is(tmp_path: Path, command: str) -> None:
    for number in range(1, 100):
        local = Local(tmp_path / str(number))
        for statement in PREPARE.strip().splitlines():
            local.run(statement)
        disk = Failing(number)
        with replace_sync(disk):
            code = _code(local, command)
        allowed = {0: [COMMANDS[command]], 243: [[(2,)]], 341: [[(2,)], COMMANDS[command]]}[code]
        found = local.run("SELECT k FROM t ORDER BY k")
        assert found in allowed, (number, code, found)
        local.restart()
        assert local.run("SELECT k FROM t ORDER BY k") == found, (number, code)
        local.engine.stop()
        if disk.left > 0:
            assert code == 0
            return
    pytest.fail("the command has no end")


def _code(local: Local, command: str) -> int:
    try:
        local.run(command)
    except PandoError as error:
        return error.code
    return 0
