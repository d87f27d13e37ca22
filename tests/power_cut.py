"""A power cut: what was not fsynced is gone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from engine.simulator.simulated_disk import Disk, recording, write_tree


@contextmanager
def power_cut(root: Path, target: Path) -> Iterator[Path]:
    """Records while the block runs; ``target`` is the disk's image when it has ended."""
    disk = Disk(root)
    try:
        with recording({root: disk}):
            yield target
        write_tree(target, disk.after_power_cut())
    finally:
        disk.close()
