"""Run a real ZooKeeper beside the server, from the jars inside the pyspark wheel.

:class:`EmbeddedZooKeeper` is a child process that ends with its owner (``start``/``stop`` or ``with``).
:func:`server_command` gives the command for a ZooKeeper that outlives its starter (``start_detached`` runs it so). Data
and log lie in ``directory``: ``zoo.cfg``, ``data/``, ``zookeeper.log``, ``zookeeper.pid``.

Every transaction is synced to disk before it is acknowledged (ZooKeeper's ``forceSync`` stays on).
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from parts.common.errors import UnavailableError, UserError

_MAIN = "org.apache.zookeeper.server.ZooKeeperServerMain"
_HOST = "127.0.0.1"


def find_java() -> str:
    """Returns the ``java`` of JAVA_HOME, or the first on PATH.

    Raises ``UnavailableError`` if there is none.
    """
    home = os.environ.get("JAVA_HOME")
    if home:
        java = Path(home) / "bin" / "java"
        if java.is_file():
            return str(java)
        raise UnavailableError("CANNOT_OPEN_FILE", f"JAVA_HOME is {home}, but there is no {java}; correct or unset it")
    found = shutil.which("java")
    if found is None:
        raise UnavailableError(
            "CANNOT_OPEN_FILE", "The embedded ZooKeeper needs Java 17: no `java` on PATH and JAVA_HOME is not set"
        )
    return found


def find_jars() -> Path:
    """Returns the directory of ZooKeeper's jars.

    pyspark is located, not imported: importing it takes a second.
    """
    spec = importlib.util.find_spec("pyspark")
    for location in (spec.submodule_search_locations if spec else None) or ():
        jars = Path(location) / "jars"
        if any(jars.glob("zookeeper-[0-9]*.jar")):
            return jars
    raise UnavailableError(
        "CANNOT_OPEN_FILE", "The embedded ZooKeeper needs the `pyspark` package, which holds its jars"
    )


def write_config(directory: Path, port: int, *, tick_time_ms: int = 500, host: str = _HOST) -> Path:
    """Writes ``zoo.cfg`` and the logging configuration; returns the path of ``zoo.cfg``.

    Sessions may last from 2 to 240 ticks, so that tests can have short ones and servers the usual 30 s.
    """
    data = directory / "data"
    data.mkdir(parents=True, exist_ok=True)
    config = directory / "zoo.cfg"
    lines = [
        f"dataDir={data}",
        f"clientPort={port}",
        f"clientPortAddress={host}",
        f"tickTime={tick_time_ms}",
        f"minSessionTimeout={2 * tick_time_ms}",
        f"maxSessionTimeout={240 * tick_time_ms}",
        "maxClientCnxns=0",
        "admin.enableServer=false",
        "4lw.commands.whitelist=ruok,srvr,mntr",
        "snapCount=100000",
        "autopurge.snapRetainCount=3",
        "autopurge.purgeInterval=1",
    ]
    config.write_text("\n".join(lines) + "\n")
    (directory / "log4j2.properties").write_text(
        "status = error\n"
        "appender.console.type = Console\n"
        "appender.console.name = console\n"
        "appender.console.layout.type = PatternLayout\n"
        "appender.console.layout.pattern = %d{ISO8601} %p %c{1}: %m%n\n"
        "rootLogger.level = warn\n"
        "rootLogger.appenderRef.console.ref = console\n"
    )
    return config


def server_command(directory: Path | str, port: int, host: str = _HOST) -> list[str]:
    """Writes the configuration into ``directory`` and returns the command that serves it on ``port``."""
    base = Path(directory).absolute()
    config = write_config(base, port, host=host)
    return [
        find_java(),
        "-Xms64m",
        "-Xmx256m",
        "-XX:+UseSerialGC",
        f"-Dlog4j2.configurationFile={base / 'log4j2.properties'}",
        "-Dzookeeper.jmx.log4j.disable=true",
        "-Dzookeeper.admin.enableServer=false",
        "-cp",
        f"{find_jars()}{os.sep}*",
        _MAIN,
        str(config),
    ]


def send_four_letter_word(port: int, word: str, *, host: str = _HOST, timeout_seconds: float = 2.0) -> str | None:
    """Returns ZooKeeper's answer to ``ruok``, ``srvr`` or ``mntr``, or ``None`` if nothing answers."""
    try:
        with socket.create_connection((host, port), timeout=timeout_seconds) as connection:
            connection.settimeout(timeout_seconds)
            connection.sendall(word.encode())
            answer = b""
            while chunk := connection.recv(65536):
                answer += chunk
            return answer.decode(errors="replace")
    except OSError:
        return None


