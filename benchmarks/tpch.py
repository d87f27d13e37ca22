"""TPC-H's 22 queries on both engines, with their geometric mean and the slowest of them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from benchmarks.measure import Figure, alternate

QUERIES = Path(__file__).parents[1] / "tests" / "sql" / "run" / "tpch"
_RUNS = 3


def compare(peer: str, pando: Callable[[str], object], other: Callable[[str], object]) -> Iterator[Figure]:
    """The 22 figures as details, then those that the report shows; both engines hold the eight tables."""
    figures = []
    for path in sorted(QUERIES.glob("q*.sql")):
        sql = path.read_text()
        name = f"TPC-H {path.stem}"
        figure = alternate(name, peer, lambda s=sql: pando(s), lambda s=sql: other(s), runs=_RUNS, is_detail=True)
        figures.append(figure)
        yield figure
    ours, theirs = _mean(figure.pando_seconds for figure in figures), _mean(figure.peer_seconds for figure in figures)
    worst = min(figures, key=lambda figure: figure.ratio)
    yield Figure("TPC-H's 22 queries: geometric mean", peer, ours, theirs)
    yield Figure(f"the worst of them: {worst.name}", peer, worst.pando_seconds, worst.peer_seconds)


def _mean(values: Iterable[float]) -> float:
    """The geometric mean: the ratio of two is that of the ratios."""
    return math.exp(statistics.fmean(map(math.log, values)))
