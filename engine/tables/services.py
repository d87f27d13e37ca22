"""What the engine lends to its tables."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from random import Random, SystemRandom

from engine.background import BackgroundPool
from engine.failpoints import failpoint


@dataclass
class RunningMerge:
    """A merge under way, for ``system.merges``."""

    database: str
    table: str
    result: str
    sources: tuple[str, ...]
    started: float
    total_rows: int
    progress: float = 0.0
    rows_written: int = 0


@dataclass
class TableServices:
    clock: Callable[[], float]
    housekeeping: BackgroundPool
    """For short steps: pulling, selecting, cleaning."""
    workers: BackgroundPool
    """For long steps: merging and fetching."""
    writers: ThreadPoolExecutor
    """Compresses and writes the blocks of INSERTs."""
    merges: list[RunningMerge] = field(default_factory=list)
    monotonic: Callable[[], float] = time.monotonic
    wait: Callable[[threading.Event, float], object] = threading.Event.wait
    """Every wait of a table goes through here, so that a simulator can let others work meanwhile."""
    wait_for: Callable[[threading.Condition, Callable[[], bool], float], bool] = threading.Condition.wait_for
    """Waits for the predicate at most so many seconds, and says whether it came true."""
    random: Random = field(default_factory=SystemRandom)
    """Names replicas, orders sources, spreads load in time."""
    failpoint: Callable[[str], None] = failpoint
    """Passed at each named place where a test may make the process die or fail."""
    queue_wait_seconds: float = 600.0
    """How long OPTIMIZE and TRUNCATE wait until a replica's queue is carried out."""
