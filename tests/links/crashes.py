"""Work on files that is broken off at its n-th operation, and what is on the disk then."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from engine.simulator.simulated_disk import SimulatedDisk, Tree, read_directory, record_syncs
from tests.failing_disk.disk import FailingDisk, Killed, failing


@dataclass
class Crash:
    """``operation`` is the one that did not happen any more; "" when the work ended before."""

    operation: str
    durable: Tree
    """After a power cut: what was fsynced."""
    present: Tree
    """After the end of the process alone."""

    def images(self) -> Iterator[tuple[str, Tree]]:
        """What may be on the disk: everything, only what was fsynced, or parts of what was not."""
        yield "killed", self.present
        yield "power cut", self.durable
        for name, tear in _TEARS.items():
            torn = _torn(self.durable, self.present, tear)
            if torn != self.durable:
                yield name, torn


def run_until(root: Path, number: int, work: Callable[[], None]) -> Crash:
    """Does the work, which ends before its operation of this number (from 1)."""
    with crashing(root, number) as (failing_disk, disk):
        with suppress(Killed):
            work()
        operation = failing_disk.done[number - 1] if len(failing_disk.done) >= number else ""
        return Crash(operation, disk.get_durable_tree(), read_directory(root))


@contextmanager
def crashing(root: Path, number: int) -> Iterator[tuple[FailingDisk, SimulatedDisk]]:
    truncate = os.ftruncate
    with failing(0, times=0, killed_at=number) as failing_disk:
        disk = SimulatedDisk(root, before_sync=lambda path: failing_disk("fsync", path))

        def truncated(descriptor: int, length: int) -> None:
            failing_disk("ftruncate", os.readlink(f"/proc/self/fd/{descriptor}"))
            truncate(descriptor, length)

        os.ftruncate = truncated  # type: ignore[assignment]
        try:
            with record_syncs({root: disk}):
                yield failing_disk, disk
        finally:
            os.ftruncate = truncate
            disk.close()


_TEARS: dict[str, Callable[[bytes], bytes]] = {
    "half written": lambda tail: tail[: len(tail) // 2],
    "size without bytes": lambda tail: bytes(len(tail)),
    "begun later": lambda tail: bytes(min(8, len(tail))) + tail[8:],
    "cut by a byte": lambda tail: tail[:-1],
}


def _torn(durable: Tree, present: Tree, tear: Callable[[bytes], bytes]) -> Tree:
    """Files that only grew have some of their new bytes."""
    found: Tree = {}
    for name, content in durable.items():
        now = present.get(name)
        if isinstance(content, bytes) and isinstance(now, bytes) and now.startswith(content):
            found[name] = content + tear(now[len(content) :])
        elif isinstance(content, bytes) or not isinstance(now, dict):
            found[name] = content
        else:
            found[name] = _torn(content, now, tear)
    return found
