"""The page ``/links``: it needs nothing from elsewhere, and names the cluster."""

from __future__ import annotations

import re
from pathlib import Path

from tests.engine.front.conftest import started


def test_the_page_is_self_contained_and_names_the_cluster(tmp_path: Path) -> None:
    with started(tmp_path, cluster_name="east") as server, server.client() as client:
        page = client.get("/links").text
    assert "<title>Links of east</title>" in page
    assert 'data-cluster="east"' in page
    assert "{cluster}" not in page
    assert not re.search(r"src=|@import|https?://", page)


def test_without_a_name_it_is_this_server(tmp_path: Path) -> None:
    with started(tmp_path) as server, server.client() as client:
        assert "<title>Links of this server</title>" in client.get("/links").text
