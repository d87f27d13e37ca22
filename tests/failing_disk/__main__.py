"""``python -m tests.failing_disk [word …]``: statements that have the words, against every operation of the disk."""

from __future__ import annotations

import errno
import logging
import sys
import tempfile
from pathlib import Path

from tests.failing_disk.matrix import FAULTS, STATEMENTS, prepared, run_statement


def main(words: list[str]) -> int:
    logging.disable(logging.CRITICAL)
    chosen = [statement for statement in STATEMENTS if all(word in statement for word in words)]
    cases = differences = 0
    with tempfile.TemporaryDirectory(prefix="pando-failing-disk-") as name:
        prepared(Path(name) / "template")
        for statement in chosen:
            count = 0
            for times, error in FAULTS:
                for case in run_statement(Path(name) / "template", Path(name), statement, times, getattr(errno, error)):
                    count += 1
                    if case.problem:
                        differences += 1
                        print(f"{statement}: {error} x {times} at {case.number} ({case.operation}): {case.problem}")
            cases += count
            differences += not count  # the statement is refused without a touch of the disk: it says nothing
            print(f"{statement}: {count} cases", flush=True)
    print(f"{len(chosen)} statements x operations: {cases} cases, {differences} differences")
    return int(differences > 0 or not cases)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
