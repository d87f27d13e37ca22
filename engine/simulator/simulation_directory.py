"""Where a simulation keeps the files of its servers, and what else a run needs to be quick."""

from __future__ import annotations

import gc
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_MEMORY = Path("/dev/shm")


@contextmanager
def simulation_directory() -> Iterator[Path]:
    """Gives an empty directory, in memory where the system has such a file system.

    A simulated disk decides what is durable, so nothing is gained by a real one. Garbage is collected at the end of the
    block: the objects of a run live about as long as it.
    """
    parent = _MEMORY if _MEMORY.is_dir() and "TMPDIR" not in os.environ else None
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        with tempfile.TemporaryDirectory(prefix="pando-simulate-", dir=parent) as directory:
            yield Path(directory)
    finally:
        if was_enabled:
            gc.enable()
        gc.collect(1)  # what came since: older objects are not of this run
