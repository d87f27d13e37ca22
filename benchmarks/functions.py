"""``make bench-functions``: the CPU time of every function over generated rows, beside ClickHouse's (chdb).

Of the calls that the sweep compares (``tests.sql.functions``) a few of each function are timed, over columns of
ordinary values: ``SELECT any(f(x)) FROM t``, less ``SELECT any(x) FROM t``. ``any`` needs every value of ``f`` and
costs nearly nothing itself. Times are of the process, user and system, so that neither other work on the machine nor
the number of threads matters. Those below a floor are taken for the floor: there the cost of a statement is all there
is to see. A function's ratio is that of its worst call. What one of the two refuses is not timed.

A statement that is known costs less than a new one, so both are told: ``first`` are the times of statements that
nothing is kept of."""

from __future__ import annotations

import argparse
import json
import re
import statistics
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from operator import attrgetter
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from benchmarks.embedded import ClickHouse, Pando
from parts.common.errors import PandoError
from sql.formats.registry import write_blocks
from sql.run.duckdb.statement_pool import STATEMENT_POOL
from tests.sql.functions import rows
from tests.sql.functions.aggregates import aggregate_calls
from tests.sql.functions.calls import templated_calls

OUT = Path(__file__).parent / "out" / "functions.json"
ROWS = 200_000
FLOOR_SECONDS = 0.002
_FIRST_RUNS = 3
_SLOW_SECONDS = 1.0
"""A call that takes longer is timed once."""
_ORDINARY = {
    "int": "si32", "num": "si32 sf64", "real": "sf64", "tame": "si32 sf64 sd18", "nullable": "ni64", "nz": "si64",
    "txt": "sw s", "anytext": "s digits", "date": "sd", "clock": "sdt", "time": "sd sdt", "tametime": "sdt sd",
    "arr": "asi at", "numarr": "asi", "scalar": "si32 sf64 sw sdt", "all": "si32 sf64 sw sdt sd18 uid asi",
}  # fmt: skip
_NAME = re.compile(r"'(?:[^'\\]|\\.|'')*'|\b[a-z]\w*\b(?!\()")


@dataclass(frozen=True)
class Timing:
    """One call; seconds of CPU, at a first run and at a repeated one."""

    function: str
    call: str
    pando_seconds: float
    clickhouse_seconds: float
    pando_first_seconds: float
    clickhouse_first_seconds: float

    @property
    def ratio(self) -> float:
        return _ratio(self.pando_seconds, self.clickhouse_seconds)

    @property
    def first_ratio(self) -> float:
        return _ratio(self.pando_first_seconds, self.clickhouse_first_seconds)


def _ratio(ours: float, theirs: float) -> float:
    return max(ours, FLOOR_SECONDS) / max(theirs, FLOOR_SECONDS)


class Both:
    """The two with the same table ``t``, each in one thread of its own."""

    def __init__(self, directory: Path, count: int, runs: int) -> None:
        self._runs = runs
        self._pando, self._clickhouse = Pando(directory / "pando"), ClickHouse(directory / "clickhouse")
        self._clickhouse.run("SET max_threads = 1")
        self._load(count)
        self._baselines: dict[tuple[str, ...], tuple[float, ...]] = {}

    def _load(self, count: int) -> None:
        columns = [(column.name, column.type) for column in rows.schema().columns]
        path = OUT.with_name(f"rows-{count}-{zlib.crc32(Path(rows.__file__).read_bytes())}.native")
        if not path.exists():  # making them takes most of a minute
            path.parent.mkdir(parents=True, exist_ok=True)
            blocks = write_blocks("Native", columns, iter(rows.table(count).combine_chunks().to_batches()))
            path.write_bytes(b"".join(blocks))
        own = ", ".join(f"`{name}` {type_}" for name, type_ in columns)
        structure = own.replace("\\", "\\\\").replace("'", "\\'")
        self._clickhouse.run(f"CREATE TABLE t ({own}) ENGINE = MergeTree ORDER BY id")
        self._clickhouse.run(f"INSERT INTO t SELECT * FROM file('{path}', Native, '{structure}')")
        self._pando.run(f"CREATE TABLE t ({own}) ENGINE = MergeTree ORDER BY id")
        self._pando.run("INSERT INTO t FORMAT Native", path)

    def timed(self, function: str, call: str, is_aggregate: bool) -> Timing | None:
        """``None`` when one of the two refuses the call."""
        columns = tuple(sorted({name for name in _NAME.findall(call) if name in rows.COLUMNS}))
        sql = f"SELECT {call if is_aggregate else f'any({call})'} FROM t"
        taken = self._seconds(sql)
        if taken is None:
            return None
        if columns not in self._baselines:
            bare = ", ".join(f"any({name})" for name in columns)
            baseline = self._seconds(f"SELECT {bare} FROM t")
            assert baseline is not None, bare
            self._baselines[columns] = baseline
        pairs = zip(taken, self._baselines[columns], strict=True)
        return Timing(function, call, *(max(0.0, whole - bare) for whole, bare in pairs))

    def _seconds(self, sql: str) -> tuple[float, ...] | None:
        """Medians of Pando and ClickHouse in turn: at runs behind the first one, and at first runs."""
        try:
            first = self._in_turn([f"{sql} -- {run}" for run in range(_FIRST_RUNS)], are_new=True)
            if sum(first) > _SLOW_SECONDS:
                return *first, *first
            return *self._in_turn([sql] * self._runs, are_new=False), *first
        except PandoError:
            return None
        except Exception:  # ClickHouse's errors are of no class of their own
            self._clickhouse.run("SELECT 1")
            return None

    def _in_turn(self, texts: list[str], *, are_new: bool) -> tuple[float, float]:
        ours: list[float] = []
        theirs: list[float] = []
        for text in texts:
            if are_new:
                STATEMENT_POOL.clear()
            ours.append(_cpu_seconds(partial(self._pando.run, text)))
            theirs.append(_cpu_seconds(partial(self._clickhouse.run, text)))
            if ours[-1] + theirs[-1] > _SLOW_SECONDS:
                break
        return statistics.median(ours), statistics.median(theirs)

    def close(self) -> None:
        self._pando.close()
        self._clickhouse.close()


