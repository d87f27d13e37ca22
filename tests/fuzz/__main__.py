"""``python -m tests.fuzz KIND COUNT SEED``: prints what it finds, and the share
of the cases that had nothing to compare; ends with 1 when it found something."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter

from tests.fuzz import KINDS
from tests.fuzz.runner import findings

_AT_ONCE = 5_000
"""Cases between two lines that say how far it is; the next ones have a new process."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=(*KINDS, "all"))
    parser.add_argument("count", type=int)
    parser.add_argument("seed", type=int, nargs="?", default=0)
    options = parser.parse_args()
    found = 0
    for kind in KINDS if options.kind == "all" else (options.kind,):
        started = time.monotonic()
        outcomes: Counter[str] = Counter()
        end = options.seed + options.count
        for seed in range(options.seed, end, _AT_ONCE):
            for finding in findings(kind, seed, min(_AT_ONCE, end - seed), outcomes):
                found += 1
                print(f"{kind}: {finding}\n".encode(errors="backslashreplace").decode(), flush=True)
            done = min(seed + _AT_ONCE, end) - options.seed
            seconds = time.monotonic() - started
            print(f"{kind}: {done} cases from seed {options.seed} in {seconds:.0f} s, {found} findings", flush=True)
        shares = (f"{count / outcomes.total():.1%} {outcome}" for outcome, count in outcomes.most_common())
        print(f"{kind}: {', '.join(shares)}", flush=True)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
