"""``pando server``: runs one server, from its configuration to its graceful stop.

Start: listen first (so that a port in use is found before anything else happens), then the fork server of the workers,
the embedded ZooKeeper if configured, the engine, and HTTP. One line ``ready`` on standard output tells that queries are
accepted. SIGTERM and SIGINT stop it in the opposite order; a second signal ends it at once.
"""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from engine.commands.process_startup import block_pandas_import, pause_garbage_collection, start_engine
from engine.commands.stop_signals import StopSignals

if TYPE_CHECKING:
    from engine.engine import Engine
    from engine.server.config import Config

_EXPORTS_SECONDS = 3600.0
_WAKE_SECONDS = 0.25
"""polars installs a SIGINT handler that restarts system calls, so an endless wait would never see the signal."""


@click.command("server")
@click.option("--config", "-C", "file", required=True, type=click.Path(path_type=Path), help="YAML configuration.")
def command(file: Path) -> None:
    """Run one server with the configuration FILE until SIGTERM or SIGINT."""
    from engine.server.config import Config, ConfigError
    from engine.server.logging_setup import configure_logging

    block_pandas_import()
    config = Config.load(file)
    try:
        configure_logging(config.logger)
    except OSError as error:
        raise ConfigError(
            f"Cannot write the log {config.logger.log}: {error.strerror} (logger.log in {file})"
        ) from None
    run_server(config)


def run_server(config: Config) -> None:
    """Serves until a signal arrives. Raises ``PandoError`` when it cannot start."""
    import logging

    from parts.common.process_memory import freeze_heap

    logger = logging.getLogger("engine.server")
    stop = StopSignals(is_second_final=True)
    with ExitStack() as running:
        try:
            http = _start(config, running)
        except BaseException as error:
            logger.error("cannot start: %s", error)
            raise
        freeze_heap()
        logger.info("ready: http_port %s, pid %s", http, os.getpid())
        click.echo(f"ready http_port={http} pid={os.getpid()} path={config.path}")
        sys.stdout.flush()
        while not stop.wait(_WAKE_SECONDS):
            pass
        logger.info("stopping")
    logger.info("stopped")
    logging.shutdown()
    sys.stdout.flush()
    # Everything has been stopped. The interpreter would only free its heap, object by object.
    os._exit(0)


def _start(config: Config, running: ExitStack) -> int:
    """Starts all that a server runs and pushes each stop on ``running``. Returns the HTTP port."""
    if config.worker_count:
        return _start_with_workers(config, running)
    with pause_garbage_collection():
        from engine.front.http.http_server import HttpServer

    http = HttpServer(config) if config.http_port is not None else None
    if http is not None:
        running.callback(http.stop)
    if http is not None:
        config = config.model_copy(update={"http_port": http.port})
    config = _start_zookeeper(config, running)
    with pause_garbage_collection():
        from engine.engine import Engine

    engine = Engine(config)
    _start_engine(engine, running)
    if http is None:
        return 0
    # Stops run in reverse order: HTTP first, so that running queries still have their engine.
    running.callback(http.stop)
    http.start(engine)
    return http.port


def _start_with_workers(config: Config, running: ExitStack) -> int:
    with pause_garbage_collection():  # over before the fork, after which workers would go on without it
        from engine.engine import Engine
        from engine.front.http.http_server import bind_socket
        from engine.workers.replica_process import ReplicaProcess

    listening = bind_socket(config.listen_host, config.http_port or 0, "http_port")
    running.callback(listening.close)
    port: int = listening.getsockname()[1]
    config = config.model_copy(update={"http_port": port})
    replica = ReplicaProcess(config, listening)  # forks, so nothing may have started a thread before
    config = _start_zookeeper(config, running)
    replica.start(running, _start_engine, Engine(config))
    return port


def _start_engine(engine: Engine, running: ExitStack) -> None:
    """Starts the engine, and the task that deletes abandoned exports."""
    from engine.scan.parquet_export import remove_abandoned_exports
    from engine.server.background_pool import BackgroundTask

    def remove() -> float:
        list(remove_abandoned_exports(engine.config.user_files, engine.services.clock()))
        return _EXPORTS_SECONDS

    start_engine(engine, running, in_background=True)
    engine.services.housekeeping.add(BackgroundTask("remove abandoned exports", remove))


def _start_zookeeper(config: Config, running: ExitStack) -> Config:
    """Starts the embedded ZooKeeper, if configured. Returns the configuration that points to it."""
    embedded = config.embedded_zookeeper
    if embedded is None:
        return config
    from coordination.keeper.embedded_zookeeper import EmbeddedZooKeeper
    from engine.server.zookeeper_config import ZooKeeperConfig, ZooKeeperNode

    directory = (embedded.dir or config.path / "zookeeper").absolute()
    _end_leftover_zookeeper(directory)
    zookeeper = EmbeddedZooKeeper(directory, embedded.port)
    running.callback(zookeeper.stop)
    zookeeper.start()
    if config.zookeeper is not None:
        return config
    node = ZooKeeperNode(host="127.0.0.1", port=zookeeper.port)
    return config.model_copy(update={"zookeeper": ZooKeeperConfig(nodes=[node])})


def _end_leftover_zookeeper(directory: Path) -> None:
    """Ends the ZooKeeper of a killed server, which still holds the port and the data."""
    from engine.cluster.os_processes import end_processes, get_command_line, identify_process

    try:
        pid = int((directory / "zookeeper.pid").read_text())
    except (OSError, ValueError):
        return
    if str(directory / "zoo.cfg") in get_command_line(pid):
        end_processes([identify_process(pid)], grace_seconds=10)
