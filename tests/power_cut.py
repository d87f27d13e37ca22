"""A power cut: what was not fsynced is gone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from engine.simulator.simulated_disk import SimulatedDisk, record_syncs, write_directory


@contextmanager
def power_cut(root: Path, target: Path) -> Iterator[Path]:
    """Records while the block runs; ``target`` is the disk's image when it has ended."""
    disk = SimulatedDisk(root)
    try:
        with record_syncs({root: disk}):
            yield target
        write_directory(target, disk.get_durable_tree())
    finally:
        disk.close()
