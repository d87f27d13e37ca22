"""Mutated statements against an engine with tables: each ends in its time, with rows or an error that has a code."""

from __future__ import annotations

import contextlib
import resource
import tempfile
import threading
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from random import Random

from engine.config import Config
from engine.engine import Engine
from engine.session import Session
from parts.errors import PandoError
from sql.functions import registry
from tests.fuzz.mutation import Mutator
from tests.sql_select.dataset import TABLES
from tests.sql_statements.test_parser import STATEMENTS

QUERY_SECONDS = 5.0
SECONDS = QUERY_SECONDS + 10.0  # on a machine that is busy with other tests
_MEMORY_BYTES = 8 << 30
_MOST_ROWS = 100_000
_INTERNAL = frozenset({"LOGICAL_ERROR", "STD_EXCEPTION"})
_CASES = Path(__file__).parents[1] / "sql_select" / "cases"
_MORE = [
    "SELECT 1 AS a, a + a AS b, b * b AS c",
    "SELECT DISTINCT day, count() FROM visits GROUP BY day WITH ROLLUP HAVING count() > 1 ORDER BY 1 LIMIT 3 BY day",
    "SELECT round(toDecimal32(1, 2), -1), repeat('a', 3), range(5), bitShiftLeft(1, 3), pow(2, 10)",
    "SELECT toDateTime('2020-01-01 00:00:00', 'UTC') + INTERVAL 1 DAY, formatDateTime(now(), '%Y')",
    "INSERT INTO small (a, b) VALUES (1 + 1, 'x'), (2, upper('y'))",
    "CREATE TABLE made (a UInt8 DEFAULT 1, b String MATERIALIZED toString(a)) ENGINE = MergeTree ORDER BY a",
    "CREATE TABLE made ENGINE = MergeTree ORDER BY tuple() AS SELECT number AS a FROM numbers(3)",
    "DESCRIBE (SELECT 1 AS a, [1, 2] AS b)",
    "EXPLAIN indexes = 1 SELECT count() FROM visits WHERE day > '2024-01-05'",
    "WITH 5 AS n, t AS (SELECT number FROM numbers(10)) SELECT * FROM t WHERE number < n",
]


@cache
def _mutator() -> Mutator:
    cases = [line.strip() for path in sorted(_CASES.glob("*.sql")) for line in path.read_text().splitlines()]
    corpus = [line for line in cases if line and not line.startswith("--")]
    corpus += [text for text, _ in STATEMENTS] + _MORE * 4
    return Mutator(corpus, sorted(name for name, _ in registry.function_names()))


def shown(seed: int) -> str:
    return _mutator().statement(Random(seed))


@contextlib.contextmanager
def opened() -> Iterator[Callable[[int], None]]:
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    with tempfile.TemporaryDirectory(prefix="pando-fuzz-") as name:
        server = _Server(Path(name))
        try:
            yield lambda seed: server.run(shown(seed))
        finally:
            server.engine.stop()


class _Server:
    def __init__(self, path: Path) -> None:
        self.engine = Engine(Config.local(path))
        self.engine.start()
        self._fill()

    def run(self, statement: str) -> None:
        """Raises ``AssertionError`` for an internal error, and whatever else is no ``PandoError``."""
        timer = threading.Timer(QUERY_SECONDS, self._stop_all)
        timer.start()
        changed = True
        refusal: PandoError | None = None
        try:
            changed = self._read(statement)
        except PandoError as error:
            refusal = error
        finally:
            timer.cancel()
        if changed:
            self._restore()
        if refusal is not None and refusal.name in _INTERNAL:
            raise AssertionError(str(refusal)) from refusal

    def _read(self, statement: str) -> bool:
        """Whether the statement may have changed something."""
        settings = {"max_execution_time": QUERY_SECONDS}
        result = self.engine.execute(statement, Session(settings=dict(settings)))
        try:
            rows = 0
            for batch in result.batches:
                rows += batch.num_rows
                if rows > _MOST_ROWS:
                    break
        finally:
            result.close()
        return not result.columns

    def _stop_all(self) -> None:
        for process in self.engine.processes():
            process.stop()

    def _restore(self) -> None:
        """Equal seeds meet equal tables."""
        if self._state() == self._first:
            return
        for database in self.engine.catalog.databases():
            if database != "default":
                self.engine.catalog.drop_database(database, if_exists=True, detach=False)
        for table in list(self.engine.table_names("default")):
            self._do(f"DROP TABLE `{table}` SYNC")
        self._fill()

    def _fill(self) -> None:
        self._do("CREATE TABLE small (a UInt8, b String) ENGINE = MergeTree ORDER BY a")
        for name, (columns, query) in TABLES.items():
            key = columns.split()[0]
            self._do(f"CREATE TABLE {name} ({columns}) ENGINE = MergeTree ORDER BY {key}")
            self._do(f"INSERT INTO {name} {query}")
        self._first = self._state()

    def _state(self) -> list[tuple[str, int]]:
        engine = self.engine
        names = [(database, name) for database in engine.catalog.databases() for name in engine.table_names(database)]
        return sorted(
            (f"{pair[0]}.{pair[1]}", sum(part.rows for part in engine.catalog.table(*pair).store.active()))
            for pair in names
        )

    def _do(self, statement: str) -> None:
        with contextlib.suppress(PandoError):
            self.engine.execute(statement, Session()).close()
