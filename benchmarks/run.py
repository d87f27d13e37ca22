"""``make bench``: every comparison, a table on the terminal, and ``benchmarks/out/latest.json``."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from benchmarks import bigtable, embedded, http_load, links, replicated, spark, switching
from benchmarks.measure import Figure, report

OUT = Path(__file__).parent / "out" / "latest.json"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="TPC-H scale of lineitem (1: six million rows)")
    parser.add_argument("--rows", type=int, default=bigtable.ROWS, help="of the big table")
    parser.add_argument(
        "--only",
        choices=("embedded", "bigtable", "replicated", "http", "spark", "links", "switching"),
        help="one of the comparisons",
    )
    options = parser.parse_args()
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="pando-bench-") as name:
        directory = Path(name)
        parts = {
            "embedded": lambda: embedded.compare(directory / "embedded", options.scale),
            "bigtable": lambda: bigtable.compare(directory / "bigtable", options.rows),
            "replicated": lambda: replicated.compare(directory / "replicated"),
            "links": lambda: links.compare(directory / "links"),
            "switching": lambda: switching.compare(directory / "switching"),
            "spark": lambda: spark.compare(directory / "spark", options.scale),
            "http": lambda: http_load.compare(directory / "http", OUT.with_name("http.json")),
        }
        for part in (options.only,) if options.only else parts:
            for figure in parts[part]():
                print(f"{figure.name}: {figure.ratio:.2f}", file=sys.stderr)
                figures.append(figure)
    report(figures, OUT)
    return 0


if __name__ == "__main__":
    sys.exit(main())
