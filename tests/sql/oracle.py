"""Asks chdb (ClickHouse in a wheel) and Pando's formats for the same thing."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from parts.table.table_description import Column
from parts.types import parse_type
from sql.formats.registry import read_blocks, write_blocks
from sql.settings.session_settings import (
    make_settings,
)


def read(data: bytes, columns: Sequence[Column], format: str, **settings: object) -> pa.Table:
    blocks = list(read_blocks(format, io.BytesIO(data), columns, settings=make_settings(settings)))
    return pa.concat_tables(blocks) if blocks else pa.table({c.name: pa.array([], c.type.arrow) for c in columns})


def write(table: pa.Table, columns: Sequence[Column], format: str, **settings: object) -> bytes:
    batches: Iterator[pa.RecordBatch] = iter(table.to_batches(max_chunksize=1000))
    return b"".join(
        write_blocks(format, [(c.name, c.type) for c in columns], batches, settings=make_settings(settings))
    )


def columns_of(types: dict[str, str]) -> list[Column]:
    return [Column(name, parse_type(text)) for name, text in types.items()]


class Oracle:
    def __init__(self) -> None:
        from chdb import session

        self._session = session.Session()

    def query(self, sql: str, format: str = "TSV", **settings: object) -> bytes:
        tail = " SETTINGS " + ", ".join(f"{name} = {value}" for name, value in settings.items()) if settings else ""
        return bytes(self._session.query(sql + tail, format).bytes())

    def both(self, sql: str, format: str, **settings: object) -> tuple[bytes, bytes]:
        """(Pando's, ClickHouse's) text of the query's answer; the data goes to Pando as TabSeparated."""
        data = self.query(sql, "TSVWithNamesAndTypes")
        names, types, rows = data.split(b"\n", 2)
        cells: list[Any] = [
            line.decode().replace("\\'", "'").replace("\\n", "\n").split("\t") for line in (names, types)
        ]
        columns = columns_of(dict(zip(*cells, strict=True)))
        ours = write(read(rows, columns, "TSV"), columns, format, **settings)
        return without_statistics(ours), without_statistics(self.query(sql, format, **settings))

    def close(self) -> None:
        self._session.close()


def without_statistics(text: bytes) -> bytes:
    """The JSON formats tell times, which differ."""
    return re.sub(rb'\{"progress":.*\n', b"", text.split(b'"statistics"')[0])
