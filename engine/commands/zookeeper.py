"""``pando zookeeper``: runs a ZooKeeper server in the foreground."""

from __future__ import annotations

from pathlib import Path

import click

from engine.commands.stop_signals import StopSignals


@click.command("zookeeper")
@click.option("--dir", "directory", required=True, type=click.Path(path_type=Path), help="Data directory.")
@click.option("--port", default=2181, show_default=True, type=click.IntRange(1, 65535), help="Client port.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Where it listens: 0.0.0.0 is everywhere.")
def command(directory: Path, port: int, host: str) -> None:
    """Run a ZooKeeper until SIGTERM or SIGINT. Needs Java."""
    from coordination.keeper.embedded_zookeeper import EmbeddedZooKeeper
    from parts.common.errors import UnavailableError

    stop = StopSignals()
    zookeeper = EmbeddedZooKeeper(directory, port, host)
    zookeeper.start()
    try:
        click.echo(f"ready port={zookeeper.port} pid={zookeeper.pid} dir={directory}")
        while not stop.wait(0.5):
            if not zookeeper.pid:
                raise UnavailableError("NO_ZOOKEEPER", f"ZooKeeper ended by itself; its log is in {directory}")
    finally:
        zookeeper.stop()
