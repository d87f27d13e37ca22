"""Cases of ``benchmarks.growth`` that need one server: many parts, many columns, many mutations."""

from __future__ import annotations

import os
import resource
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Protocol

import httpx

PANDO, CHDB, SERVER = "Pando", "chdb", "18.16"
ENGINES = (PANDO, CHDB, SERVER)
_TICKS = os.sysconf("SC_CLK_TCK")
_START_SECONDS = 60.0
_NO_LIMIT = 1_000_000
_FEW, _MANY, _WIDE_ROWS = 20, 100, 1000
_REPEATS = 5


class Engine(Protocol):
    name: str

    def run(self, sql: str, **settings: object) -> object: ...

    def cpu(self) -> float:
        """Seconds of processor time so far."""

    def restart(self) -> None:
        """Ends it and starts it again on the same files."""


Measure = Callable[[Engine, int], Mapping[str, float]]


class Pando:
    name = PANDO

    def __init__(self, directory: Path, stack: ExitStack) -> None:
        self._directory = directory
        self._start()
        stack.callback(lambda: self._engine.stop())

    def _start(self) -> None:
        from engine.engine import Engine as PandoEngine
        from engine.server.config import Config

        self._engine = PandoEngine(Config.local(self._directory))
        self._engine.start()

    def run(self, sql: str, **settings: object) -> object:
        from engine.queries.session import Session

        return list(self._engine.execute(_with(sql, settings), Session()).batches)

    def cpu(self) -> float:
        return time.process_time()

    def restart(self) -> None:
        self._engine.stop()
        self._start()


class Chdb:
    name = CHDB

    def __init__(self, directory: Path, stack: ExitStack) -> None:
        from chdb.session import Session

        self._session = Session(str(directory))
        stack.callback(self._session.close)

    def run(self, sql: str, **settings: object) -> object:
        return self._session.query(_with(sql, settings), "TSV").bytes()

    def cpu(self) -> float:
        return time.process_time()

    def restart(self) -> None:
        raise NotImplementedError


class Server:
    name = SERVER

    def __init__(self, directory: Path, stack: ExitStack) -> None:
        from benchmarks.clickhouse_server import start_clickhouse

        port, self._pid = start_clickhouse(directory, stack)
        self._client = stack.enter_context(httpx.Client(timeout=600, trust_env=False))
        self._url = f"http://127.0.0.1:{port}"
        deadline = time.monotonic() + _START_SECONDS
        while True:
            try:
                self._client.get(self._url)
                return
            except httpx.TransportError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)

    def run(self, sql: str, **settings: object) -> object:
        answer = self._client.post(self._url, content=_with(sql, settings).encode())
        if answer.status_code != 200:
            raise RuntimeError(answer.text)
        return answer.content

    def cpu(self) -> float:
        fields = Path(f"/proc/{self._pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    def restart(self) -> None:
        raise NotImplementedError


def run(measure: Measure, engine: str, size: int) -> Mapping[str, float]:
    """The costs that one engine has, in a folder of its own; none that it cannot be asked for."""
    most_files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most_files, most_files))  # a part of many columns has many files
    with tempfile.TemporaryDirectory(prefix="pando-growth-") as folder, ExitStack() as stack:
        make = {PANDO: Pando, CHDB: Chdb, SERVER: Server}[engine]
        return measure(make(Path(folder) / "data", stack), size)


def _modern(engine: Engine, **settings: object) -> Mapping[str, object]:
    """Settings that 18.16 lacks."""
    return {} if engine.name == SERVER else settings


def _with(sql: str, settings: Mapping[str, object]) -> str:
    if not settings:
        return sql
    return f"{sql} SETTINGS {', '.join(f'{name} = {value}' for name, value in settings.items())}"


@contextmanager
def _spent(engine: Engine, found: dict[str, float], name: str) -> Iterator[None]:
    before = engine.cpu()
    yield
    found[name] = engine.cpu() - before


def _repeated(
    engine: Engine, found: dict[str, float], name: str, sql: Callable[[int], str], repeats: int = _REPEATS
) -> None:
    """The median of some runs after as many others. 18.16 counts in hundredths of a second: a mean of many there."""
    for turn in range(repeats):
        engine.run(sql(turn))
    costs = []
    times = 10 if engine.name == SERVER and repeats > 1 else 1
    for turn in range(repeats):
        before = engine.cpu()
        for again in range(times):
            engine.run(sql(repeats + turn * times + again))
        costs.append((engine.cpu() - before) / times)
    found[name] = statistics.mean(costs) if engine.name == SERVER else statistics.median(costs)


def _table(engine: Engine, name: str, columns: str, key: str = "k") -> None:
    """Nothing in it is merged unless somebody asks."""
    limits = _modern(
        engine, max_parts_in_total=_NO_LIMIT, number_of_mutations_to_throw=0, number_of_mutations_to_delay=0
    )
    engine.run(
        f"CREATE TABLE {name} ({columns}) ENGINE = MergeTree ORDER BY {key}",
        parts_to_delay_insert=_NO_LIMIT,
        parts_to_throw_insert=_NO_LIMIT,
        max_bytes_to_merge_at_max_space_in_pool=1,
        **limits,
    )


