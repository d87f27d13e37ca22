"""``pando cluster``: real processes, found, killed, restarted and ended by pid."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.cluster.cluster import Cluster
from engine.cluster.cluster_state import ClusterState, Member, find_free_ports, load_state, save_state
from engine.cluster.os_processes import ProcessId, get_start_time, identify_process, wait_until
from engine.http_client.http_client import HttpClient
from engine.server.config import ConfigError
from tests.power_cut import power_cut

pytestmark = pytest.mark.long


def _pando(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "engine.cli", "cluster", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)


# -- processes ------------------------------------------------------------------------------------------------------


def test_reused_pid_is_nobody() -> None:
    process = subprocess.Popen(["sleep", "60"])
    try:
        known = identify_process(process.pid)
        assert known.is_alive()
        other = ProcessId(process.pid, "1")
        assert not other.is_alive()
        other.signal(signal.SIGKILL)
        assert known.is_alive()
        known.signal(signal.SIGKILL)
        assert known.wait_end(10), "a zombie counts as ended"
    finally:
        process.kill()
        process.wait(10)
    assert get_start_time(process.pid) == ""
    assert not identify_process(process.pid).is_alive(), "gone before it was looked at"


def test_state_survives(tmp_path: Path) -> None:
    state = ClusterState(Member("zookeeper", 1), [Member("r1", 2, 3, ProcessId(4, "5"))], overrides={"a": 1})
    save_state(tmp_path, state)
    assert load_state(tmp_path) == state
    (tmp_path / "cluster.json").write_text("{")
    with pytest.raises(ConfigError, match=r"cluster\.json"):
        load_state(tmp_path)


def test_a_saved_state_survives_a_power_cut_and_is_its_owners_alone(tmp_path: Path) -> None:
    """Passwords stand in it; a file that is empty after a crash would lose members that run."""
    home, image = tmp_path / "home", tmp_path / "image"
    home.mkdir()
    save_state(home, ClusterState(Member("zookeeper", 1)))
    state = ClusterState(Member("zookeeper", 1), [Member("r1", 2, 3, ProcessId(4, "5"))])
    with power_cut(home, image):
        save_state(home, state)
    assert load_state(image) == state
    assert [(file.name, file.stat().st_mode & 0o777) for file in home.iterdir()] == [("cluster.json", 0o600)]


def test_ports_are_distinct() -> None:
    ports = find_free_ports(20)
    assert len(set(ports)) == 20


def test_directory_without_a_cluster(tmp_path: Path) -> None:
    answer = _pando("status", "--dir", str(tmp_path))
    assert answer.returncode == 1
    assert answer.stderr.count("\n") == 1
    assert "There is no cluster in" in answer.stderr
    assert _pando("stop", "--dir", str(tmp_path / "mistyped")).returncode == 1
    assert not (tmp_path / "mistyped").exists()


@pytest.mark.parametrize("text", ["{", "[]", '{"zookeeper": {"process": [1]}, "replicas": []}', '{"zookeeper": 5}'])
def test_state_that_cannot_be_read(tmp_path: Path, text: str) -> None:
    (tmp_path / "cluster.json").write_text(text)
    with pytest.raises(ConfigError, match="Cannot read the cluster's state"):
        load_state(tmp_path)


# -- a cluster ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    path = tmp_path_factory.mktemp("cluster")
    answer = _pando("start", "--replicas", "2", "--dir", str(path))
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.count("ready") == 3
    try:
        yield path
    finally:
        assert _pando("stop", "--dir", str(path)).returncode == 0
        assert not any(member.alive for member in Cluster(path).status())


def _client(directory: Path, name: str) -> HttpClient:
    port = next(member.http_port for member in Cluster(directory).status() if member.name == name)
    return HttpClient(port=port)


@pytest.mark.cluster
def test_status_as_json(directory: Path) -> None:
    status = json.loads(_pando("status", "--dir", str(directory), "--json").stdout)
    assert [replica["name"] for replica in status["replicas"]] == ["r1", "r2"]
    for replica in status["replicas"]:
        assert replica["workers"] == len(os.sched_getaffinity(0))
        assert replica["alive"]
        assert replica["ready"]
        assert replica["pid"] > 0
        assert replica["http_port"] > 0
        assert replica["interserver_port"] > 0
    assert status["zookeeper"]["alive"]
    assert status["zookeeper"]["port"] > 0


@pytest.mark.cluster
def test_start_again_changes_nothing(directory: Path) -> None:
    before = Cluster(directory).status()
    assert _pando("start", "--replicas", "2", "--dir", str(directory)).returncode == 0
    assert Cluster(directory).status() == before


@pytest.mark.cluster
def test_macros_and_replication(directory: Path) -> None:
    with _client(directory, "r1") as first, _client(directory, "r2") as second:
        create = (
            "CREATE TABLE t (a UInt64) ENGINE = ReplicatedMergeTree"
            "('/clickhouse/tables/{layer}-{shard}/t', '{replica}') ORDER BY a"
        )
        first.execute(create)
        second.execute(create)
        first.execute("INSERT INTO t VALUES (1), (2)")
        second.execute("SYSTEM SYNC REPLICA t")
        assert second.value("SELECT sum(a) FROM t") == 3
        assert second.get("/replicas_status?verbose=1").status_code == 200


@pytest.mark.cluster
def test_kill_and_restart(directory: Path) -> None:
    before = next(member for member in Cluster(directory).status() if member.name == "r2")
    assert _pando("kill", "r2", "--dir", str(directory)).returncode == 0
    assert get_start_time(before.pid) == ""
    again = _pando("kill", "r2", "--dir", str(directory))
    assert (again.returncode, again.stderr) == (1, "pando: r2 does not run\n")
    assert _pando("restart", "r2", "--dir", str(directory)).returncode == 0
    after = next(member for member in Cluster(directory).status() if member.name == "r2")
    assert (after.http_port, after.interserver_port) == (before.http_port, before.interserver_port)
    assert after.pid != before.pid
    assert after.ready


@pytest.mark.cluster
def test_environment_passes_on_at_restart(directory: Path) -> None:
    member = Cluster(directory).restart("r2", environment={"PANDO_TEST_MARK": "here"})
    environment = Path(f"/proc/{member.pid}/environ").read_bytes().split(b"\0")
    assert b"PANDO_TEST_MARK=here" in environment
    assert os.environ.get("PANDO_TEST_MARK") is None


@pytest.mark.cluster
def test_zookeeper_can_be_killed_too(directory: Path) -> None:
    cluster = Cluster(directory)
    cluster.kill("zookeeper")
    assert not cluster.status()[-1].alive
    with _client(directory, "r1") as client:
        assert client.execute("SELECT 1").text == "1\n"
        assert wait_until(lambda: client.get("/ready").status_code == 503, 30)
    cluster.restart("zookeeper")
    assert cluster.status()[-1].ready
    with _client(directory, "r1") as client:
        assert wait_until(lambda: client.get("/ready").status_code == 200, 30)


@pytest.mark.cluster
def test_failed_start_shows_the_log_and_cleans_up(tmp_path: Path) -> None:
    config = tmp_path / "extra.yaml"
    config.write_text("http_prt: 1\n")
    answer = _pando("start", "--replicas", "1", "--dir", str(tmp_path / "c"), "--config", str(config))
    assert answer.returncode == 1
    assert "Replica r1 ended at its start" in answer.stderr
    assert "Unknown key 'http_prt'" in answer.stderr
    assert not any(member.alive for member in Cluster(tmp_path / "c").status())
