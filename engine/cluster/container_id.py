"""Containers identified by the id that the engine gave them, with the methods of a process.

The SDK of Docker is imported only where a container is looked at: servers and clusters of processes do without it.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from engine.cluster.os_processes import wait_until
from engine.server.config import ConfigError

if TYPE_CHECKING:
    from docker import DockerClient

_ANSWER_SECONDS = 60
_START_ADVICE = "start it (`systemctl start docker`, or `dockerd` as root), or set DOCKER_HOST"


@cache
def connect_engine() -> DockerClient:
    """Returns a client of the engine that DOCKER_HOST names. Raises :class:`ConfigError`."""
    try:
        import docker
    except ImportError:
        raise ConfigError("Containers need the Python package docker: pip install 'pando[containers]'") from None
    with translated_errors("reach the container engine"):
        return docker.from_env(timeout=_ANSWER_SECONDS)


@contextmanager
def translated_errors(what: str) -> Iterator[None]:
    """Turns what the SDK raises into a :class:`ConfigError` of one line."""
    from docker.errors import APIError, DockerException
    from requests.exceptions import RequestException

    try:
        yield
    except APIError as error:
        raise ConfigError(f"Cannot {what}: {_explain(error)}") from None
    except (DockerException, RequestException) as error:
        reason = " ".join(str(error).split())[:300]
        raise ConfigError(f"Cannot {what}: no container engine answers ({reason}); {_START_ADVICE}") from None


def _explain(error: Any) -> str:
    return " ".join(str(error.explanation or error).split())[:500]


@dataclass(frozen=True)
class ContainerId:
    """A container of a member, which may have ended or been removed."""

    container: str
    """The engine's id, 64 hexadecimal digits."""

    @property
    def pid(self) -> int:
        """The pid of its first process, as the engine's machine counts; 0 when it does not run."""
        return int(self._inspect().get("State", {}).get("Pid", 0))

    def is_alive(self) -> bool:
        """Returns whether it runs."""
        return bool(self._inspect().get("State", {}).get("Running", False))

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal to its first process, unless it has ended."""
        from docker.errors import APIError

        if self.is_alive():
            with translated_errors(f"send {number.name} to a container"):
                try:
                    connect_engine().api.kill(self.container, int(number))
                except APIError:
                    if self.is_alive():
                        raise

    def wait_end(self, timeout_seconds: float) -> bool:
        """Waits for the end; returns whether it came in time."""
        return wait_until(lambda: not self.is_alive(), timeout_seconds)

    def count_processes(self, name: str) -> int:
        """Returns how many of its processes have names that begin with ``name``."""
        from docker.errors import APIError

        with translated_errors("list the processes of a container"):
            try:
                rows = connect_engine().api.top(self.container, "-eo pid,comm")["Processes"]
            except APIError:  # it has just ended
                return 0
        return sum(str(row[1]).startswith(name) for row in rows)

    def read_output(self, lines: int) -> str:
        """Returns the last lines that it wrote; "" after it was removed."""
        from docker.errors import NotFound

        with translated_errors("read the output of a container"):
            try:
                return str(connect_engine().api.logs(self.container, tail=lines).decode(errors="replace"))
            except NotFound:
                return ""

    def _inspect(self) -> dict[str, Any]:
        from docker.errors import NotFound

        engine = connect_engine()
        with translated_errors("look at a container"):
            try:
                return dict(engine.api.inspect_container(self.container))
            except NotFound:
                return {}
