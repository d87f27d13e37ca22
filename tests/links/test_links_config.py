"""The keys ``cluster_name`` and ``linked_clusters``."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from engine.cluster.cluster import Cluster
from engine.cluster.cluster_state import ClusterState, Member, load_state, save_state
from engine.cluster.replica_config import write_replica_config
from engine.engine import Engine
from engine.queries.session import Session
from engine.remote.linked_clusters import LinkedClusters
from engine.server.config import Config, ConfigError
from parts.common.errors import PandoError

SECRET = "hush-7391"
LINKED = """
cluster_name: east_1-a
linked_clusters:
  west: {urls: ['http://w1:8123', 'https://[::1]:8443/'], user: linker, password: hush-7391}
  north: {urls: ['http://n1']}
"""


def load(tmp_path: Path, text: str) -> Config:
    file = tmp_path / "config.yaml"
    file.write_text(f"path: data\n{text}")
    return Config.load(file)


def test_none_by_default(tmp_path: Path) -> None:
    config = load(tmp_path, "")
    assert (config.cluster_name, config.linked_clusters) == (None, {})


def test_what_is_given(tmp_path: Path) -> None:
    config = load(tmp_path, LINKED)
    assert config.cluster_name == "east_1-a"
    west, north = config.linked_clusters["west"], config.linked_clusters["north"]
    assert (west.urls, west.user, west.password) == (["http://w1:8123", "https://[::1]:8443"], "linker", SECRET)
    assert (north.urls, north.user, north.password) == (["http://n1"], "default", "")


def test_no_password_is_shown(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    config = load(tmp_path, LINKED)
    logging.getLogger("engine").warning("%s %r", config, config.linked_clusters)
    assert "linker" in caplog.text
    assert SECRET not in caplog.text


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("cluster_name: ''", "at most 64 letters"),
        ("cluster_name: a.b", "at most 64 letters"),
        ("cluster_name: 'a b'", "at most 64 letters"),
        (f"cluster_name: {'x' * 65}", "at most 64 letters"),
        ("linked_clusters: {'a.b': {urls: ['http://w']}}", "at most 64 letters"),
        ("linked_clusters: {w: {}}", "linked_clusters.w.urls' is missing"),
        ("linked_clusters: {w: {urls: []}}", "at least 1 item"),
        ("linked_clusters: {w: {urls: ['w1:8123']}}", "a server is http://host:port"),
        ("linked_clusters: {w: {urls: ['ftp://w1']}}", "a server is http://host:port"),
        ("linked_clusters: {w: {urls: ['http://w1:x']}}", "a server is http://host:port"),
        ("linked_clusters: {w: {urls: ['http://w1/path']}}", "a server is http://host:port"),
        (f"linked_clusters: {{w: {{urls: ['http://linker:{SECRET}@w1']}}}}", "user and password are keys"),
        (f"linked_clusters: {{w: {{urls: ['http://w1'], password: ['{SECRET}']}}}}", "password"),
        (f"linked_clusters: {{w: {{urls: ['http://w1'], pasword: '{SECRET}'}}}}", "Unknown key"),
    ],
)
def test_mistakes(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text)
    assert problem in caught.value.message
    assert SECRET not in caught.value.message


# --- SYSTEM RELOAD CONFIG ------------------------------------------------------------------------------------------


def test_the_linked_clusters_are_read_again(tmp_path: Path) -> None:
    clusters = LinkedClusters(load(tmp_path, ""))
    with pytest.raises(PandoError, match=r"Cluster 'west' is not among linked_clusters .* \(none\)") as caught:
        clusters.get("west")
    assert caught.value.code == 36
    load(tmp_path, LINKED)
    clusters.reload()
    assert clusters.names() == ["north", "west"]
    assert clusters.get("west").user == "linker"


@pytest.mark.parametrize("mistake", ["linked_clusters: {w: {}}", "no_such_key: 1", ": :", ""])
def test_a_mistake_changes_nothing(tmp_path: Path, mistake: str) -> None:
    clusters = LinkedClusters(load(tmp_path, LINKED))
    (tmp_path / "config.yaml").write_text(mistake)
    with pytest.raises(ConfigError):
        clusters.reload()
    assert clusters.get("north").urls == ["http://n1"]


def test_the_statement(tmp_path: Path) -> None:
    config = load(tmp_path, "http_port: null\ninterserver_http_port: null\n")
    engine = Engine(config)
    engine.start()
    try:
        load(tmp_path, LINKED)
        list(engine.execute("SYSTEM RELOAD CONFIG", Session()).batches)
        assert engine.linked_clusters.names() == ["north", "west"]
    finally:
        engine.stop()


def test_a_server_without_a_file_has_nothing_to_read(tmp_path: Path) -> None:
    with pytest.raises(PandoError, match="not started with a configuration file"):
        LinkedClusters(Config.local(tmp_path)).reload()


# --- pando cluster start --name ------------------------------------------------------------------------------------


def state_of(tmp_path: Path, name: str = "") -> None:
    save_state(tmp_path, ClusterState(Member("zookeeper", 1), [Member("r1", 2, 3)], name=name))


@pytest.mark.parametrize("name", ["", "a.b", "x" * 65])
def test_a_cluster_with_a_bad_name_is_not_started(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="at most 64 letters"):
        Cluster(tmp_path).start(1, name=name)


def test_a_cluster_keeps_its_name(tmp_path: Path) -> None:
    state_of(tmp_path, "west")
    with pytest.raises(ConfigError, match="is named 'west', and cannot become 'east'"):
        Cluster(tmp_path).start(1, name="east")
    found = load_state(tmp_path)
    assert found is not None
    assert found.name == "west"


def test_the_name_is_in_every_replicas_configuration(tmp_path: Path) -> None:
    state_of(tmp_path, "west")
    found = load_state(tmp_path)
    assert found is not None
    file = write_replica_config(tmp_path, found, found.replicas[0])
    assert Config.load(file).cluster_name == "west"
    found.name = ""
    assert Config.load(write_replica_config(tmp_path, found, found.replicas[0])).cluster_name is None
