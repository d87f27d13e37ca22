"""Processes identified by pid and start time, so that a reused pid is never signalled.

Source of the start time: field 22 of ``/proc/<pid>/stat`` (proc(5)); ``ps -o lstart`` where there is no /proc.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

_POLL_SECONDS = 0.02


class Running(Protocol):
    """A process or a container, in which a member runs."""

    @property
    def pid(self) -> int:
        """The pid; 0 when there is none."""

    def is_alive(self) -> bool:
        """Returns whether it runs."""

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal, unless it has ended."""

    def wait_end(self, timeout_seconds: float) -> bool:
        """Waits for the end; returns whether it came in time."""

    def count_processes(self, name: str) -> int:
        """Returns how many of its processes have names that begin with ``name``."""


@dataclass(frozen=True)
class ProcessId:
    """A process: its pid and start time."""

    pid: int
    start: str

    def is_alive(self) -> bool:
        """Returns whether the process runs; one without a start time had ended before it was identified."""
        return self.pid > 0 and self.start != "" and get_start_time(self.pid) == self.start

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal, unless the process has ended."""
        if self.is_alive():
            try:
                os.kill(self.pid, number)
            except ProcessLookupError:
                return

    def wait_end(self, timeout_seconds: float) -> bool:
        """Waits for the end; returns whether it came in time."""
        return wait_until(lambda: not self.is_alive(), timeout_seconds)

    def count_processes(self, name: str) -> int:
        """Returns how many processes of its tree have names that begin with ``name``."""
        return len(list_descendants(self.pid, name))


NO_PROCESS = ProcessId(0, "")


def get_start_time(pid: int) -> str:
    """Returns the start time of a process; ``""`` if it does not run (zombies do not)."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return _get_start_time_from_ps(pid) if not Path("/proc/self").exists() else ""
    fields = text.rpartition(")")[2].split()
    is_over = fields[0] in ("Z", "X") and not _has_other_threads(pid)
    return "" if is_over else fields[19]


def _has_other_threads(pid: int) -> bool:
    """Returns whether other threads run, which may hold sockets after the first one has ended."""
    try:
        return len(os.listdir(f"/proc/{pid}/task")) > 1
    except OSError:
        return False


def _get_start_time_from_ps(pid: int) -> str:
    answer = subprocess.run(["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
    state, _, start = answer.stdout.strip().partition(" ")
    return "" if state.startswith("Z") else start.strip()


def get_command_line(pid: int) -> str:
    """Returns the command line of a process; ``""`` if it does not run."""
    answer = subprocess.run(["ps", "-o", "args=", "-ww", "-p", str(pid)], capture_output=True, text=True, check=False)
    return answer.stdout.strip()


def identify_process(pid: int) -> ProcessId:
    """Returns the running process with this pid."""
    return ProcessId(pid, get_start_time(pid))


def spawn_detached(command: Sequence[str], directory: Path, output: Path, environment: dict[str, str]) -> ProcessId:
    """Starts a process in its own session; its output goes to a file."""
    with open(output, "ab") as stream:
        process = subprocess.Popen(
            command,
            cwd=directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    process.returncode = 0  # it outlives this process; keeps Popen from warning about that
    return identify_process(process.pid)


def wait_until(condition: Callable[[], bool], timeout_seconds: float, poll_seconds: float = _POLL_SECONDS) -> bool:
    """Polls until the condition holds; returns whether it did in time."""
    deadline = time.monotonic() + timeout_seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(poll_seconds)
    return True


def end_processes(processes: Sequence[Running], grace_seconds: float) -> None:
    """Sends SIGTERM to all, then SIGKILL to those that still run."""
    for process in processes:
        process.signal(signal.SIGTERM)
    wait_until(lambda: not any(process.is_alive() for process in processes), grace_seconds)
    for process in processes:
        process.signal(signal.SIGKILL)
        process.wait_end(10)


def read_log_tail(file: Path, lines: int = 15) -> str:
    """Returns the last lines of a log."""
    try:
        with open(file, "rb") as stream:
            stream.seek(max(0, file.stat().st_size - 64_000))
            text = stream.read().decode(errors="replace")
    except OSError:
        return ""
    return "\n".join(text.splitlines()[-lines:])


def list_process_tree(root: int) -> dict[int, str]:
    """Returns a process and its descendants: names, as ``ps -o comm`` shows them, by pid."""
    parents: dict[int, int] = {}
    names: dict[int, str] = {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # ended meanwhile
            head, _, rest = file.read_text().rpartition(") ")
            pid = int(file.parent.name)
            parents[pid], names[pid] = int(rest.split()[1]), head.partition("(")[2]
    found = {root}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return {pid: names.get(pid, "") for pid in sorted(found)}


def list_descendants(root: int, name: str) -> list[int]:
    """Returns the pids of a process's tree whose names begin with ``name``."""
    return [pid for pid, own in list_process_tree(root).items() if own.startswith(name)]
