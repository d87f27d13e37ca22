"""Processes known by pid and start time, so that a pid the system has given to somebody else is never signalled.

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

_POLL_SECONDS = 0.02


@dataclass(frozen=True)
class ProcessId:
    pid: int
    start: str

    def is_alive(self) -> bool:
        """A process that was gone before it was looked at has no start time, and never lived."""
        return self.pid > 0 and self.start != "" and get_start_time(self.pid) == self.start

    def signal(self, number: signal.Signals) -> None:
        """A process that is gone is fine."""
        if self.is_alive():
            try:
                os.kill(self.pid, number)
            except ProcessLookupError:
                return

    def wait_end(self, timeout_seconds: float) -> bool:
        return wait_until(lambda: not self.is_alive(), timeout_seconds)


NO_PROCESS = ProcessId(0, "")


def get_start_time(pid: int) -> str:
    """``""`` for a process that does not run (a zombie does not)."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return _start_time_by_ps(pid) if not Path("/proc/self").exists() else ""
    fields = text.rpartition(")")[2].split()
    is_over = fields[0] in ("Z", "X") and not _has_other_threads(pid)
    return "" if is_over else fields[19]


def _has_other_threads(pid: int) -> bool:
    """The first thread of a process may have ended (as in a zombie) while others still hold its sockets."""
    try:
        return len(os.listdir(f"/proc/{pid}/task")) > 1
    except OSError:
        return False


def _start_time_by_ps(pid: int) -> str:
    answer = subprocess.run(["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
    state, _, start = answer.stdout.strip().partition(" ")
    return "" if state.startswith("Z") else start.strip()


def get_command_line(pid: int) -> str:
    """The command line of a process; ``""`` when there is none."""
    answer = subprocess.run(["ps", "-o", "args=", "-ww", "-p", str(pid)], capture_output=True, text=True, check=False)
    return answer.stdout.strip()


def identify_process(pid: int) -> ProcessId:
    return ProcessId(pid, get_start_time(pid))


def spawn_detached(command: Sequence[str], directory: Path, output: Path, environment: dict[str, str]) -> ProcessId:
    """Starts a process in a session of its own; its output goes to a file."""
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
    process.returncode = 0  # it outlives us: nobody waits for it, and Popen must not warn of that
    return identify_process(process.pid)


def wait_until(condition: Callable[[], bool], timeout_seconds: float, poll_seconds: float = _POLL_SECONDS) -> bool:
    deadline = time.monotonic() + timeout_seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(poll_seconds)
    return True


def end_processes(processes: Sequence[ProcessId], grace_seconds: float) -> None:
    """SIGTERM to all, then SIGKILL to those that stay."""
    for process in processes:
        process.signal(signal.SIGTERM)
    wait_until(lambda: not any(process.is_alive() for process in processes), grace_seconds)
    for process in processes:
        process.signal(signal.SIGKILL)
        process.wait_end(10)


def read_log_tail(file: Path, lines: int = 15) -> str:
    """The last lines of a log."""
    try:
        with open(file, "rb") as stream:
            stream.seek(max(0, file.stat().st_size - 64_000))
            text = stream.read().decode(errors="replace")
    except OSError:
        return ""
    return "\n".join(text.splitlines()[-lines:])


def list_process_tree(root: int) -> dict[int, str]:
    """A process and all that stem from it, with their names as ``ps -o comm`` shows them."""
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
    """The processes that stem from ``root`` and whose names begin so."""
    return [pid for pid, own in list_process_tree(root).items() if own.startswith(name)]
