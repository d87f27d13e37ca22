"""Containers of a cluster: what describes them, without an engine."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from engine.cluster import linked_directories
from engine.cluster.cluster import Cluster
from engine.cluster.cluster_state import ClusterState, Member, load_state, save_state
from engine.cluster.container_id import ContainerId, connect_engine
from engine.cluster.container_plan import LINKS_NETWORK, describe_replica, describe_zookeeper, write_compose
from engine.cluster.os_processes import ProcessId
from engine.cluster.replica_config import write_replica_config
from engine.commands.cluster import command
from engine.server.config import Config, ConfigError
from tests.documents.blocks import ROOT

_HOME = Path("/pando")
_EXAMPLE = ROOT / "examples" / "compose"


def _example() -> ClusterState:
    replicas = [Member("r1", 8123, 9009), Member("r2", 8124, 9009)]
    return ClusterState(
        Member("zookeeper", 2181), replicas, "change-me", name="west", link_password="change-me-too", image="pando"
    )


def test_a_replica_is_on_the_network_of_its_cluster_and_on_that_between_clusters() -> None:
    state = _example()
    replica = describe_replica(_HOME, state, state.replicas[1], {"PANDO_FAILPOINTS": "x"})
    assert replica.name == "pando-west-r2"
    assert replica.networks == ("pando-west", LINKS_NETWORK)
    assert replica.command == ("server", "--config", "/pando/r2/config.yaml")
    assert replica.port == 8124
    assert replica.directories == (_HOME / "r2", _HOME / "user_files")
    assert replica.environment == {"PANDO_FAILPOINTS": "x"}
    zookeeper = describe_zookeeper(_HOME, state)
    assert replica.needs == (zookeeper.name,) == ("pando-west-zookeeper",)
    assert zookeeper.networks == ("pando-west",), "other clusters do not reach it"
    assert zookeeper.command[-2:] == ("--host", "0.0.0.0")


def test_servers_in_containers_reach_each_other_by_name(tmp_path: Path) -> None:
    state = _example()
    config = Config.load(write_replica_config(tmp_path, state, state.replicas[0]))
    assert (config.listen_host, config.interserver_host) == ("0.0.0.0", "pando-west-r1")
    assert [node.host for node in config.zookeeper.nodes] == ["pando-west-zookeeper"]
    described = linked_directories._describe(state)
    assert described["urls"] == ["http://pando-west-r1:8123", "http://pando-west-r2:8124"]
    state.image = ""
    config = Config.load(write_replica_config(tmp_path, state, state.replicas[0]))
    assert (config.listen_host, config.interserver_host) == ("127.0.0.1", "127.0.0.1")


def test_the_state_tells_containers_and_reads_what_was_written_before_them(tmp_path: Path) -> None:
    state = _example()
    state.replicas[0].process = ContainerId("f" * 64)
    state.replicas[1].process = ProcessId(4, "5")
    save_state(tmp_path, state)
    assert load_state(tmp_path) == state
    text = (tmp_path / "cluster.json").read_text()
    (tmp_path / "cluster.json").write_text(text.replace(',\n "image": "pando"', ""))
    loaded = load_state(tmp_path)
    assert loaded is not None
    assert loaded.image == ""


def test_the_compose_file_of_the_examples_is_what_is_described(tmp_path: Path) -> None:
    """Written anew by ``python -m tests.cluster.test_container_plan``."""
    _write_example(tmp_path)
    for name in ("compose.yaml", "r1/config.yaml", "r2/config.yaml"):
        assert (_EXAMPLE / name).read_text() == (tmp_path / name).read_text(), name
    services = yaml.safe_load((_EXAMPLE / "compose.yaml").read_text())["services"]
    assert services["pando-west-r1"]["ports"] == ["127.0.0.1:8123:8123"]
    assert services["pando-west-r1"]["volumes"] == ["./r1:/pando/r1", "./user_files:/pando/user_files"]
    assert services["pando-west-r1"]["depends_on"] == ["pando-west-zookeeper"]


def test_without_an_engine_it_says_how_to_start_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/missing.sock")
    connect_engine.cache_clear()
    try:
        with pytest.raises(ConfigError, match=r"no container engine answers .*systemctl start docker"):
            Cluster(tmp_path).start(1, name="west", image="pando")
        monkeypatch.setitem(sys.modules, "docker", None)
        with pytest.raises(ConfigError, match=r"pip install 'pando\[containers\]'"):
            Cluster(tmp_path).start(1, name="west", image="pando")
    finally:
        connect_engine.cache_clear()


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (("--image", "pando", "--name", "west"), "--runtime docker"),
        (("--image", "pando", "--runtime", "process"), "--runtime docker"),
        (("--runtime", "docker"), "needs a name"),
    ],
)
def test_options_that_do_not_go_together(tmp_path: Path, options: tuple[str, ...], error: str) -> None:
    result = CliRunner().invoke(command, ["start", "--dir", str(tmp_path), *options])
    assert isinstance(result.exception, ConfigError)
    assert error in str(result.exception)


def test_containers_are_not_linked_with_processes() -> None:
    other = ClusterState(Member("zookeeper", 1), name="east")
    with pytest.raises(ConfigError, match="link like with like"):
        linked_directories._check_names({Path("/west"): _example(), Path("/east"): other})


def _write_example(folder: Path) -> None:
    state = _example()
    folder.mkdir(exist_ok=True)
    (folder / "compose.yaml").write_text(write_compose(_HOME, state))
    for replica in state.replicas:
        file = write_replica_config(folder, state, replica)
        file.write_text(file.read_text().replace(str(folder), str(_HOME)))
        file.chmod(0o644)
        (file.parent / "data").rmdir()


if __name__ == "__main__":
    _write_example(_EXAMPLE)
