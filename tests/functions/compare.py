"""One call over the generated rows in both engines, and whether the answers are the same."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from parts.errors import PandoError
from parts.schema import TableSchema
from parts.types import DataType, DateTime64Type, DateTimeType
from sql.executor import QueryEngine
from sql.formats import write_blocks
from tests.functions import rows
from tests.sql_select.dataset import MemoryCatalog, MemoryRelation

_CODE = re.compile(r"Code: (\d+)")
_FLOAT_TYPE = re.compile(r"^(?:Nullable\()?Float(32|64)\)?$")
REFUSALS = (43, 46, 48, 386, 407)
"""Codes that say plainly that Pando does not do this: a wrong type, an unknown function, not implemented, no type that
holds both (Pando has no integers of 128 bits and no Variant), more digits than the Decimal's."""


@dataclass(frozen=True)
class Answer:
    """``type`` and ``lines`` (a value a line, as TSV), or ``code`` with ``message``."""

    type: str = ""
    lines: bytes = b""
    code: int = 0
    message: str = ""


class Engines:
    """ClickHouse (chdb) and Pando with the same table ``t``."""

    def __init__(self, directory: Path, count: int) -> None:
        from chdb import session

        self._session: Any = session.Session()
        schema = rows.schema()
        table = rows.table(count)
        self._load(schema, table, directory / "rows.tsv")
        self._pando = QueryEngine()
        self._catalog = MemoryCatalog({"t": MemoryRelation(schema, table)})
        self.zone = bytes(self._session.query("SELECT timezone()", "TabSeparated").bytes()).decode().strip()

    def _load(self, schema: TableSchema, table: pa.Table, path: Path) -> None:
        """The same rows in the same order; instants go over in UTC, so that no zone's rules are asked."""
        for setting in ("max_threads", "max_insert_threads"):
            self._session.query(f"SET {setting} = 1")
        own = ", ".join(f"`{column.name}` {column.type}" for column in schema.columns)
        self._session.query(f"CREATE TABLE t ({own}) ENGINE = Memory")
        columns = [(column.name, _in_utc(column.type)) for column in schema.columns]
        path.write_bytes(b"".join(write_blocks("TabSeparated", columns, iter(table.to_batches()))))
        structure = ", ".join(f"`{name}` {type_}" for name, type_ in columns).replace("\\", "\\\\").replace("'", "\\'")
        self._session.query(
            f"INSERT INTO t SELECT * FROM file('{path}', TabSeparated, '{structure}') "
            "SETTINGS input_format_parallel_parsing = 0"
        )

    def clickhouse(self, query: str) -> Answer:
        try:
            answer = bytes(self._session.query(query, "TabSeparatedWithNamesAndTypes").bytes())
        except Exception as error:
            self._session.query("SELECT 1")  # takes what the failed query had already written out of chdb's buffer
            found = _CODE.search(str(error))
            return Answer(code=int(found.group(1)) if found else -1, message=str(error)[:300])
        return _answer(answer)

    def pando(self, query: str) -> Answer:
        try:
            result = self._pando.select(query, catalog=self._catalog, constants={"timezone": self.zone})
            answer = b"".join(write_blocks("TabSeparatedWithNamesAndTypes", list(result.columns), result.batches))
        except PandoError as error:
            return Answer(code=error.code, message=str(error)[:300])
        except Exception as error:
            return Answer(code=1001, message=f"{type(error).__name__}: {error}"[:300])
        return _answer(answer)

    def close(self) -> None:
        self._session.close()


def _in_utc(type_: DataType) -> DataType:
    if isinstance(type_, DateTimeType):
        return DateTimeType("UTC")
    return DateTime64Type(type_.precision, "UTC") if isinstance(type_, DateTime64Type) else type_


def _answer(data: bytes) -> Answer:
    _, type_, lines = data.split(b"\n", 2)
    return Answer(type_.decode(), lines)


def verdict(theirs: Answer, ours: Answer, ulps: int = 0) -> str:
    """``same``; ``both fail``; ``refused`` (Pando says it does not do this); else what is wrong."""
    if theirs.code and ours.code:
        return "both fail" if ours.code != 1001 else "crash"
    if ours.code:
        return "refused" if ours.code in REFUSALS else f"fails with {ours.code}"
    if theirs.code:
        return f"answers where ClickHouse fails with {theirs.code}"
    if theirs.type != ours.type:
        return f"type {ours.type} instead of {theirs.type}"
    if theirs.lines == ours.lines or _near(theirs, ours, ulps):
        return "same"
    return "differs"


def kind_of(verdict: str) -> str:
    """The verdict in one word: ``same`` (both failing counts as such), ``refused``, ``fails``, ``answers``, ``type``"""
    return "same" if verdict == "both fail" else verdict.split()[0]


def _near(theirs: Answer, ours: Answer, ulps: int) -> bool:
    match = _FLOAT_TYPE.match(theirs.type)
    if match is None:
        return False
    mine, other = (answer.lines.replace(b"\\N", b"nan").split(b"\n")[:-1] for answer in (theirs, ours))
    kind = np.float32 if match.group(1) == "32" else np.float64
    if len(mine) != len(other):
        return False
    a, b = np.array(mine, kind), np.array(other, kind)
    same = (a == b) & (np.signbit(a) == np.signbit(b)) | (np.isnan(a) & np.isnan(b))
    with np.errstate(all="ignore"):
        return bool(np.all(same | (np.abs(a - b) <= ulps * np.spacing(np.maximum(np.abs(a), np.abs(b))))))


def first_difference(theirs: Answer, ours: Answer) -> tuple[int, bytes, bytes, int]:
    """(row, ClickHouse's value, Pando's, how many rows differ)."""
    pairs = list(zip(theirs.lines.split(b"\n"), ours.lines.split(b"\n"), strict=False))
    wrong = [i for i, (a, b) in enumerate(pairs) if a != b]
    if not wrong:
        return -1, b"", b"", abs(theirs.lines.count(b"\n") - ours.lines.count(b"\n"))
    return wrong[0], *pairs[wrong[0]], len(wrong)
