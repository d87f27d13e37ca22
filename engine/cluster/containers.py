"""Starts the containers of a cluster's description, and removes them with their networks."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from engine.cluster.cluster_state import ClusterState, Member
from engine.cluster.container_id import ContainerId, connect_engine, translated_errors
from engine.cluster.container_plan import DIRECTORY_LABEL, LINKS_NETWORK, Container, get_network
from engine.server.config import ConfigError


def check_image(image: str) -> None:
    """Checks that the engine answers and has the image. Raises :class:`ConfigError`."""
    from docker.errors import ImageNotFound

    engine = connect_engine()
    with translated_errors(f"look at the image {image}"):
        try:
            engine.images.get(image)
        except ImageNotFound:
            raise ConfigError(
                f"There is no image {image!r}: `pando cluster image` makes one, or name another with --image"
            ) from None


def run_container(directory: Path, container: Container) -> ContainerId:
    """Starts a member's container anew, on its networks; what ended before is removed.

    Raises :class:`ConfigError`, also if another cluster has a container of its name.
    """
    engine = connect_engine()
    for path in container.directories:
        path.mkdir(parents=True, exist_ok=True)
    _remove(container.name, str(directory))
    with translated_errors(f"start the container {container.name}"):
        for network in container.networks:
            _ensure_network(network)
        made = engine.containers.create(
            container.image,
            list(container.command),
            name=container.name,
            hostname=container.name,
            init=True,
            user=f"{os.getuid()}:{os.getgid()}",
            ports={f"{container.port}/tcp": ("127.0.0.1", container.port)},
            volumes=[f"{path}:{path}" for path in container.directories],
            environment=dict(container.environment),
            labels={DIRECTORY_LABEL: str(directory)},
            network=container.networks[0],
        )
    try:
        with translated_errors(f"start the container {container.name}"):
            for network in container.networks[1:]:
                engine.networks.get(network).connect(made)
            made.start()
    except BaseException:
        made.remove(force=True)
        raise
    return ContainerId(str(made.id))


def remove_containers(directory: Path, state: ClusterState, members: Sequence[Member]) -> None:
    """Removes the containers of members, and the cluster's networks if nobody uses them any more."""
    from docker.errors import APIError

    for member in members:
        _remove(state.get_host(member), str(directory))
    engine = connect_engine()
    for network in (get_network(state), LINKS_NETWORK):
        with translated_errors(f"remove the network {network}"), suppress(APIError):  # others are on it
            engine.networks.get(network).remove()


def read_output(member: Member, lines: int) -> str:
    """Returns the last lines that a member's container wrote; "" for a process."""
    return member.process.read_output(lines) if isinstance(member.process, ContainerId) else ""


def _remove(name: str, directory: str) -> None:
    from docker.errors import NotFound

    with translated_errors(f"remove the container {name}"):
        try:
            found = connect_engine().containers.get(name)
        except NotFound:
            return
        owner = found.labels.get(DIRECTORY_LABEL)
        if owner != directory:
            whose = f"of the cluster in {owner}" if owner else "of something else"
            raise ConfigError(f"There is a container {name} {whose}: stop and remove it, or use another --name")
        found.remove(force=True)  # a start that was killed may have left it running


def _ensure_network(name: str) -> None:
    from docker.errors import APIError, NotFound

    networks = connect_engine().networks
    try:
        networks.get(name)
    except NotFound:
        try:
            networks.create(name, driver="bridge", check_duplicate=True)
        except APIError:  # made at the same time by another cluster's start
            networks.get(name)
