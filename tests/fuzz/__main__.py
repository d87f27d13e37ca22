"""``python -m tests.fuzz KIND COUNT SEED``: prints what it finds and ends with 1 when it found something."""

from __future__ import annotations

import argparse
import sys

from tests.fuzz import KINDS
from tests.fuzz.runner import findings


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=(*KINDS, "all"))
    parser.add_argument("count", type=int)
    parser.add_argument("seed", type=int, nargs="?", default=0)
    options = parser.parse_args()
    found = 0
    for kind in KINDS if options.kind == "all" else (options.kind,):
        for finding in findings(kind, options.seed, options.count):
            found += 1
            print(f"{kind}: {finding}\n", flush=True)
        print(f"{kind}: {options.count} cases from seed {options.seed}, {found} findings so far", flush=True)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
