"""One call over the generated rows in both engines, and whether the answers are the same.

Answers are compared as columns: ClickHouse's come in Native, and are read with the reader of that format."""

from __future__ import annotations

import io
import re
import threading
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from parts.common.errors import PandoError
from parts.common.query_status import QueryStatus
from parts.table.table_description import Column, TableSchema
from parts.types import parse_type
from sql.compile.passes.pipeline import run_passes
from sql.formats.binary.native_reader import read_native
from sql.formats.format_options import FormatOptions
from sql.formats.registry import write_blocks
from sql.grammar.queries.query_parser import parse_query
from sql.run.query_engine import QueryEngine
from sql.settings.supported_settings import DEFAULT_SETTINGS
from tests.sql.functions import rows
from tests.sql.functions.values import first_difference, same
from tests.sql.run.dataset import MemoryCatalog, MemoryRelation

_CODE = re.compile(r"Code: (\d+)")
REFUSALS = (43, 46, 48, 386, 407)
"""Codes that say plainly that Pando does not do this: a wrong type, an unknown function, not implemented, no type that
holds both (Pando has no integers of 128 bits and no Variant), more digits than the Decimal's."""
_MOST_SECONDS = 20
_STOPPED = (159, 394)
_BLOCK_ROWS = 8192


@dataclass(frozen=True)
class Answer:
    """``type`` and ``values`` (``None``: Pando cannot hold them, as text that is not UTF-8), or ``code``."""

    type: str = ""
    values: pa.Array | None = None
    code: int = 0
    message: str = ""


@dataclass(frozen=True)
class Compared:
    """The verdict, Pando's message, and what a person needs to see of a difference."""

    verdict: str
    message: str = ""
    detail: str = ""


class Engines:
    """ClickHouse (chdb) and Pando with the same table ``t``. A call that takes longer than 20 seconds is stopped."""

    def __init__(self, directory: Path, count: int) -> None:
        from chdb import session

        self._session: Any = session.Session()
        for statement in ("DROP DATABASE IF EXISTS sweep", "CREATE DATABASE sweep", "USE sweep"):
            self._session.query(statement)  # all sessions of a process share one server
        schema = rows.schema()
        table = rows.table(count)
        self._load(schema, table, directory / "rows.native")
        self._pando = QueryEngine()
        self._catalog = MemoryCatalog({"t": MemoryRelation(schema, table)})
        self.zone = self._text("SELECT timezone()").strip()
        self._session.query(f"SET max_execution_time = {_MOST_SECONDS}")

    def _text(self, query: str) -> str:
        return bytes(self._session.query(query, "TabSeparated").bytes()).decode()

    def _load(self, schema: TableSchema, table: pa.Table, path: Path) -> None:
        """The same rows in the same order, in blocks so small that ClickHouse looks at the clock between them."""
        for setting in ("max_threads", "max_insert_threads", "min_insert_block_size_rows"):
            self._session.query(f"SET {setting} = 1")
        columns = [(column.name, column.type) for column in schema.columns]
        own = ", ".join(f"`{name}` {type_}" for name, type_ in columns)
        self._session.query(f"CREATE TABLE t ({own}) ENGINE = Memory")
        batches = table.combine_chunks().to_batches(max_chunksize=_BLOCK_ROWS)
        with path.open("wb") as file:
            file.writelines(write_blocks("Native", columns, iter(batches)))
        structure = own.replace("\\", "\\\\").replace("'", "\\'")
        self._session.query(f"INSERT INTO t SELECT * FROM file('{path}', Native, '{structure}')")

    def clickhouse(self, query: str) -> Answer:
        try:
            data = bytes(self._session.query(query, "Native").bytes())
            return self._answer(query, data)
        except Exception as error:
            self._session.query("SELECT 1")  # takes what the failed query had already written out of chdb's buffer
            found = _CODE.search(str(error))
            return Answer(code=int(found.group(1)) if found else -1, message=str(error)[:300])

    def _answer(self, query: str, data: bytes) -> Answer:
        """Native names no zone of a DateTime, and nothing at all without rows."""
        type_ = _native_type(data)
        if type_ in ("", "DateTime"):
            type_ = self._text(f"DESCRIBE ({query})").split("\t")[1].replace("\\'", "'")
        try:
            column = Column("r", parse_type(type_))
            blocks = [block.column(0) for block in read_native(io.BytesIO(data), [column], FormatOptions())]
            return Answer(type_, _array([chunk for block in blocks for chunk in block.chunks], column.type.arrow))
        except (PandoError, pa.ArrowException) as error:
            return Answer(type_, message=str(error))

    def compared(self, query: str, ulps: int = 0) -> Compared:
        theirs, ours = self.clickhouse(query), self.pando(query)
        found = verdict(theirs, ours, ulps)
        if found == "same" or (found == "differs" and theirs.values is None and self._same_texts(query)):
            return Compared("same")
        return Compared(found, ours.message, _detail(theirs, ours, ulps))

    def _same_texts(self, query: str) -> bool:
        """Whether TSV is the same: a date beyond its range is a number of its own, and printed as the last one."""
        result = self._pando.select(query, catalog=self._catalog, constants={"timezone": self.zone})
        ours = b"".join(write_blocks("TabSeparated", list(result.columns), result.batches))
        try:
            return bytes(self._session.query(query, "TabSeparated").bytes()) == ours
        except Exception:  # a number that its Enum has not
            self._session.query("SELECT 1")
            return False

    def pando(self, query: str) -> Answer:
        status = QueryStatus()
        timer = threading.Timer(_MOST_SECONDS, status.stop)
        timer.start()
        try:
            constants = {"timezone": self.zone}
            result = self._pando.select(query, catalog=self._catalog, constants=constants, status=status)
            ((_, type_),) = result.columns
            return Answer(str(type_), _array([batch.column(0) for batch in result.batches], type_.arrow))
        except PandoError as error:
            return Answer(code=error.code, message=str(error)[:300])
        except Exception as error:
            return Answer(code=1001, message=f"{type(error).__name__}: {error}"[:300])
        finally:
            timer.cancel()

    def is_computed_by_scan(self, query: str) -> bool:
        """Whether a part of it, in Pando (``sql.compile.scan_columns``)."""
        settings = replace(DEFAULT_SETTINGS, session_timezone=self.zone)
        try:
            plan = self._pando.plan(run_passes(parse_query(query), {}), self._catalog, settings, "default")
        except PandoError:
            return False
        return any(planned.scan.computed for planned in plan.scans)

    def close(self) -> None:
        self._session.close()


