"""``python -m benchmarks.scaling``: what the second core adds, to Pando and to Debian's ClickHouse 18.16.

Servers and load are held on one core, then on two (as ``taskset`` does), with 32 connections that are kept. The load
takes its share of the same cores, on both sides of the comparison.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

import httpx
from rich.console import Console
from rich.table import Table

from benchmarks.clickhouse_server import start_clickhouse
from benchmarks.http_load import LOADS, PEER, Load, Outcome, Server, start_pando

_CONNECTIONS = 32
_QUERIES = [load for load in LOADS if not load.rows]


def main() -> int:
    argparse.ArgumentParser(description=__doc__).parse_args()
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        print("one core only: nothing can be compared", file=sys.stderr)
        return 1
    one, two = (_measure(set(cores[:count])) for count in (1, 2))
    table = Table(title=f"{_CONNECTIONS} connections, one core and two: Pando | {PEER}", title_justify="left")
    for column in ("load", "per second, 1 core", "per second, 2 cores", "times", "CPU on 2 cores, ms a query"):
        table.add_column(column, justify="left" if column == "load" else "right")
    for load in _QUERIES:
        alone, together = one[load], two[load]
        table.add_row(
            load.name,
            " | ".join(f"{outcome.per_second:,.0f}" for outcome in alone),
            " | ".join(f"{outcome.per_second:,.0f}" for outcome in together),
            " | ".join(f"{b.per_second / a.per_second:.2f}" for a, b in zip(alone, together, strict=True)),
            " | ".join(f"{outcome.cpu_ms:.2f}" for outcome in together),
        )
    Console(width=110).print(table)
    return 0


def _measure(cores: set[int]) -> dict[Load, tuple[Outcome, Outcome]]:
    """Of Pando and of its peer, both started and asked on ``cores`` alone."""
    os.sched_setaffinity(0, cores)
    with tempfile.TemporaryDirectory(prefix="pando-scaling-") as folder, ExitStack() as stack:
        client = stack.enter_context(httpx.Client(timeout=120, trust_env=False))
        servers = [
            Server(*start(Path(folder) / name, stack), client)
            for name, start in (("pando", start_pando), ("peer", start_clickhouse))
        ]
        for server in servers:
            server.wait_until_it_answers()
            server.fill()
        ours, theirs = servers
        return {load: (ours.measure(load, _CONNECTIONS), theirs.measure(load, _CONNECTIONS)) for load in _QUERIES}


if __name__ == "__main__":
    sys.exit(main())
