"""Statements against an engine with tables: made by ClickHouse's grammar, or mutated, or both. Each ends in its time
and memory, with rows that can be written in a format, or with an error that has a code.
"""

from __future__ import annotations

import contextlib
import resource
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random

from engine.queries.result_output import encode_result
from engine.queries.session import Session
from parts.common.errors import PandoError
from sql.formats.registry import FORMATS
from sql.functions import registry
from sql.settings.session_settings import (
    make_settings,
)
from tests.fuzz.limits import Faults, bounded_memory
from tests.fuzz.mutation import Mutator
from tests.fuzz.sentences import SETTING_VALUES, SETTINGS, sentence, setting_value
from tests.fuzz.server import Server, opened_server
from tests.sql.grammar.test_parser import STATEMENTS

LIMIT_SECONDS = 1.0
SECONDS = LIMIT_SECONDS + 2.0
_LIMIT_BYTES = 512 << 20
_MEMORY_BYTES = 8 << 30
_MOST_BYTES = 8 << 20
"""Of an answer; the rest is not asked for."""
_INTERNAL = frozenset({"LOGICAL_ERROR", "STD_EXCEPTION"})
_CASES = Path(__file__).parents[1] / "sql" / "run" / "cases"
_FORMATS = sorted(name for name, entry in FORMATS.items() if entry.writer is not None)
FOUND = [line for line in Path(__file__).with_name("found.sql").read_text().splitlines() if line]
"""Statements that this found once."""
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
    corpus += [text for text, _ in STATEMENTS] + (_MORE + FOUND) * 4
    return Mutator(corpus, sorted(name for name, _ in registry.list_functions()))


@dataclass(frozen=True)
class Case:
    text: str
    settings: dict[str, object]
    parameters: dict[str, str]
    format: str


def case_of(seed: int) -> Case:
    random = Random(seed)
    kind = random.random()
    if kind < 0.15:
        text = _mutator().statement(random)
    else:
        text = sentence(random)
        if kind > 0.6:
            text = _mutator().lightly_changed(text, random)
    settings: dict[str, object] = {}
    if random.random() < 0.15:
        settings = {random.choice(SETTINGS): setting_value(random).strip("'") for _ in range(2)}
    parameters = {"x": random.choice(SETTING_VALUES).strip("'"), "n": random.choice("01379")}
    return Case(text, settings, parameters, random.choice(_FORMATS))


def shown(seed: int) -> str:
    case = case_of(seed)
    return f"{case.text}\nsettings {case.settings}, parameters {case.parameters}, format {case.format}"


@contextlib.contextmanager
def opened() -> Iterator[Callable[[int], None]]:
    with opened_server() as server, Faults.watched() as faults:
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))

        def run(seed: int) -> None:
            try:
                run_case(server, case_of(seed))
            finally:
                faults.check()

        yield run


def run_case(server: Server, case: Case) -> None:
    """Raises ``AssertionError`` for an internal error, and whatever else is no ``PandoError``."""
    is_query = False
    try:
        with bounded_memory(_LIMIT_BYTES):
            is_query = _read(server, case)
    except PandoError as error:
        if error.name in _INTERNAL:
            raise AssertionError(str(error)) from error
    finally:
        if not is_query:
            server.restore()


def _read(server: Server, case: Case) -> bool:
    """Whether the statement surely changed nothing."""
    limits = {"max_execution_time": LIMIT_SECONDS, "max_memory_usage": _LIMIT_BYTES}
    session = Session(settings={**case.settings, **limits})  # type: ignore[dict-item]
    result = server.engine.execute(case.text, session, parameters=case.parameters)
    try:
        size = 0
        if result.columns:
            settings, monotonic = make_settings(session.settings), server.engine.services.monotonic
            for piece in encode_result(result, result.format or case.format, settings, monotonic):
                size += len(piece)
                if size > _MOST_BYTES:
                    break
    finally:
        result.close()
    return bool(result.columns)