def _fill(engine: Engine, name: str, parts: int, rows: int) -> None:
    for part in range(parts):
        first = part * rows
        engine.run(f"INSERT INTO {name} SELECT number + {first}, number % 100, 'x' FROM numbers({rows})")


def reads_of_parts(engine: Engine, parts: int) -> Mapping[str, float]:
    _table(engine, "t", "k UInt64, v UInt64, s String")
    _fill(engine, "t", parts, _MANY)
    found: dict[str, float] = {}
    _repeated(engine, found, "count() of system.parts", lambda _: "SELECT count() FROM system.parts")
    _repeated(engine, found, "point query", lambda turn: f"SELECT v FROM t WHERE k = {turn * 37}")
    _repeated(engine, found, "sum with a filter", lambda turn: f"SELECT sum(v) FROM t WHERE v > {turn}")
    return found


def drops_of_parts(engine: Engine, parts: int) -> Mapping[str, float]:
    _table(engine, "t", "k UInt64, v UInt64, s String")
    _fill(engine, "t", parts, 1)
    found: dict[str, float] = {}
    with _spent(engine, found, "TRUNCATE"):
        engine.run("TRUNCATE TABLE t")
    _fill(engine, "t", _FEW, 1)
    with _spent(engine, found, f"TRUNCATE of {_FEW} parts beside the dropped ones"):
        engine.run("TRUNCATE TABLE t")
    if engine.name == PANDO:
        with _spent(engine, found, "restart with the dropped parts"):
            engine.restart()
    return found


def update_of_parts(engine: Engine, parts: int) -> Mapping[str, float]:
    _table(engine, "t", "k UInt64, v UInt64, s String")
    _fill(engine, "t", parts, 1)
    found: dict[str, float] = {}
    with _spent(engine, found, "UPDATE"):
        _update(engine, "ALTER TABLE t UPDATE v = v + 1 WHERE 1")
    return found


def queued_mutations(engine: Engine, mutations: int) -> Mapping[str, float]:
    _table(engine, "t", "k UInt64, v UInt64, s String")
    _fill(engine, "t", _FEW, 1)
    found: dict[str, float] = {}
    engine.run("SYSTEM STOP MERGES" if engine.name == PANDO else "SYSTEM STOP MERGES t")
    with _spent(engine, found, f"mutations of {_FEW} parts, queued"):
        for _ in range(mutations - 1):
            engine.run("ALTER TABLE t UPDATE v = v + 1 WHERE 1", **_modern(engine, mutations_sync=0))
    with _spent(engine, found, f"mutations of {_FEW} parts, carried out"):
        engine.run("SYSTEM START MERGES" if engine.name == PANDO else "SYSTEM START MERGES t")
        _update(engine, "ALTER TABLE t UPDATE v = v + 1 WHERE 1")
    return found


def _update(engine: Engine, sql: str) -> None:
    """Waits for its end."""
    engine.run(sql, **_modern(engine, mutations_sync=2))
    while engine.name == SERVER and engine.run("SELECT count() FROM system.mutations WHERE NOT is_done") != b"0\n":
        time.sleep(0.05)


def wide_table(engine: Engine, columns: int) -> Mapping[str, float]:
    names = [f"c{number}" for number in range(columns)]
    _table(engine, "t", ", ".join(f"{name} UInt64" for name in names), "c0")
    found: dict[str, float] = {}
    values = ", ".join(["number"] * columns)
    rows = "\n".join("\t".join(str(row + column) for column in range(columns)) for row in range(_WIDE_ROWS))
    with _spent(engine, found, "INSERT SELECT of 1,000 rows"):
        engine.run(f"INSERT INTO t SELECT {values} FROM numbers({_WIDE_ROWS})")
    _repeated(engine, found, "INSERT of 1,000 rows", lambda _: f"INSERT INTO t FORMAT TabSeparated\n{rows}\n", 1)
    with _spent(engine, found, "ALTER ADD COLUMN"):
        engine.run("ALTER TABLE t ADD COLUMN d UInt64")
    with _spent(engine, found, "OPTIMIZE"):
        engine.run("OPTIMIZE TABLE t FINAL")
    return found


MEASURES: tuple[tuple[str, tuple[int, ...], Measure], ...] = (
    ("reads of many parts", (100, 1000, 10_000), reads_of_parts),
    ("drops of many parts", (100, 1000, 10_000), drops_of_parts),
    ("UPDATE of many parts", (100, 300, 1000), update_of_parts),
    ("many mutations", (10, 100, 1000), queued_mutations),
    ("many columns", (1000, 3000, 5000), wide_table),
)
