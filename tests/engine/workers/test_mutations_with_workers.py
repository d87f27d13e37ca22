"""Mutations in a server of several processes: every worker sees them at once, a kill of any process changes nothing."""

from __future__ import annotations

import contextlib
from itertools import product
from pathlib import Path

import pytest

from parts.common.errors import PandoError
from tests.engine.workers.server import WorkerServer, wait_for
from tests.portions import one_in

pytestmark = [pytest.mark.long, pytest.mark.cluster]

CREATE = (
    "CREATE TABLE t (k UInt32, v Int32, s String) ENGINE = MergeTree ORDER BY k SETTINGS min_bytes_for_wide_part = 0"
)


def test_every_worker_sees_what_a_mutation_left(tmp_path: Path) -> None:
    with WorkerServer(tmp_path) as server:
        server.execute(CREATE)
        server.execute("CREATE TABLE other (k UInt32) ENGINE = MergeTree ORDER BY k")
        server.execute("INSERT INTO other SELECT number FROM numbers(5)")
        server.execute("INSERT INTO t SELECT number, number, 'x' FROM numbers(100)")
        server.execute("ALTER TABLE t UPDATE v = 0, s = upper(s) WHERE k IN (SELECT k FROM other WHERE k > 1)")
        server.execute("DELETE FROM t WHERE k > 50")
        server.execute("UPDATE t SET v = 7 WHERE k = 50")
        for _ in range(8):
            assert server.run("SELECT count(), sum(v), countIf(s = 'X') FROM t") == [[51, 1275 - 9 - 43, 3]]
        assert server.run("SELECT count() FROM system.mutations WHERE is_done") == [[3]]


@pytest.mark.parametrize(
    ("workers", "point"),
    one_in(4, product([0, 2], ["mutation.after_file", "mutation.after_temporary_part", "mutation.after_commit"])),
)
def test_a_kill_at_any_moment_changes_nothing(tmp_path: Path, point: str, workers: int) -> None:
    with WorkerServer(tmp_path, workers, failpoints=f"{point}=kill") as server:
        server.execute(CREATE)
        server.execute("INSERT INTO t SELECT number, number, 'x' FROM numbers(100)")
        with contextlib.suppress(PandoError, OSError):
            server.execute("ALTER TABLE t DELETE WHERE k % 2 = 0")
        wait_for(lambda: server.process.poll() is not None, "the server's end")
    with WorkerServer(tmp_path, workers) as server:
        server.execute("ALTER TABLE t UPDATE v = v WHERE 0")
        assert server.run("SELECT count(), sum(v) FROM t") == [[50, 2500]]
        assert not list((server.path / "data" / "default" / "t").glob("tmp_*"))
