"""Rows that ClickHouse (chdb) writes in a format are the same rows in Pando, and text that was changed a little gives
the same rows in both, or is refused by both. What is refused only here is no difference: Pando looks closer.

Left out are

- tuples in CSV with names: ClickHouse writes names of their elements there, and does not know them when it reads,
- empty lines and a blank behind the last row: chdb takes them from data that stand behind their statement.
"""

from __future__ import annotations

import contextlib
import io
import re
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

from engine.engine import Engine
from engine.queries.session import Session
from engine.server.config import Config
from parts.common.errors import PandoError
from tests.alter.following import answer
from tests.fuzz.random_queries import COLUMNS, statements
from tests.fuzz.runner import COMPARED
from tests.sql.oracle import Oracle

SECONDS = 30
_TEXTS = (
    "TSV", "TSVWithNames", "TSVWithNamesAndTypes", "CSV", "CSVWithNames", "Values", "JSONEachRow",
    "JSONCompactEachRow", "JSONCompactEachRowWithNames", "JSONStringsEachRow",
)  # fmt: skip
_BINARY = ("RowBinary", "RowBinaryWithNamesAndTypes", "Native", "Parquet", "Arrow", "ArrowStream")
_LETTERS = (
    "'", '"', "\\", "\\N", " ", "\t", ",", "0", "1", "-", ".", "e", "null", "NULL", "[", "]", "{", "}", "ü", ":",
)  # fmt: skip
_MOST_ROWS = 6


@dataclass(frozen=True)
class Case:
    """Columns of the table ``plain``, the rows, the format, and what is put at which places of its text."""

    columns: tuple[str, ...]
    rows: tuple[int, ...]
    format: str
    changes: tuple[tuple[float, str], ...]

    def __str__(self) -> str:
        return f"{self.source} FORMAT {self.format}, changed: {self.changes}"

    @property
    def source(self) -> str:
        ids = ", ".join(map(str, self.rows))
        return f"SELECT {', '.join(self.columns)} FROM plain WHERE id IN ({ids}) ORDER BY id"

    @property
    def table(self) -> str:
        columns = ", ".join(f"{name} {COLUMNS[name][0]}" for name in self.columns)
        return f"CREATE OR REPLACE TABLE target ({columns}) ENGINE = MergeTree ORDER BY tuple()"

    def changed(self, text: str) -> str:
        for share, letters in self.changes:
            place = round(share * len(text))
            text = text[:place] + letters + text[place + (len(letters) == 1) :]
        return text


def case_of(seed: int) -> Case:
    random = Random(seed)
    columns = tuple(random.sample(sorted(COLUMNS), random.randint(1, 4)))
    rows = tuple(sorted(random.sample(range(60), random.randint(1, _MOST_ROWS))))
    if random.random() < 0.4:
        return Case(columns, rows, random.choice((*_TEXTS, *_BINARY)), ())
    changes = tuple((random.random(), random.choice(_LETTERS)) for _ in range(random.choice((1, 1, 2))))
    return Case(columns, rows, random.choice(_TEXTS), changes)


def shown(seed: int) -> str:
    return str(case_of(seed))


@contextlib.contextmanager
def opened() -> Iterator[Callable[[int], str]]:
    with tempfile.TemporaryDirectory() as directory, contextlib.ExitStack() as stack:
        oracle = Oracle()
        stack.callback(oracle.close)
        engine = Engine(Config.local(Path(directory)))
        engine.start()
        stack.callback(engine.stop)
        for statement in statements()[:2]:
            oracle.query(statement)

        yield lambda seed: compare(oracle, engine, case_of(seed))


def compare(oracle: Oracle, engine: Engine, case: Case) -> str:
    """Raises ``AssertionError`` where the rows differ, or Pando takes what ClickHouse refuses."""
    body = oracle.query(case.source, case.format)
    if case.format in _TEXTS:  # JSON has no infinities: what is read may be other rows than those written
        text = case.changed(body.decode())
        if text.startswith("\n") or "\n\n" in text or not text.endswith(("\n", "]", "}", ")")):
            return "skipped: empty lines or an open end"
        if case.format == "CSVWithNames" and "t" in case.columns:
            return "skipped: a tuple in CSVWithNames"
        try:
            theirs, body = _inserted(oracle, case, text), text.encode()
        except RuntimeError:
            return "skipped: an Enum that is left out is 0 in ClickHouse, and has no name"
    else:
        theirs = oracle.query(case.source)
    ours = _inserted_here(engine, case, body)
    shown = f"{body[:500]!r}\nClickHouse {theirs!r:.500}\nPando {ours!r:.500}"
    if theirs is None:
        if case.format.startswith("CSV") and re.search(rb'[ \t]"', body) and not isinstance(ours, PandoError):
            return "skipped: a blank before the quote that ends a CSV field"
        assert isinstance(ours, PandoError), f"ClickHouse refuses:\n{shown}"
        return "refused by both"
    if case.changes and isinstance(ours, PandoError):
        return "refused by Pando alone"
    assert ours == theirs, shown
    return COMPARED


def _inserted(oracle: Oracle, case: Case, text: str) -> bytes | None:
    """What ClickHouse has after the INSERT; ``None``: it refuses. Raises ``RuntimeError`` for what it cannot show."""
    oracle.query(case.table)
    try:
        oracle.query(f"INSERT INTO target FORMAT {case.format}\n{text}")
    except (RuntimeError, UnicodeDecodeError):  # the second: its message ends within a letter
        return None
    return oracle.query("SELECT * FROM target")


def _inserted_here(engine: Engine, case: Case, body: bytes) -> bytes | PandoError:
    answer(engine, case.table)
    try:
        engine.execute(f"INSERT INTO target FORMAT {case.format}", Session(), io.BytesIO(body)).on_close()
    except PandoError as error:
        return error
    return answer(engine, "SELECT * FROM target")
