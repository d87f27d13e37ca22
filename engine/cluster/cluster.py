"""Starts, watches and stops the processes or containers of a cluster.

``pando cluster``, the demo and tests use it.
"""

from __future__ import annotations

import os
import signal
import sys
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from coordination.keeper import embedded_zookeeper
from engine.cluster.cluster_state import (
    ClusterState,
    Member,
    find_free_ports,
    is_port_free,
    load_state,
    lock_cluster,
    save_state,
)
from engine.cluster.container_id import ContainerId
from engine.cluster.container_plan import describe_replica, describe_zookeeper
from engine.cluster.containers import check_image, read_output, remove_containers, run_container
from engine.cluster.os_processes import (
    NO_PROCESS,
    ProcessId,
    end_processes,
    identify_process,
    read_log_tail,
    spawn_detached,
    wait_until,
)
from engine.cluster.replica_config import write_replica_config
from engine.server.config import ConfigError
from engine.server.links_config import check_cluster_name

_START_SECONDS = 90.0
_GRACE_SECONDS = 20.0
_READY_POLL_SECONDS = 0.1
ZOOKEEPER = "zookeeper"


@dataclass(frozen=True)
class MemberStatus:
    """The state of a member. ``port`` is the client port: HTTP of a replica, or ZooKeeper's own."""

    name: str
    pid: int
    alive: bool
    ready: bool
    http_port: int = 0
    interserver_port: int = 0
    port: int = 0
    workers: int = 0
    """The number of worker processes, which run its queries."""
    container: str = ""
    """The id of its container; "" if it is a process."""

    @property
    def is_alive(self) -> bool:
        """Whether the process runs."""
        return self.alive


class Cluster:
    """The cluster of a directory. Each call reads the state again; several processes may call at once."""

    def __init__(self, directory: Path | str) -> None:
        self.directory = Path(directory).absolute()

    # -- commands ---------------------------------------------------------------------------------------------------

    def start(
        self,
        replicas: int = 3,
        first_http_port: int = 0,
        overrides: Mapping[str, object] | None = None,
        name: str | None = None,
        image: str | None = None,
    ) -> list[MemberStatus]:
        """Starts the members that do not run, and waits until every replica takes queries.

        ``name`` is the cluster's name for links with other clusters (``cluster_name``), which it keeps. ``image`` has
        the members run in containers of it, "" as processes; ``None`` keeps what they ran in. A ready replica has its
        ZooKeeper session. On failure everything that this call started is ended. Raises
        :class:`ConfigError`.
        """
        with lock_cluster(self.directory):
            state = self._plan_members(replicas, first_http_port, overrides)
            _set_name(state, name)
            _set_image(state, image)
            started: list[Member] = []
            try:
                if not state.zookeeper.process.is_alive():
                    started.append(state.zookeeper)
                    self._start_zookeeper(state)
                for replica in state.replicas:
                    if not replica.process.is_alive():
                        self._spawn_replica(state, replica)
                        started.append(replica)
                save_state(self.directory, state)
                for replica in state.replicas:
                    self._wait_ready(replica, needs_session=True)
            except BaseException:
                end_processes([member.process for member in started], 5)
                for member in started:
                    member.process = NO_PROCESS
                if state.image:
                    with suppress(ConfigError):  # the first error counts
                        remove_containers(self.directory, state, started)
                save_state(self.directory, state)
                raise
        return self.status()

    def status(self) -> list[MemberStatus]:
        """Returns the state of every replica, then of the ZooKeeper."""
        state = self._load_existing()
        statuses = [_replica_status(replica) for replica in state.replicas]
        zookeeper = state.zookeeper
        alive = zookeeper.process.is_alive()
        serving = alive and embedded_zookeeper.is_serving(zookeeper.port)
        pid, container = zookeeper.process.pid, _get_container(zookeeper)
        return [
            *statuses, MemberStatus(ZOOKEEPER, pid, alive, serving, port=zookeeper.port, container=container)
        ]  # fmt: skip

    def kill(self, name: str) -> int:
        """Kills a member with SIGKILL; returns its pid. Raises :class:`ConfigError` if it does not run."""
        process = self._load_existing().member(name).process
        if not process.is_alive():
            raise ConfigError(f"{name} does not run")
        pid = process.pid
        process.signal(signal.SIGKILL)
        if not process.wait_end(10):
            raise ConfigError(f"{name} (pid {pid}) did not end within 10 s of SIGKILL")
        return pid

    def terminate(self, name: str, grace_seconds: float = _GRACE_SECONDS) -> None:
        """Ends one member gracefully, if it runs."""
        end_processes([self._load_existing().member(name).process], grace_seconds)

    def restart(self, name: str, *, wait: bool = True, environment: Mapping[str, str] | None = None) -> MemberStatus:
        """Ends a member if it runs, and starts it with the same ports and the caller's environment."""
        self.terminate(name)
        with lock_cluster(self.directory):
            state = self._load_existing()
            member = state.member(name)
            if name == ZOOKEEPER:
                self._start_zookeeper(state)
            else:
                self._spawn_replica(state, member, environment)
            save_state(self.directory, state)
            if wait and name != ZOOKEEPER:
                self._wait_ready(member, needs_session=state.zookeeper.process.is_alive())
        return next(status for status in self.status() if status.name == name)

    def stop(self, grace_seconds: float = _GRACE_SECONDS) -> None:
        """Ends the running replicas, then the ZooKeeper."""
        self._load_existing()  # raises for a mistyped directory, which the lock would create
        with lock_cluster(self.directory):
            state = self._load_existing()
            end_processes([replica.process for replica in state.replicas], grace_seconds)
            end_processes([state.zookeeper.process], grace_seconds)
            if state.image:
                remove_containers(self.directory, state, (*state.replicas, state.zookeeper))

    def replica_directory(self, name: str) -> Path:
        """Returns the directory of a replica."""
        return self.directory / name

    # -- planning ---------------------------------------------------------------------------------------------------

    def _load_existing(self) -> ClusterState:
        state = load_state(self.directory)
        if state is None:
            raise ConfigError(f"There is no cluster in {self.directory}; `pando cluster start --dir` makes one")
        return state

    def _plan_members(
        self, replicas: int, first_http_port: int, overrides: Mapping[str, object] | None
    ) -> ClusterState:
        state = load_state(self.directory)
        if state is None:
            state = ClusterState(Member(ZOOKEEPER, find_free_ports(1)[0]))
        if len(state.replicas) > replicas:
            raise ConfigError(
                f"The cluster in {self.directory} has {len(state.replicas)} replicas, more than {replicas}; "
                "stop it and use another directory"
            )
        if overrides is not None:
            state.overrides = dict(overrides)
        while len(state.replicas) < replicas:
            taken = [state.zookeeper.port]
            taken += [port for replica in state.replicas for port in (replica.port, replica.interserver_port)]
            http_port, interserver_port = find_free_ports(2, taken)
            if first_http_port:
                http_port = first_http_port + len(state.replicas)
                if not is_port_free(http_port):
                    raise ConfigError(f"Port {http_port} (--http-port) is in use")
            state.replicas.append(Member(f"r{len(state.replicas) + 1}", http_port, interserver_port))
        return state

    # -- processes --------------------------------------------------------------------------------------------------

    def _start_zookeeper(self, state: ClusterState) -> None:
        directory = self.directory / ZOOKEEPER
        directory.mkdir(parents=True, exist_ok=True)
        process: ProcessId | ContainerId
        if state.image:
            process = run_container(self.directory, describe_zookeeper(self.directory, state))
        else:
            process = identify_process(embedded_zookeeper.start_detached(directory, state.zookeeper.port))
        state.zookeeper.process = process
        embedded_zookeeper.wait_until_serving(state.zookeeper.port, directory, is_alive=process.is_alive)

    def _spawn_replica(
        self, state: ClusterState, replica: Member, environment: Mapping[str, str] | None = None
    ) -> None:
        file = write_replica_config(self.directory, state, replica)
        if state.image:
            passed_on = {key: value for key, value in os.environ.items() if key.startswith("PANDO_")}
            container = describe_replica(self.directory, state, replica, {**passed_on, **(environment or {})})
            replica.process = run_container(self.directory, container)
            return
        directory = self.replica_directory(replica.name)
        command = [sys.executable, "-m", "engine.cli", "server", "--config", str(file)]
        merged = {**os.environ, **(environment or {})}
        replica.process = spawn_detached(command, directory, directory / "output.log", merged)

    def _wait_ready(self, replica: Member, *, needs_session: bool) -> None:
        """Waits until the replica is ready. Raises :class:`ConfigError` with the end of its log."""

        def is_ready_or_dead() -> bool:
            return not replica.process.is_alive() or _is_ready(replica.port, needs_session)

        is_in_time = wait_until(is_ready_or_dead, _START_SECONDS, _READY_POLL_SECONDS)
        if is_in_time and replica.process.is_alive():
            return
        problem = f"is not ready after {_START_SECONDS:g} s" if replica.process.is_alive() else "ended at its start"
        directory = self.replica_directory(replica.name)
        log = _read_last_words(directory, read_output(replica, 200))
        raise ConfigError(f"Replica {replica.name} {problem}; the end of its log in {directory}:\n{log}")


