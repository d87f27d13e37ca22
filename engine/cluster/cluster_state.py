"""The state of a cluster: its members, their ports, and their processes or containers.

It is kept in ``<dir>/cluster.json``.

Layout under the cluster's directory::

    cluster.json                the state, replaced atomically
    zookeeper/                  ZooKeeper's configuration, data and log
    <replica>/config.yaml       written at each start
    <replica>/data/             the server's path
    <replica>/server.log        its log; output.log: what it printed
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import socket
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import SystemRandom

from engine.cluster.container_id import ContainerId
from engine.cluster.os_processes import NO_PROCESS, ProcessId
from engine.server.config import ConfigError
from parts.format.durable_files import replace_file_durably

_CHANCE = SystemRandom()
"""Not seeded: two programs with the same seed must not try the same ports in the same order."""
_CLAIM_SECONDS = 120.0
_FIRST_PORT, _LAST_PORT = 15_000, 32_000
"""Below the ports that systems use for outgoing connections, so that a chosen port stays free."""


@dataclass
class Member:
    """A replica, or the ZooKeeper (whose ``port`` is its client port)."""

    name: str
    port: int
    interserver_port: int = 0
    process: ProcessId | ContainerId = NO_PROCESS


@dataclass
class ClusterState:
    """The members of a cluster, and the configuration they share."""

    zookeeper: Member
    replicas: list[Member] = field(default_factory=list)
    interserver_password: str = field(default_factory=lambda: secrets.token_hex(16))
    overrides: dict[str, object] = field(default_factory=dict)
    """Configuration that is merged into every replica's."""
    name: str = ""
    """The name for links with other clusters (``cluster_name``); "" for none."""
    link_password: str = field(default_factory=lambda: secrets.token_hex(16))
    """The password of the user that other clusters' links log in as."""
    linked_clusters: dict[str, dict[str, object]] = field(default_factory=dict)
    """The other clusters by name, as every replica's configuration has them."""
    image: str = ""
    """The image of the containers that the members run in; "" if they are processes."""

    def get_host(self, member: Member) -> str:
        """Returns the host at which the other members and linked clusters reach a member."""
        return f"pando-{self.name}-{member.name}" if self.image else "127.0.0.1"

    def member(self, name: str) -> Member:
        """Returns the member of this name. Raises :class:`ConfigError`."""
        for member in (self.zookeeper, *self.replicas):
            if member.name == name:
                return member
        known = ", ".join(member.name for member in (*self.replicas, self.zookeeper))
        raise ConfigError(f"There is no {name!r} in this cluster; its members are: {known}")


def load_state(directory: Path) -> ClusterState | None:
    """Reads the state; ``None`` if there is no cluster yet. Raises :class:`ConfigError`."""
    file = directory / "cluster.json"
    try:
        values = json.loads(file.read_text())
        return ClusterState(
            _parse_member(values["zookeeper"]),
            [_parse_member(replica) for replica in values["replicas"]],
            values["interserver_password"],
            values["overrides"],
            values.get("name", ""),
            values.get("link_password") or secrets.token_hex(16),
            values.get("linked_clusters") or {},
            values.get("image", ""),
        )
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(f"Cannot read the cluster's state {file}: {error}") from None


def _parse_member(values: dict[str, object]) -> Member:
    process = values.pop("process")
    if not isinstance(process, dict):
        raise TypeError(f"{process!r} is no process")
    made = ContainerId(**process) if "container" in process else ProcessId(**process)
    return Member(**values, process=made)  # type: ignore[arg-type]


def save_state(directory: Path, state: ClusterState) -> None:
    """Replaces the state file atomically and durably. Its owner alone may read it: passwords stand in it."""
    text = json.dumps(asdict(state), indent=1) + "\n"
    replace_file_durably(directory / "cluster.json", text.encode(), mode=0o600)


@contextmanager
def lock_cluster(directory: Path) -> Iterator[None]:
    """Lets one command at a time change a cluster. Raises :class:`ConfigError` for an unusable directory."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        lock = open(directory / "cluster.lock", "a")  # noqa: SIM115
    except OSError as error:
        raise ConfigError(f"Cannot use the directory {directory}: {error.strerror}") from None
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def find_free_ports(count: int, taken: Sequence[int] = ()) -> list[int]:
    """Returns ports that were free a moment ago, none of them in ``taken``."""
    ports: list[int] = []
    for _ in range(10_000):
        if len(ports) == count:
            return ports
        port = _CHANCE.randint(_FIRST_PORT, _LAST_PORT)
        if port not in taken and port not in ports and is_port_free(port) and _claim(port):
            ports.append(port)
    raise ConfigError(f"There are no {count} free ports between {_FIRST_PORT} and {_LAST_PORT}")


def _claim(port: int) -> bool:
    """Claims a port among this user's programs.

    Returns False while another program has chosen the port, whose server may not have bound it yet.
    """
    directory = Path(tempfile.gettempdir()) / f"pando-ports-{os.getuid()}"
    directory.mkdir(mode=0o700, exist_ok=True)
    mark = directory / str(port)
    try:
        os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        if time.time() - mark.stat().st_mtime < _CLAIM_SECONDS:
            return False
        mark.touch()
    return True


def is_port_free(port: int) -> bool:
    """Returns whether the port can be bound now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
