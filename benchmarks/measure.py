"""Timing in alternation: A B A B …, so that a drifting machine hurts both alike; medians are compared."""

from __future__ import annotations

import json
import os
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True)
class Figure:
    """One comparison. ``ratio`` of 1.0 or more: Pando is at least as fast. A detail is not in the table.

    With another ``unit`` than seconds the two numbers are of that unit: the fewer, the better as well.
    """

    name: str
    peer: str
    pando_seconds: float
    peer_seconds: float
    is_detail: bool = False
    unit: str = "s"

    @property
    def ratio(self) -> float:
        return self.peer_seconds / self.pando_seconds


def process_cpu_seconds(pid: int) -> float:
    """User and system time of a process so far; 0 if it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def seconds(action: Callable[[], object]) -> float:
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def alternate(
    name: str,
    peer: str,
    pando: Callable[[], object],
    other: Callable[[], object],
    *,
    runs: int = 5,
    warm_ups: int = 1,
    is_detail: bool = False,
) -> Figure:
    """Medians of ``runs`` alternating runs, after warm-ups that are not counted."""
    ours: list[float] = []
    theirs: list[float] = []
    for run in range(warm_ups + runs):
        pair = seconds(pando), seconds(other)
        if run >= warm_ups:
            ours.append(pair[0])
            theirs.append(pair[1])
    return Figure(name, peer, statistics.median(ours), statistics.median(theirs), is_detail)


def alternate_with_cpu(
    name: str,
    peer: str,
    pando: Callable[[], object],
    other: Callable[[], object],
    cpu_seconds: Callable[[], float],
    *,
    runs: int = 5,
    is_detail: bool = False,
) -> tuple[Figure, Figure]:
    """Like :func:`alternate`, with a second figure: what ``cpu_seconds`` counted meanwhile, as medians."""
    spent: dict[bool, list[float]] = {True: [], False: []}

    def counted(action: Callable[[], object], is_pando: bool) -> Callable[[], None]:
        def run() -> None:
            before = cpu_seconds()
            action()
            spent[is_pando].append(cpu_seconds() - before)

        return run

    wall = alternate(name, peer, counted(pando, True), counted(other, False), runs=runs, is_detail=is_detail)
    ours, theirs = (statistics.median(spent[is_pando][-runs:]) for is_pando in (True, False))
    least = 1 / os.sysconf("SC_CLK_TCK")
    return wall, Figure(f"{name}, CPU", peer, max(ours, least), max(theirs, least), is_detail)


def _cell(value: float, unit: str) -> str:
    return f"{value * 1000:,.1f}" if unit == "s" else f"{value:,.1f} {unit}"


def report(figures: list[Figure], file: Path) -> None:
    """A table on the terminal, and the same with the details as JSON."""
    table = Table(title="Peer's time ÷ Pando's time: 1.0 or more is at least as fast", title_justify="left")
    for column in ("benchmark", "peer"):
        table.add_column(column)
    for column in ("Pando, ms", "peer, ms", "ratio"):
        table.add_column(column, justify="right")
    for figure in (figure for figure in figures if not figure.is_detail):
        colour = "green" if figure.ratio >= 1 else "yellow" if figure.ratio >= 0.5 else "red"
        table.add_row(
            figure.name,
            figure.peer,
            _cell(figure.pando_seconds, figure.unit),
            _cell(figure.peer_seconds, figure.unit),
            f"[{colour}]{figure.ratio:.2f}[/]",
        )
    Console(width=110).print(table)
    file.parent.mkdir(parents=True, exist_ok=True)
    rows = [{**asdict(figure), "ratio": round(figure.ratio, 4)} for figure in figures]
    file.write_text(json.dumps(rows, indent=2) + "\n")
