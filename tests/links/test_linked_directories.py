"""``pando cluster link``: servers of several clusters learn of each other; what cannot be linked changes nothing."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from engine.cluster.cluster import Cluster
from engine.cluster.cluster_state import load_state
from engine.cluster.linked_directories import ClientAccount, link_directories
from engine.cluster.replica_config import write_replica_config
from engine.commands.cluster import command
from engine.http_client.http_client import HttpClient
from engine.server.config import Config, ConfigError
from parts.common.errors import PandoError

pytestmark = [pytest.mark.cluster, pytest.mark.long]
NAMES = ("east", "west", "north")


@pytest.fixture(scope="module")
def directories(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Path]]:
    root = tmp_path_factory.mktemp("linked")
    with ExitStack() as stack:
        for name in (*NAMES, "nameless"):
            cluster = Cluster(root / name)
            stack.callback(cluster.stop, grace_seconds=5)
            cluster.start(1, overrides={"workers": 0}, name=None if name == "nameless" else name)
        yield {name: root / name for name in (*NAMES, "nameless")}


def _configs(directories: dict[str, Path]) -> dict[str, str]:
    return {name: (path / "r1" / "config.yaml").read_text() for name, path in directories.items()}


def test_every_server_knows_the_others(directories: dict[str, Path]) -> None:
    paths = [str(directories[name]) for name in NAMES]
    result = CliRunner().invoke(command, ["link", *paths])
    assert result.exit_code == 0, result.output
    assert result.output.splitlines() == [
        f"{name} ({directories[name]}) knows {', '.join(sorted(set(NAMES) - {name}))}" for name in NAMES
    ]
    ports = {name: Cluster(directories[name]).status()[0].port for name in NAMES}
    for name in NAMES:
        file = directories[name] / "r1" / "config.yaml"
        assert stat.S_IMODE(os.stat(file).st_mode) == 0o600
        config = Config.load(file)
        assert set(config.linked_clusters) == set(NAMES) - {name}
        for other, linked in config.linked_clusters.items():
            assert linked.urls == [f"http://127.0.0.1:{ports[other]}"]
            with HttpClient(port=ports[other], user=linked.user, password=linked.password) as client:
                assert client.value("SELECT 1") == 1
                with pytest.raises(PandoError, match="readonly"):
                    client.execute("CREATE TABLE t (k UInt64) ENGINE = MergeTree ORDER BY k")
        log = (directories[name] / "r1" / "server.log").read_text()
        assert f"linked_clusters were read again: {', '.join(sorted(set(NAMES) - {name}))}" in log
    before = _configs(directories)
    assert CliRunner().invoke(command, ["link", *paths]).exit_code == 0
    assert _configs(directories) == before


def test_a_restarted_server_keeps_what_it_knew(directories: dict[str, Path]) -> None:
    link_directories([directories["east"], directories["west"]])
    Cluster(directories["east"]).restart("r1")
    values = yaml.safe_load((directories["east"] / "r1" / "config.yaml").read_text())
    assert "west" in values["linked_clusters"]


def test_what_cannot_be_linked_changes_nothing(directories: dict[str, Path], tmp_path: Path) -> None:
    before = _configs(directories)
    east, west, nameless = (directories[name] for name in ("east", "west", "nameless"))
    with pytest.raises(ConfigError, match="at least two"):
        link_directories([east])
    with pytest.raises(ConfigError, match=f"{east} is named twice"):
        link_directories([east, west, east])
    with pytest.raises(ConfigError, match="There is no cluster in"):
        link_directories([east, tmp_path / "missing"])
    assert not (tmp_path / "missing").exists()
    with pytest.raises(ConfigError, match="has no name: `pando cluster stop"):
        link_directories([east, west, nameless])
    with pytest.raises(ConfigError, match=r"refuses nobody: .*516.*name another user"):
        link_directories([east, west], ClientAccount("nobody"))
    assert _configs(directories) == before


def test_clusters_that_do_not_run_or_share_a_name(directories: dict[str, Path], tmp_path: Path) -> None:
    stopped = Cluster(tmp_path / "stopped")
    stopped.start(1, overrides={"workers": 0}, name="west")
    try:
        with pytest.raises(ConfigError, match="are both named 'west'"):
            link_directories([directories["west"], stopped.directory])
    finally:
        stopped.stop(grace_seconds=5)
    with pytest.raises(ConfigError, match="does not run: `pando cluster start"):
        link_directories([directories["east"], stopped.directory])


def test_the_user_of_links_brings_no_other_user_back(directories: dict[str, Path]) -> None:
    state = load_state(directories["north"])
    assert state is not None
    state.overrides = {"users": {"admin": {"password": "secret"}}}
    path = directories["north"] / "elsewhere"
    values = yaml.safe_load(write_replica_config(path, state, state.replicas[0]).read_text())
    assert set(values["users"]) == {"admin", "linker"}
