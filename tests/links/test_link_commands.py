"""``pando link`` and the page ``/links``, on two linked clusters of real processes."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from engine.commands.link import command
from tests.links.linked_clusters import LinkedClusters

pytestmark = [pytest.mark.cluster, pytest.mark.long]


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LinkedClusters]:
    running = LinkedClusters(tmp_path_factory.mktemp("commands"), east=1, west=1)
    try:
        running.create_table("hits")
        running.link("hits_from_east", "west", "hits", "east")
        running["east"].execute("INSERT INTO hits VALUES (1, 'a'), (2, 'b')")
        running.wait(lambda: running["west"].value("SELECT count() FROM hits") == 2, "rows at west")
        yield running
    finally:
        running.close()


def _run(clusters: LinkedClusters, name: str, *words: str) -> Result:
    return CliRunner().invoke(command, [*words, "--port", str(clusters[name].port)])


def test_status_shows_both_ends(clusters: LinkedClusters) -> None:
    clusters.wait(lambda: "2 rows" in _run(clusters, "west", "status").output, "the status of the link")
    result = _run(clusters, "west", "status")
    assert result.exit_code == 0, result.output
    head, row = result.output.splitlines()
    assert head.split() == ["LINK", "FROM", "TO", "STATE", "LAG", "BEHIND", "APPLIED", "ERRORS"]
    assert re.match(r"hits_from_east\s+east: default.hits\s+default.hits\s+follow\s+[\d.]+ s\s+0 rows\s+2 rows", row)
    assert "west/hits_from_east  default.hits" in _run(clusters, "east", "status").output
    (link,) = json.loads(_run(clusters, "west", "status", "hits_from_east", "--json").output)
    assert (link["peer"], link["direction"], link["rows_applied"]) == ("east", "in", 2)
    missing = _run(clusters, "west", "status", "nothing")
    assert missing.exit_code == 1
    assert "There is no link nothing here" in missing.output


def test_a_link_rests_and_goes_on(clusters: LinkedClusters) -> None:
    assert _run(clusters, "west", "pause", "hits_from_east").exit_code == 0
    assert "disabled" in _run(clusters, "west", "status").output
    assert "pando link resume" in _run(clusters, "west", "repair", "hits_from_east").output
    clusters["east"].execute("INSERT INTO hits VALUES (3, 'c')")
    assert _run(clusters, "west", "resume", "hits_from_east").exit_code == 0
    clusters.settle("west", "hits_from_east")
    assert clusters["west"].value("SELECT count() FROM hits") == 3
    assert "is not stopped" in _run(clusters, "west", "repair", "hits_from_east").output
    elsewhere = _run(clusters, "east", "repair", "west/hits_from_east")
    assert elsewhere.exit_code == 1
    assert "repair it at cluster west" in elsewhere.output


@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs Chromium")
def test_the_page_draws_the_link(clusters: LinkedClusters, tmp_path: Path) -> None:
    page = subprocess.run(
        [
            "chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}",
            "--virtual-time-budget=4000", "--dump-dom", f"http://127.0.0.1:{clusters['west'].port}/links",
        ],
        capture_output=True, text=True, timeout=60, check=True,
    ).stdout  # fmt: skip
    assert "Links of west" in page
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", page)
    assert {"west", "this cluster", "east", "1 link", "hits_from_east · follow"} <= set(texts), texts
    assert 'class="link good"' in page
    assert "east: default.hits → default.hits" in page
    assert re.search(r'<div class="panel error" id="error" hidden', page)
