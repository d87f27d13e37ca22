"""What disks do to a replica, as a whole.

``python -m tests.recovery disk``: each file operation of each statement fails.
``python -m tests.recovery damage 0:500``: random damages of a replica's directory, running and stopped.
"""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from engine.simulator.step_pool import Crash
from tests.alter.fault_matrix import matrix
from tests.recovery.disk_matrix import DISK_OPERATIONS
from tests.recovery.random_damage import DAMAGES_A_HISTORY, damaged_replicas


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.recovery", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    disk = commands.add_parser("disk")
    disk.add_argument("operations", nargs="*", help=", ".join(DISK_OPERATIONS))
    disk.add_argument("--share", default="0/1", help="i/n: every n-th case, from the i-th on")
    damage = commands.add_parser("damage")
    damage.add_argument("seeds", help="first:end")
    arguments = parser.parse_args()
    logging.disable()
    if arguments.command == "damage":
        return run_damages(range(*map(int, arguments.seeds.split(":"))))
    first, step = map(int, arguments.share.split("/"))
    return run_disk(arguments.operations or list(DISK_OPERATIONS), slice(first, None, step))


def run_disk(operations: Sequence[str], share: slice) -> int:
    total = failures = 0
    began = time.process_time()
    with tempfile.TemporaryDirectory() as directory, matrix(Path(directory), DISK_OPERATIONS) as cases:
        for name in operations:
            chosen = list(cases.disk_cases(name))[share]
            failed = 0
            for case in chosen:
                try:
                    cases.check_disk(case)
                except (Exception, Crash) as error:
                    failed += 1
                    print(f"FAILED {case}: {error!r}", flush=True)
            print(f"{name}: {len(chosen)} cases, {failed} failures", flush=True)
            total, failures = total + len(chosen), failures + failed
    seconds = time.process_time() - began
    print(f"{total} cases of {len(operations)} operations, {failures} failures, {seconds:.0f} s of processors")
    return bool(failures)


def run_damages(seeds: range) -> int:
    failures = done = 0
    counts: Counter[str] = Counter()
    began = time.process_time()
    for first in range(seeds.start, seeds.stop, DAMAGES_A_HISTORY):
        with tempfile.TemporaryDirectory() as directory, damaged_replicas(Path(directory), first) as replicas:
            for seed in range(first, min(first + DAMAGES_A_HISTORY, seeds.stop)):
                done += 1
                try:
                    replicas.damage(seed)
                except (Exception, Crash) as error:
                    failures += 1
                    print(f"FAILED damage {seed}: {error!r}", flush=True)
                    break
            counts += replicas.counts
    for words, count in sorted(counts.items()):
        print(f"{count:8} {words}")
    print(f"{done} damages, {failures} failures, {time.process_time() - began:.0f} s of processors")
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
