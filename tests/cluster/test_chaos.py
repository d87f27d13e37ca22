"""Some seconds of what ``python -m tests.cluster.chaos`` does for minutes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster.chaos import Chaos
from tests.worker_count import WORKERS

pytestmark = [pytest.mark.cluster, pytest.mark.long, pytest.mark.xdist_group("chaos")]


def test_killed_replicas_keep_every_change_once(tmp_path: Path) -> None:
    chaos = Chaos(tmp_path, seed=2, workers=WORKERS)
    try:
        outcome = chaos.run(seconds=15)
    finally:
        chaos.close()
    assert not outcome.problems
    assert outcome.counts["INSERT"]
    assert outcome.counts["sequential read"]
    assert outcome.counts["SIGKILL"]
