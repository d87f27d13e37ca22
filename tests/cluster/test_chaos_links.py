"""Some seconds of what ``python -m tests.cluster.chaos_links`` does for minutes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster.chaos_links import make_works, run
from tests.cluster.link_sites import LinkedSites

pytestmark = [pytest.mark.cluster, pytest.mark.long, pytest.mark.timeout(1500), pytest.mark.xdist_group("chaos")]


def test_clusters_whose_sources_move_keep_every_row(tmp_path: Path) -> None:
    sites = LinkedSites(tmp_path, seed=3)
    try:
        works = make_works(sites, "switches", with_spark=False)
        assert run(sites, works, 60) == []
    finally:
        sites.close()
    moves = sum(count for what, count in sites.faults.items() if "SWITCH" in what or "PROMOTE" in what)
    assert moves > 0
    assert sites.counts["SELECT of a group: acknowledged"]
    assert sites.counts["INSERT INTO held: acknowledged"]
