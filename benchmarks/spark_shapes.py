"""Spark over tables of unusual shapes, 200 columns or rows of 60 MB, and the memory that reading takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from benchmarks.measure import Figure
from engine.http_client.http_client import HttpClient

WIDE, LARGE = "wide", "large"
_WIDE_ROWS = 200_000
_LARGE_ROWS = 6
_VALUES = {
    "Int32": "toInt32(sipHash64(number, {n}) % 100000)",
    "Float64": "sipHash64(number, {n}) % 1000000 / 997",
    "String": "'value ' || toString(sipHash64(number, {n}) % 1000)",
    "Nullable(Int64)": "if(number % {n} = 1, NULL, toInt64(number * {n}))",
    "Date": "toDate('2024-01-01') + number % ({n} + 100)",
}
QUERIES = {
    "200 columns": (WIDE, "SELECT * FROM {}"),
    "five of 200 columns": (WIDE, "SELECT id, c10, c11, c12, c13 FROM {}"),
    "the sum of one of 200 columns": (WIDE, "SELECT sum(c10) FROM {}"),
    "rows of 60 MB": (LARGE, "SELECT * FROM {}"),
}


def fill(client: HttpClient) -> None:
    """Makes the two tables."""
    kinds = list(_VALUES)
    types = [kinds[number % len(kinds)] for number in range(1, 200)]
    columns = ", ".join(f"c{number} {type_}" for number, type_ in enumerate(types, 1))
    values = ", ".join(_VALUES[type_].format(n=number + 1) for number, type_ in enumerate(types, 1))
    client.execute(f"CREATE TABLE {WIDE} (id UInt32, {columns}) ENGINE = MergeTree ORDER BY id")
    client.execute(f"INSERT INTO {WIDE} SELECT number, {values} FROM numbers({_WIDE_ROWS})")
    client.execute(f"CREATE TABLE {LARGE} (id UInt32, body String) ENGINE = MergeTree ORDER BY id")
    for number in range(_LARGE_ROWS):
        body = f"repeat(repeat(leftPad(toString(sipHash64({number})), 20, '0'), 30), 100000)"
        client.execute(f"INSERT INTO {LARGE} SELECT {number}, {body}")
    client.execute(f"OPTIMIZE TABLE {LARGE} FINAL")


def measure_memory(
    name: str, peer: str, ours: Callable[[], object], theirs: Callable[[], object], jvm: int, servers: Sequence[int]
) -> Iterator[Figure]:
    """Yields the largest resident memory in MB of Spark with either side, and of the servers beside rest."""
    at_rest = sum(map(_largest, _watch(servers)))
    _watch([jvm])
    ours()
    reading, serving = _largest(jvm), sum(map(_largest, servers))
    _watch([jvm])
    theirs()
    yield Figure(f"Spark: {name}, memory of the executor", peer, reading, _largest(jvm), unit="MB")
    yield Figure(f"Spark: {name}, memory of the server", "the server at rest", serving, at_rest, unit="MB")


def _watch(pids: Sequence[int]) -> Sequence[int]:
    """Forgets the largest resident memory of the processes so far."""
    for pid in pids:
        Path(f"/proc/{pid}/clear_refs").write_text("5")
    return pids


def _largest(pid: int) -> float:
    line = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1000