def _read_last_words(directory: Path, output: str) -> str:
    """Returns the server's own error, which libraries may have written behind, or the end of a log."""
    output = output or read_log_tail(directory / "output.log", 200)
    errors = [line for line in output.splitlines() if line.startswith("pando: ")]
    return errors[-1] if errors else output[-1000:] or read_log_tail(directory / "server.log")


def _set_name(state: ClusterState, name: str | None) -> None:
    if name is None or (name and name == state.name):
        return
    if state.name or any(replica.process.is_alive() for replica in state.replicas):
        known = f"is named {state.name!r}" if state.name else "runs without a name; stop it first"
        raise ConfigError(f"The cluster {known}, and cannot become {name!r}")
    try:
        state.name = check_cluster_name(name)
    except ValueError as error:
        raise ConfigError(f"Bad --name {name[:200]!r}: {error}") from None


def _set_image(state: ClusterState, image: str | None) -> None:
    if image is not None and image != state.image:
        if any(member.process.is_alive() for member in (state.zookeeper, *state.replicas)):
            raise ConfigError(f"The cluster runs {_describe_runtime(state.image)}; stop it first")
        state.image = image
    if state.image and not state.name:
        raise ConfigError("A cluster in containers needs a name, which theirs begin with: --name")
    if state.image:
        check_image(state.image)


def _describe_runtime(image: str) -> str:
    return f"in containers of the image {image}" if image else "as processes"


def _get_container(member: Member) -> str:
    return member.process.container if isinstance(member.process, ContainerId) else ""


def _replica_status(replica: Member) -> MemberStatus:
    alive = replica.process.is_alive()
    ready = alive and _is_ready(replica.port, needs_session=False)
    pid, port = replica.process.pid, replica.port
    workers = replica.process.count_processes("pando worker") if alive else 0
    container = _get_container(replica)
    return MemberStatus(replica.name, pid, alive, ready, port, replica.interserver_port, port, workers, container)


def _is_ready(port: int, needs_session: bool) -> bool:
    page = "ready" if needs_session else "ping"
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/{page}", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