def is_serving(port: int, *, host: str = _HOST) -> bool:
    """Returns whether ZooKeeper serves sessions.

    ``ruok`` is answered before sessions are served; ``srvr`` names the mode only when they are.
    """
    return send_four_letter_word(port, "ruok", host=host) == "imok" and "Mode:" in (
        send_four_letter_word(port, "srvr", host=host) or ""
    )


def find_free_port() -> int:
    """Returns a port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind((_HOST, 0))
        return int(probe.getsockname()[1])


def _require_free(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((_HOST, port))
        except OSError as error:
            raise UserError("BAD_ARGUMENTS", f"Port {port} for ZooKeeper is in use: {error.strerror}") from error


def start_detached(directory: Path | str, port: int) -> int:
    """Starts a ZooKeeper that outlives this process and returns its pid.

    Does not wait for it (see ``wait_until_serving``).
    """
    return _spawn(Path(directory).absolute(), port, detached=True).pid


def _spawn(directory: Path, port: int, *, detached: bool, host: str = _HOST) -> subprocess.Popen[bytes]:
    _require_free(port)
    command = server_command(directory, port, host)
    with (directory / "zookeeper.log").open("ab") as log:
        process = subprocess.Popen(
            command,
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=detached,
        )
    (directory / "zookeeper.pid").write_text(f"{process.pid}\n")
    return process


def wait_until_serving(
    port: int, directory: Path | str, *, timeout_seconds: float = 60.0, is_alive: Callable[[], bool] | None = None
) -> None:
    """Waits until ZooKeeper answers on ``port``. Raises ``UnavailableError`` NO_ZOOKEEPER if it does not.

    ``is_alive`` tells whether the process still runs, so that an early death is noticed.
    """
    deadline = time.monotonic() + timeout_seconds
    while not is_serving(port):
        if is_alive is not None and not is_alive():
            raise UnavailableError("NO_ZOOKEEPER", f"ZooKeeper ended at its start: {_last_line(Path(directory))}")
        if time.monotonic() > deadline:
            raise UnavailableError("NO_ZOOKEEPER", f"ZooKeeper did not answer on port {port} in {timeout_seconds:g} s")
        time.sleep(0.05)


def _last_line(directory: Path) -> str:
    log = directory / "zookeeper.log"
    lines = log.read_text(errors="replace").strip().splitlines() if log.exists() else []
    return lines[-1] if lines else f"see {log}"


class EmbeddedZooKeeper:
    """A ZooKeeper that is a child of this process. Port 0 takes any free port.

    ``host`` is where it listens. It must answer at 127.0.0.1 too.
    """

    def __init__(self, directory: Path | str, port: int = 0, host: str = _HOST) -> None:
        self.directory = Path(directory).absolute()
        self.port = port
        self._listen_host = host
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The process id; 0 when it does not run."""
        return self._process.pid if self._process is not None and self._process.poll() is None else 0

    @property
    def hosts(self) -> str:
        return f"{_HOST}:{self.port}"

    def start(self, timeout_seconds: float = 60.0) -> EmbeddedZooKeeper:
        """Starts ZooKeeper and waits until it serves. Data of an earlier run in ``directory`` is kept."""
        if self.pid:
            return self
        self.directory.mkdir(parents=True, exist_ok=True)
        if not self.port:
            self.port = find_free_port()
        self._process = _spawn(self.directory, self.port, detached=False, host=self._listen_host)
        process = self._process
        try:
            wait_until_serving(
                self.port, self.directory, timeout_seconds=timeout_seconds, is_alive=lambda: process.poll() is None
            )
        except BaseException:
            self.kill()
            raise
        return self

    def stop(self, timeout_seconds: float = 10.0) -> None:
        """Ends the process, by SIGKILL if it does not end in time. Every acknowledged write is on disk."""
        if self._process is None:
            return
        if self._process.poll() is None:
            self._process.terminate()
        try:
            self._process.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(timeout_seconds)
        self._process = None

    def kill(self) -> None:
        """Ends the process by SIGKILL."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(10)
            self._process = None

    def pause(self) -> None:
        """Suspends the process: connections stay open, nothing answers."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Continues a suspended process."""
        os.kill(self.pid, signal.SIGCONT)

    def __enter__(self) -> EmbeddedZooKeeper:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
