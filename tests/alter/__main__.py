"""The proofs of tables that change, as a whole.

``python -m tests.alter histories 0:5000``: many histories, here and in ClickHouse; ``--replicas``: on two replicas.
``python -m tests.alter faults``: every operation of replicas, hit at every request to ZooKeeper and every fsync.
"""

from __future__ import annotations

import argparse
import gc
import logging
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from engine.simulator.step_pool import Crash
from tests.alter.fault_matrix import OPERATIONS, matrix
from tests.alter.following import Follower, following
from tests.alter.replicas import following_replicas


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.alter", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    histories = commands.add_parser("histories")
    histories.add_argument("seeds", help="first:end")
    histories.add_argument("--steps", type=int, default=20)
    histories.add_argument("--replicas", action="store_true", help="two replicas of each table")
    faults = commands.add_parser("faults")
    faults.add_argument("operations", nargs="*", help=", ".join(OPERATIONS))
    faults.add_argument("--distinct", action="store_true", help="of equal requests the first and the last")
    faults.add_argument("--share", default="0/1", help="i/n: every n-th case, from the i-th on")
    arguments = parser.parse_args()
    logging.disable()
    if arguments.command == "faults":
        first, step = map(int, arguments.share.split("/"))
        return run_faults(arguments.operations or list(OPERATIONS), arguments.distinct, slice(first, None, step))
    follow = following_replicas if arguments.replicas else following
    return run_histories(range(*map(int, arguments.seeds.split(":"))), arguments.steps, follow)


def run_histories(seeds: range, steps: int, follow: Callable[[Path], AbstractContextManager[Follower]]) -> int:
    failed: list[int] = []
    gc.freeze()
    gc.set_threshold(100_000, 50, 50)
    began = time.monotonic(), time.process_time()
    with tempfile.TemporaryDirectory() as directory, follow(Path(directory)) as follower:
        for seed in seeds:
            try:
                difference = follower.follow(seed, steps)
            except Exception as error:
                difference = f"seed {seed}: {error}"
            if difference:
                failed.append(seed)
                print(difference, flush=True)
            if seed % 100 == 99:
                print(f"-- up to seed {seed}: {len(failed)} differ, {time.monotonic() - began[0]:.0f} s", flush=True)
    for words, count in sorted(follower.done.items()):
        print(f"{count:8} {words}")
    wall, cpu = time.monotonic() - began[0], time.process_time() - began[1]
    print(
        f"{len(seeds)} histories of {steps} steps, seeds {seeds.start}:{seeds.stop}, {len(failed)} differ {failed}; "
        f"{wall:.0f} s, {cpu:.0f} s of processors"
    )
    return bool(failed)


def run_faults(operations: Sequence[str], distinct: bool, share: slice) -> int:
    total = failures = 0
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as directory, matrix(Path(directory)) as cases:
        for name in operations:
            chosen = list(cases.cases(name, distinct=distinct))[share]
            failed = 0
            for case in chosen:
                try:
                    cases.check(case)
                except (Exception, Crash) as error:
                    failed += 1
                    print(f"FAILED {case}: {error!r}", flush=True)
            print(f"{name}: {len(chosen)} cases, {failed} failures, {time.monotonic() - began:.0f} s", flush=True)
            total, failures = total + len(chosen), failures + failed
    print(f"{total} cases of {len(operations)} operations, {failures} failures, {time.monotonic() - began:.0f} s")
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
