"""``make bench-growth``: how the cost of one statement grows with the number of parts, columns and mutations.

Each case runs at several sizes. Costs are processor time in seconds (of all threads, by the system's count), or what
the name of the cost says. The exponent is the slope of a line through log(size) and log(cost): 0 is constant, 1 linear.
ClickHouse runs the same statements: as ``chdb`` in the same process, and as Debian's server 18.16 where it is
installed. Every part is made by an INSERT of its own.

``cases()`` of a module yields ``(name, sizes, run)``; ``run(size)`` measures and returns what each cost was by name.
``benchmarks.growth_requests``, ``benchmarks.growth_tables`` and ``benchmarks.growth_links`` may add more.
"""

from __future__ import annotations

import argparse
import atexit
import contextlib
import importlib
import importlib.util
import json
import math
import resource
import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks import growth_local

Costs = Mapping[str, float]
Case = tuple[str, Sequence[int], Callable[[int], Costs]]
OUT = Path(__file__).parent / "out" / "growth.json"
_OTHERS = ("benchmarks.growth_requests", "benchmarks.growth_tables", "benchmarks.growth_links")
_TOO_LITTLE = 1e-9
_FILES = 1 << 20


def cases() -> Iterator[Case]:
    for name, sizes, measure in growth_local.MEASURES:
        yield name, sizes, partial(_beside_peers, measure)
    for module in _OTHERS:
        if importlib.util.find_spec(module) is not None:
            yield from importlib.import_module(module).cases()


def exponent(sizes: Sequence[int], costs: Sequence[float]) -> float:
    """The slope of log(cost) over log(size); NaN of one size."""
    if len(sizes) < 2:
        return math.nan
    x, y = ([math.log(max(value, _TOO_LITTLE)) for value in values] for values in (sizes, costs))
    return statistics.linear_regression(x, y).slope


def _beside_peers(measure: growth_local.Measure, size: int) -> Costs:
    """In a process for each engine, so that none pays for another's threads."""
    found: dict[str, float] = {}
    for peer in growth_local.ENGINES:
        if peer == growth_local.SERVER and shutil.which("clickhouse-server") is None:
            continue
        with ProcessPoolExecutor(1, get_context("spawn")) as alone:
            try:
                costs = alone.submit(growth_local.run, measure, peer, size).result()
            except Exception as error:  # too many open files, say: the others are measured all the same
                if peer == growth_local.PANDO:
                    raise
                print(f"{peer} does not do it: {error!s:.300}", file=sys.stderr, flush=True)
                continue
        found |= {f"{name}, {peer}": cost for name, cost in costs.items()}
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="cases whose name has this text")
    parser.add_argument("--most", type=int, default=sys.maxsize, help="no larger sizes")
    options = parser.parse_args()
    rows = []
    for name, sizes, run in cases():
        sizes = [size for size in sizes if size <= options.most]
        if options.only not in name or not sizes:
            continue
        measured = {}
        for size in sizes:
            measured[size] = run(size)
            shown = ", ".join(f"{cost}: {value:.4g}" for cost, value in measured[size].items())
            print(f"{name}, {size}: {shown}", file=sys.stderr, flush=True)
        for cost in dict.fromkeys(cost for costs in measured.values() for cost in costs):
            at = {size: costs[cost] for size, costs in measured.items() if cost in costs}
            rows.append({"case": name, "cost": cost, "at": at, "exponent": exponent(list(at), list(at.values()))})
    _report(rows)
    return 0


def _report(rows: list[dict[str, object]]) -> None:
    table = Table(title="Growth: cost at each size, exponent, cost of one at the largest size", title_justify="left")
    for column in ("case", "cost", "size: cost", "exponent", "cost of one"):
        table.add_column(column, justify="left" if column in ("case", "cost") else "right")
    for row in rows:
        at = row["at"]
        assert isinstance(at, dict)
        size, cost = max(at.items())
        shown = "  ".join(f"{size:,}: {value:.4g}" for size, value in at.items())
        table.add_row(str(row["case"]), str(row["cost"]), shown, f"{row['exponent']:.2f}", f"{cost / size:.3g}")
    Console(width=180).print(table)
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(json.dumps(rows, indent=2) + "\n")


def _open_many_files() -> None:
    """ClickHouse opens every column of every part that it merges."""
    with contextlib.suppress(ValueError, OSError):  # only root may have more than the hard limit
        resource.setrlimit(resource.RLIMIT_NOFILE, (_FILES, _FILES))


if __name__ == "__main__":
    _open_many_files()
    folder = tempfile.TemporaryDirectory(prefix="pando-growth-")
    atexit.register(folder.cleanup)  # behind the servers, which end as the program does
    tempfile.tempdir = folder.name
    sys.exit(main())