def _array(chunks: list[pa.Array], type_: pa.DataType) -> pa.Array:
    return pa.chunked_array(chunks, type_).combine_chunks() if chunks else pa.array([], type_)


def _native_type(data: bytes) -> str:
    """Of the first column: behind the numbers of columns and rows, and the name, whose length is one byte."""
    source = io.BytesIO(data)

    def number() -> int:
        value = shift = 0
        while True:
            (byte,) = source.read(1)
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    if not data:
        return ""
    number(), number()
    source.read(number())
    return source.read(number()).decode()


def verdict(theirs: Answer, ours: Answer, ulps: int = 0) -> str:
    """``same``; ``both fail``; ``slow`` (not compared); ``refused`` (Pando says it does not do this); else what is
    wrong."""
    if theirs.code in _STOPPED or ours.code in _STOPPED:
        return "slow"
    if theirs.code and ours.code:
        return "both fail" if ours.code != 1001 else "crash"
    if ours.code:
        return "refused" if ours.code in REFUSALS else f"fails with {ours.code}"
    if theirs.code:
        return f"answers where ClickHouse fails with {theirs.code}"
    if theirs.type != ours.type:
        return f"type {ours.type} instead of {theirs.type}"
    if theirs.values is not None and ours.values is not None and same(theirs.values, ours.values, ulps):
        return "same"
    return "differs"


def kind_of(verdict: str) -> str:
    """The verdict in one word: ``same`` (both failing counts as such), ``refused``, ``fails``, ``answers``, ``type``"""
    return "same" if verdict == "both fail" else verdict.split()[0]


def _detail(theirs: Answer, ours: Answer, ulps: int) -> str:
    if theirs.code or ours.code or theirs.values is None or ours.values is None:
        return ours.message or theirs.message
    if not theirs.values.type.equals(ours.values.type):
        return f"{theirs.type} / {ours.type}"
    return f"{theirs.type} / {ours.type} {first_difference(theirs.values, ours.values, ulps)}"
