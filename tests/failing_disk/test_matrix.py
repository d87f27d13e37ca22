"""A quick part of the matrix: ``python -m tests.failing_disk`` runs all of it."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from tests.engine.conftest import Local
from tests.failing_disk.disk import failing
from tests.failing_disk.matrix import prepared, run_statement
from tests.portions import one_in

QUICK = (
    ("RENAME TABLE a TO t", 1, errno.ENOSPC),
    ("CREATE OR REPLACE TABLE a (x UInt32) ENGINE = MergeTree ORDER BY x", 1, errno.EIO),
    ("EXCHANGE TABLES a AND b", 2, errno.ENOSPC),
    ("DROP TABLE m", 1, errno.EIO),
    ("ALTER TABLE w RENAME COLUMN v TO z", 2, errno.EIO),
    ("CREATE TABLE t (x UInt32) ENGINE = MergeTree ORDER BY x", 2, errno.ENOSPC),
)


@pytest.mark.parametrize(("statement", "times", "error"), one_in(6, QUICK))
def test_what_is_shown_before_a_restart_is_shown_after_it(
    tmp_path: Path, statement: str, times: int, error: int
) -> None:
    prepared(tmp_path / "template")
    cases = list(run_statement(tmp_path / "template", tmp_path, statement, times, error))
    assert len(cases) > 3
    assert [case for case in cases if case.problem] == []


def test_a_create_on_a_full_disk_leaves_nothing(local: Local) -> None:
    before = sorted(local.path.rglob("*"))
    for number in range(1, 100):
        with failing(number, times=1000, only=("open", "mkdir", "write", "writev")) as disk:
            try:
                local.run("CREATE TABLE t (x UInt32) ENGINE = MergeTree ORDER BY x")
            except Exception as error:
                assert getattr(error, "code", None) == 243, error  # noqa: PT017
        if not disk.has_failed:
            return
        left = {path.relative_to(local.path) for path in local.path.rglob("*") if path not in before}
        assert left <= {Path("data"), Path("data/default")}, (number, left)