def _cpu_seconds(action: Callable[[], object]) -> float:
    started = time.process_time()
    action()
    return time.process_time() - started


def chosen_calls(names: list[str], most: int) -> Iterator[tuple[str, str, bool]]:
    """(function, call, whether it is an aggregate): of each function the first calls that read a column."""
    scalar = {name: list(own) for name, own in templated_calls(_ORDINARY).items()}
    for is_aggregate, every in ((False, scalar), (True, aggregate_calls(_ORDINARY))):
        for name, own in every.items():
            if not names or name in names:
                reading = [call for call in own if any(word in rows.COLUMNS for word in _NAME.findall(call))]
                yield from ((name, call, is_aggregate) for call in reading[: most or None])


def compare(directory: Path, count: int, runs: int, names: list[str], most: int) -> Iterator[Timing]:
    both = Both(directory, count, runs)
    try:
        for name, call, is_aggregate in chosen_calls(names, most):
            timing = both.timed(name, call, is_aggregate)
            if timing is not None:
                yield timing
    finally:
        both.close()


def worst_of_each(timings: list[Timing], ratio: Callable[[Timing], float]) -> list[Timing]:
    """The worst call of every function, the worst function first."""
    worst: dict[str, Timing] = {}
    for timing in timings:
        known = worst.get(timing.function)
        if known is None or ratio(timing) > ratio(known):
            worst[timing.function] = timing
    return sorted(worst.values(), key=ratio, reverse=True)


def summary(ratios: list[float]) -> dict[str, float]:
    above = {f"above {bound}": sum(ratio > bound for ratio in ratios) for bound in (2, 5, 10)}
    return {"count": len(ratios), "median": round(statistics.median(ratios), 2), **above}


def report(timings: list[Timing], shown: int) -> None:
    """A table on the terminal, and every call as JSON."""
    kinds = {"first": attrgetter("first_ratio"), "repeated": attrgetter("ratio")}
    worst = {kind: worst_of_each(timings, ratio) for kind, ratio in kinds.items()}
    table = Table(title="Pando's time ÷ ClickHouse's time, the worst call of each function", title_justify="left")
    table.add_column("call")
    for column in ("Pando, ms", "ClickHouse, ms", "ratio", "first ratio"):
        table.add_column(column, justify="right")
    for timing in worst["repeated"][:shown]:
        times = (f"{seconds * 1000:,.1f}" for seconds in (timing.pando_seconds, timing.clickhouse_seconds))
        table.add_row(escape(timing.call), *times, _coloured(timing.ratio), _coloured(timing.first_ratio))
    console = Console(width=110)
    console.print(table)
    found = {f"functions, {kind}": summary([ratio(one) for one in worst[kind]]) for kind, ratio in kinds.items()}
    found |= {f"calls, {kind}": summary([ratio(one) for one in timings]) for kind, ratio in kinds.items()}
    console.print_json(json.dumps(found))
    OUT.parent.mkdir(parents=True, exist_ok=True)
    ordered = sorted(timings, key=lambda timing: -timing.ratio)
    listed = [
        {**asdict(timing), "ratio": round(timing.ratio, 3), "first_ratio": round(timing.first_ratio, 3)}
        for timing in ordered
    ]
    OUT.write_text(json.dumps({**found, "timings": listed}, indent=1) + "\n")


def _coloured(ratio: float) -> str:
    colour = "green" if ratio <= 2 else "yellow" if ratio <= 5 else "red"
    return f"[{colour}]{ratio:.2f}[/]"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("functions", nargs="*", help="only these")
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--runs", type=int, default=5, help="of which the median counts")
    parser.add_argument("--calls", type=int, default=8, help="at most so many of each function; 0: all")
    parser.add_argument("--shown", type=int, default=60, help="lines of the table")
    options = parser.parse_args()
    timings = []
    with tempfile.TemporaryDirectory(prefix="pando-bench-") as name:
        for timing in compare(Path(name), options.rows, options.runs, options.functions, options.calls):
            print(f"{timing.first_ratio:7.2f} {timing.ratio:7.2f}  {timing.call}", file=sys.stderr)
            timings.append(timing)
    report(timings, options.shown)
    return 0


if __name__ == "__main__":
    sys.exit(main())
