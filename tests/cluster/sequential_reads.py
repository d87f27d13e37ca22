"""``python -m tests.cluster.sequential_reads 10000``: is a row there that a quorum has just confirmed?

Three replicas. Each read follows at once on an ``INSERT`` with ``insert_quorum = 2`` that was acknowledged, and asks
another replica with ``select_sequential_consistency = 1``. It must show the row, or be refused (289) by a replica that
has not fetched it yet; after a moment that one must show it too.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from engine.cluster.cluster import ZOOKEEPER, Cluster
from engine.http_client.http_client import HttpClient
from parts.common.errors import PandoError

_NOT_IN_QUORUM = 289
_CATCH_UP_SECONDS = 30.0
_SEQUENTIAL = {"select_sequential_consistency": 1}


def read_after_inserts(clients: Sequence[HttpClient], table: str, reads: int, seed: int) -> Counter[str]:
    """Inserts and reads so many times in turn. The table has a column ``k`` and is empty. Returns counts of answers."""
    rng = random.Random(seed)
    counts: Counter[str] = Counter(reads=reads, shown=0, refused=0, stale=0)
    for k in range(reads):
        writer, reader = rng.sample(list(clients), 2)
        writer.execute(f"INSERT INTO {table} (k) SETTINGS insert_quorum = 2 VALUES ({k})")
        rows = _read(reader, table, k, counts)
        counts["shown" if rows == 1 else "stale"] += rows is not None
    return counts


def _read(client: HttpClient, table: str, k: int, counts: Counter[str]) -> int | None:
    """How many rows of this key there are; ``None`` when the first answer was 289, and a later one the row."""
    deadline = time.monotonic() + _CATCH_UP_SECONDS
    refusals = 0
    while True:
        try:
            rows = int(client.value(f"SELECT count() FROM {table} WHERE k = {k}", settings=_SEQUENTIAL))
        except PandoError as error:
            if error.code != _NOT_IN_QUORUM or time.monotonic() > deadline:
                raise
            counts["refused"] += refusals == 0
            refusals += 1
            continue
        if refusals and rows != 1:
            counts["stale"] += 1
        return None if refusals else rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("reads", type=int, nargs="?", default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pando-reads-") as directory:
        cluster = Cluster(Path(directory))
        try:
            started = cluster.start(3)
            clients = [HttpClient(port=s.port, timeout_seconds=60) for s in started if s.name != ZOOKEEPER]
            for client in clients:
                client.execute(
                    "CREATE TABLE t (k UInt64) ENGINE = ReplicatedMergeTree('/reads', '{replica}') ORDER BY k"
                )
            begun = time.monotonic()
            counts = read_after_inserts(clients, "t", options.reads, options.seed)
            seconds = time.monotonic() - begun
        finally:
            cluster.stop(grace_seconds=5)
    print(f"{', '.join(f'{count:,} {what}' for what, count in counts.items())} ({seconds:.0f} s)")
    return 1 if counts["stale"] else 0


if __name__ == "__main__":
    sys.exit(main())
