"""Starting ZooKeeper from the jars: child, detached, and the clear errors."""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path

import pytest

from coordination.keeper.embedded_zookeeper import (
    EmbeddedZooKeeper,
    find_free_port,
    find_java,
    is_serving,
    send_four_letter_word,
    server_command,
    start_detached,
    wait_until_serving,
)
from coordination.keeper.kazoo_keeper import KazooKeeper
from parts.common.errors import PandoError


@pytest.mark.long
@pytest.mark.cluster
def test_data_survive_a_kill(tmp_path: Path) -> None:
    server = EmbeddedZooKeeper(tmp_path)
    for attempt in range(2):
        with server:
            keeper = KazooKeeper(server.hosts, 5.0)
            if attempt == 0:
                keeper.create("/kept", b"value")
            assert keeper.get("/kept")[0] == b"value"
            assert send_four_letter_word(server.port, "ruok") == "imok"
            server.kill()
            keeper.close()
        assert server.pid == 0
    assert not is_serving(server.port)


@pytest.mark.cluster
@pytest.mark.long
def test_detached_server_is_in_a_session_of_its_own(tmp_path: Path) -> None:
    port = find_free_port()
    pid = start_detached(tmp_path, port)
    try:
        wait_until_serving(port, tmp_path)
        assert os.getsid(pid) == pid
        assert (tmp_path / "zookeeper.pid").read_text() == f"{pid}\n"
    finally:
        os.kill(pid, signal.SIGTERM)
        os.waitpid(pid, 0)


def test_port_in_use_is_one_clear_line(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(PandoError, match=f"Port {port} for ZooKeeper is in use") as caught:
            EmbeddedZooKeeper(tmp_path, port).start()
    assert "\n" not in str(caught.value)


def test_missing_java_is_one_clear_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(PandoError, match="no `java` on PATH"):
        EmbeddedZooKeeper(tmp_path).start()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(PandoError, match="JAVA_HOME is"):
        find_java()


def test_early_death_tells_the_last_line_of_the_log(tmp_path: Path) -> None:
    (tmp_path / "zookeeper.log").write_text("first\nthe reason\n")
    with pytest.raises(PandoError, match="the reason"):
        wait_until_serving(find_free_port(), tmp_path, is_alive=lambda: False)


def test_command_line_writes_the_configuration(tmp_path: Path) -> None:
    command = server_command(tmp_path, 21810)
    assert command[-1] == str(tmp_path / "zoo.cfg")
    lines = (tmp_path / "zoo.cfg").read_text().splitlines()
    assert "clientPort=21810" in lines
    assert "4lw.commands.whitelist=ruok,srvr,mntr" in lines
    assert not any("forceSync" in line for line in lines)
