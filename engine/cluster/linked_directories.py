"""Links clusters of this machine: the servers of each get the addresses of the others.

``pando cluster link`` runs it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from engine.cluster.cluster_state import ClusterState, Member, load_state, lock_cluster, save_state
from engine.cluster.replica_config import LINK_USER, write_replica_config
from engine.http_client.http_client import HttpClient
from engine.server.config import ConfigError
from parts.common.errors import PandoError

_ANSWER_SECONDS = 30.0


@dataclass(frozen=True)
class LinkedDirectory:
    """A cluster after it was linked."""

    name: str
    directory: Path
    linked_to: tuple[str, ...]
    """The names of all clusters that its servers know now."""
    reloaded: int
    """The servers that know them already; the others read them when they start."""
    servers: int


@dataclass(frozen=True)
class ClientAccount:
    """The user as whom the servers are told to read their configuration."""

    user: str = "default"
    password: str = ""

    def connect(self, replica: Member) -> HttpClient:
        """Returns a client of the replica."""
        return HttpClient(port=replica.port, user=self.user, password=self.password, timeout_seconds=_ANSWER_SECONDS)


def link_directories(directories: Sequence[Path], account: ClientAccount = ClientAccount()) -> list[LinkedDirectory]:
    """Writes ``linked_clusters`` into the configuration of all servers, and has the running ones read it.

    Every cluster is linked to every other one; clusters that it knew before stay. May be repeated. Nothing is written
    unless all clusters can be linked. Raises :class:`ConfigError`.
    """
    paths = [Path(directory).absolute() for directory in directories]
    _check_directories(paths)
    with ExitStack() as locks:
        for path in sorted(paths):  # in one order, so that two commands do not wait for each other
            locks.enter_context(lock_cluster(path))
        states = {path: _load(path) for path in paths}
        _check_names(states)
        for path, state in states.items():
            _check_servers(path, state, account)
        for path, state in states.items():
            others = {other.name: _describe(other) for other in states.values() if other is not state}
            state.linked_clusters = {**state.linked_clusters, **others}
            save_state(path, state)
            for replica in state.replicas:
                write_replica_config(path, state, replica)
        return [_reload(path, state, account) for path, state in states.items()]


def _check_directories(paths: Sequence[Path]) -> None:
    if len(paths) < 2:
        raise ConfigError("A link needs two clusters: name the directories of at least two")
    for number, path in enumerate(paths):
        if path.resolve() in (other.resolve() for other in paths[:number]):
            raise ConfigError(f"{path} is named twice")
        if not (path / "cluster.json").exists():  # before the lock, which would make the directory
            raise ConfigError(f"There is no cluster in {path}; `pando cluster start --dir` makes one")


def _load(path: Path) -> ClusterState:
    state = load_state(path)
    if state is None:
        raise ConfigError(f"There is no cluster in {path}; `pando cluster start --dir` makes one")
    return state


def _check_names(states: dict[Path, ClusterState]) -> None:
    taken: dict[str, Path] = {}
    for path, state in states.items():
        if not state.name:
            raise ConfigError(
                f"The cluster in {path} has no name: `pando cluster stop --dir {path}`, "
                f"then `pando cluster start --name … --dir {path}`"
            )
        if state.name in taken:
            raise ConfigError(f"The clusters in {taken[state.name]} and {path} are both named {state.name!r}")
        taken[state.name] = path
    if len({bool(state.image) for state in states.values()}) > 1:
        raise ConfigError(
            "Clusters of containers and clusters of processes do not reach each other: link like with like"
        )


def _list_running(state: ClusterState) -> list[Member]:
    return [replica for replica in state.replicas if replica.process.is_alive()]


def _check_servers(path: Path, state: ClusterState, account: ClientAccount) -> None:
    """Checks that the running servers answer, know the user of links, and take orders from the given one."""
    running = _list_running(state)
    if not running:
        raise ConfigError(f"The cluster in {path} does not run: `pando cluster start --dir {path}` starts it")
    linker = ClientAccount(LINK_USER, state.link_password)
    for replica in running:
        _ask(path, replica, linker, "SELECT 1", f"start it anew: `pando cluster restart {replica.name} --dir {path}`")
        _ask(path, replica, account, "SELECT 1", "name another user with --user and --password")


def _ask(path: Path, replica: Member, account: ClientAccount, statement: str, remedy: str) -> None:
    try:
        with account.connect(replica) as client:
            client.execute(statement)
    except PandoError as error:
        advice = f"; {remedy}" if error.name == "AUTHENTICATION_FAILED" else ""
        raise ConfigError(f"{replica.name} of the cluster in {path} refuses {account.user}: {error}{advice}") from None


def _describe(state: ClusterState) -> dict[str, object]:
    """Returns the entry of a cluster in the configuration of others."""
    urls = [f"http://{state.get_host(replica)}:{replica.port}" for replica in state.replicas]
    return {"urls": urls, "user": LINK_USER, "password": state.link_password}


def _reload(path: Path, state: ClusterState, account: ClientAccount) -> LinkedDirectory:
    running = _list_running(state)
    for replica in running:
        _ask(path, replica, account, "SYSTEM RELOAD CONFIG", "name another user with --user and --password")
    return LinkedDirectory(state.name, path, tuple(sorted(state.linked_clusters)), len(running), len(state.replicas))
