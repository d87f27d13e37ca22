"""Describes the containers of a cluster and their networks.

They are started, and a compose file is made, from one description. Every member is one container. All of them share the
network of their cluster, over which replicas fetch parts and ask their ZooKeeper; replicas are on the network between
clusters too, over which links ask. A member has the same name on both, its container's. Its files are bound at the same
place inside as outside, so that configurations hold for both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from engine.cluster.cluster_state import ClusterState, Member

DEFAULT_IMAGE = "pando"
LINKS_NETWORK = "pando-links"
DIRECTORY_LABEL = "pando.directory"
_ANY_HOST = "0.0.0.0"


@dataclass(frozen=True)
class Container:
    """The container of one member.

    Its port is the same inside and outside; outside it is open on loopback alone.
    """

    name: str
    image: str
    command: tuple[str, ...]
    """What follows the image's entrypoint, which is the command ``pando``."""
    port: int
    networks: tuple[str, ...]
    directories: tuple[Path, ...]
    """What is bound, at the same place inside as outside."""
    needs: tuple[str, ...] = ()
    """The containers that it asks."""
    environment: Mapping[str, str] = field(default_factory=dict)


def get_network(state: ClusterState) -> str:
    """Returns the name of the network inside a cluster."""
    return f"pando-{state.name}"


def describe_zookeeper(directory: Path, state: ClusterState) -> Container:
    """Describes the container of a cluster's ZooKeeper."""
    member = state.zookeeper
    home = directory / member.name
    command = ("zookeeper", "--dir", str(home), "--port", str(member.port), "--host", _ANY_HOST)
    return Container(state.get_host(member), state.image, command, member.port, (get_network(state),), (home,))


def describe_replica(
    directory: Path, state: ClusterState, replica: Member, environment: Mapping[str, str] | None = None
) -> Container:
    """Describes the container of a replica, whose configuration file lies in its directory."""
    home = directory / replica.name
    return Container(
        state.get_host(replica),
        state.image,
        ("server", "--config", str(home / "config.yaml")),
        replica.port,
        (get_network(state), LINKS_NETWORK),
        (home, directory / "user_files"),
        (state.get_host(state.zookeeper),),
        environment or {},
    )


def write_compose(directory: Path, state: ClusterState, outside: str = ".") -> str:
    """Returns the text of a compose file for a cluster.

    ``directory`` is where its files lie inside the containers, ``outside`` where they lie on the machine, from the
    compose file on.
    """
    replicas = [describe_replica(directory, state, replica) for replica in state.replicas]
    containers = (describe_zookeeper(directory, state), *replicas)
    networks = {name: {"name": name} for container in containers for name in container.networks}
    services = {container.name: _describe_service(container, directory, outside) for container in containers}
    return yaml.safe_dump({"services": services, "networks": networks}, sort_keys=False)


def _describe_service(container: Container, directory: Path, outside: str) -> dict[str, object]:
    service: dict[str, object] = {
        "image": container.image,
        "container_name": container.name,
        "hostname": container.name,
        "init": True,
        "command": list(container.command),
        "ports": [f"127.0.0.1:{container.port}:{container.port}"],
        "volumes": [f"{outside}/{path.relative_to(directory)}:{path}" for path in container.directories],
        "networks": list(container.networks),
    }
    return {**service, **({"depends_on": list(container.needs)} if container.needs else {})}
