"""``pando cluster``: starts and stops replicas and a ZooKeeper, as processes or in containers."""

from __future__ import annotations

import json
import signal
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from engine.cluster.cluster import Cluster, MemberStatus

_directory = click.option(
    "--dir",
    "directory",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="The cluster's directory.",
)


@click.group("cluster")
def command() -> None:
    """Start and stop a cluster of replicas on this machine.

    \b
    pando cluster start --replicas 3 --dir ./cluster
    pando cluster status --dir ./cluster
    pando cluster kill r2 --dir ./cluster
    pando cluster restart r2 --dir ./cluster
    pando cluster stop --dir ./cluster
    pando cluster link ./east ./west

    In containers:

    \b
    pando cluster image
    pando cluster start --runtime docker --name west --dir ./west
    """


@command.command("start")
@click.option("--replicas", default=3, show_default=True, type=click.IntRange(1, 99))
@_directory
@click.option(
    "--http-port", default=0, type=click.IntRange(0, 65535), help="Of the first replica; the next ones follow."
)
@click.option(
    "--config", "overrides", type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="YAML that completes every replica's configuration.",
)  # fmt: skip
@click.option("--name", help="The cluster's name, for links with other clusters.")
@click.option(
    "--runtime", type=click.Choice(["process", "docker"]), help="What members run in; default: as before, or process."
)
@click.option("--image", help="The image of containers; default: as before, or pando.")
def start(
    replicas: int,
    directory: Path,
    http_port: int,
    overrides: Path | None,
    name: str | None,
    runtime: str | None,
    image: str | None,
) -> None:
    """Start the replicas (r1, r2, …) and a ZooKeeper; return when all are ready.

    Members that run already are left alone. The processes go on when this command ends.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # an interrupted start cleans up
    chosen = _choose_image(directory, runtime, image)
    _print_table(_cluster(directory).start(replicas, http_port, _overrides(overrides), name, chosen))


@command.command("image")
@click.option("--tag", default="pando", show_default=True, help="The image's name.")
def image(tag: str) -> None:
    """Make the image of containers from this system: its Python and Java with what Pando needs of them."""
    from engine.cluster.container_image import make_image

    made = make_image(tag)
    click.echo(f"made {tag} ({made.bytes / 1e6:,.0f} MB, {made.id.removeprefix('sha256:')[:12]})")


@command.command("status")
@_directory
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def status(directory: Path, as_json: bool) -> None:
    """Show each member's process and ports."""
    statuses = _cluster(directory).status()
    if not as_json:
        _print_table(statuses)
        return
    replicas = [asdict(member) for member in statuses[:-1]]
    zookeeper = statuses[-1]
    told = ("pid", "port", "alive", "ready", *(["container"] if zookeeper.container else []))
    for replica in replicas:
        del replica["port"]
        if not replica["container"]:
            del replica["container"]
    click.echo(
        json.dumps(
            {
                "replicas": replicas,
                "zookeeper": {name: getattr(zookeeper, name) for name in told},
            },
            indent=2,
        )
    )


@command.command("kill")
@click.argument("name")
@_directory
def kill(name: str, directory: Path) -> None:
    """End the process of NAME (r1, …, zookeeper) at once, with SIGKILL."""
    pid = _cluster(directory).kill(name)
    click.echo(f"killed {name} (pid {pid})")


@command.command("restart")
@click.argument("name")
@_directory
@click.option("--wait/--no-wait", default=True, show_default=True, help="Return when it is ready.")
def restart(name: str, directory: Path, wait: bool) -> None:
    """Start NAME again with the same ports; end it first if it runs.

    Environment variables of this command pass on to it.
    """
    member = _cluster(directory).restart(name, wait=wait)
    click.echo(f"started {name} (pid {member.pid})")


@command.command("stop")
@_directory
def stop(directory: Path) -> None:
    """End every member, gracefully at first. Data stays in the directory."""
    _cluster(directory).stop()
    click.echo("stopped")


@command.command("link")
@click.argument("directories", nargs=-1, required=True, type=click.Path(file_okay=False, path_type=Path))
@click.option("--user", "-u", default="default", show_default=True, help="As whom the servers are told to reload.")
@click.option("--password", envvar="PANDO_PASSWORD", default="", help="Also from PANDO_PASSWORD.")
def link(directories: tuple[Path, ...], user: str, password: str) -> None:
    """Let the clusters of these DIRECTORIES replicate to each other.

    Each must have been started with --name. The configuration of every server gets the addresses of all other clusters
    (linked_clusters) with a user of theirs that may only read; running servers read it at once. Run it again after a
    cluster got more replicas.

    \b
    pando cluster start --name east --dir ./east
    pando cluster start --name west --dir ./west
    pando cluster link ./east ./west
    """
    from engine.cluster.linked_directories import ClientAccount, link_directories

    for cluster in link_directories(directories, ClientAccount(user, password)):
        later = cluster.servers - cluster.reloaded
        click.echo(
            f"{cluster.name} ({cluster.directory}) knows {', '.join(cluster.linked_to)}"
            f"{f'; {later} of its servers when they start' if later else ''}"
        )


def _cluster(directory: Path) -> Cluster:
    from engine.cluster.cluster import Cluster

    return Cluster(directory)


def _choose_image(directory: Path, runtime: str | None, image: str | None) -> str | None:
    """Returns the image to start containers of, "" for processes, ``None`` for what the cluster ran in before."""
    from engine.cluster.cluster_state import load_state
    from engine.cluster.container_plan import DEFAULT_IMAGE
    from engine.server.config import ConfigError

    if runtime == "process" and image:
        raise ConfigError("--image is of containers: --runtime docker")
    if runtime == "process":
        return ""
    state = load_state(directory.absolute())
    before = state.image if state else ""
    if runtime is None and not (before and image):
        if image:
            raise ConfigError("--image is of containers: --runtime docker")
        return None
    return image or before or DEFAULT_IMAGE


def _overrides(file: Path | None) -> dict[str, object] | None:
    if file is None:
        return None
    import yaml

    from engine.server.config import ConfigError

    try:
        values = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise ConfigError(f"Cannot read {file}: {' '.join(str(error).split())}") from None
    if not isinstance(values, dict):
        raise ConfigError(f"{file} must be a mapping of configuration keys to values")
    return values


def _print_table(statuses: list[MemberStatus]) -> None:
    columns = ("NAME", "PID", "WORKERS", "HTTP", "INTERSERVER", "STATE", "CONTAINER")
    rows = [columns if any(member.container for member in statuses) else columns[:-1]]
    for member in statuses:
        state = "ready" if member.ready else "starting" if member.alive else "down"
        interserver = str(member.interserver_port or "")
        workers = str(member.workers or "")
        cells = (member.name, str(member.pid or ""), workers, str(member.port), interserver, state)
        rows.append((*cells, member.container[:12]) if len(rows[0]) > len(cells) else cells)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
