"""``make bench``: every comparison, a table on the terminal, and ``benchmarks/out/latest.json``."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from benchmarks import embedded, replicated
from benchmarks.measure import Figure, report

OUT = Path(__file__).parent / "out" / "latest.json"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="TPC-H scale of lineitem (1: six million rows)")
    parser.add_argument("--only", choices=("embedded", "replicated"), help="one half of the comparisons")
    options = parser.parse_args()
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="pando-bench-") as name:
        directory = Path(name)
        if options.only != "replicated":
            for figure in embedded.compare(directory / "embedded", options.scale):
                print(f"{figure.name}: {figure.ratio:.2f}", file=sys.stderr)
                figures.append(figure)
        if options.only != "embedded":
            for figure in replicated.compare(directory / "replicated"):
                print(f"{figure.name}: {figure.ratio:.2f}", file=sys.stderr)
                figures.append(figure)
    report(figures, OUT)
    return 0


if __name__ == "__main__":
    sys.exit(main())
