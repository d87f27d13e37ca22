"""The table of all formats, with a reader and a writer for each.

Blocks that are read have storage types (``parts.types``). Where a column is not Nullable, a null means that the row
takes the column's default; a column that the data lack altogether is missing from the block.
``sql.definitions.column_defaults`` completes blocks.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, BinaryIO, cast

import pyarrow as pa

from parts.common.errors import UserError
from parts.common.query_status import QueryStatus
from parts.table.table_description import Column
from parts.types import DataType
from sql.formats import small_inserts
from sql.formats.binary.native_reader import read_native
from sql.formats.binary.native_writer import write_native
from sql.formats.binary.row_binary_reader import read_row_binary
from sql.formats.binary.row_binary_writer import write_row_binary
from sql.formats.columnar import arrow_and_parquet
from sql.formats.columnar.ipc_messages import read_up_to
from sql.formats.format_options import FormatOptions
from sql.formats.json import object_reader
from sql.formats.json.compact_reader import read_json_compact, read_json_strings
from sql.formats.json.writers import JsonLayout, write_json, write_json_rows
from sql.formats.pretty import pretty
from sql.formats.streams.row_chunks import PrependedStream, resize_blocks
from sql.formats.text import line_formats, text_writers, values_reader
from sql.formats.text.delimited_reader import read_delimited
from sql.formats.text.text_writers import RunStatistics
from sql.settings.session_settings import (
    suggest_names,
)
from sql.settings.supported_settings import (
    DEFAULT_SETTINGS,
    Settings,
)

SmallReader = Callable[[bytes, Sequence[Column], FormatOptions], pa.Table | None]
Reader = Callable[[BinaryIO, Sequence[Column], FormatOptions], Iterator[pa.Table]]
Writer = Callable[
    [Sequence[tuple[str, DataType]], Iterator[pa.RecordBatch], FormatOptions, "RunStatistics | None"], Iterator[bytes]
]


@dataclass(frozen=True, slots=True)
class Format:
    """A format's names, reader and writer."""

    name: str
    content_type: str
    reader: Reader | None = None
    writer: Writer | None = None
    small_reader: SmallReader | None = None
    """A cheap reader of a few plain rows."""


def _delimited(csv_rules: bool, names: bool = False, types: bool = False) -> Reader:
    def read(stream: BinaryIO, columns: Sequence[Column], options: FormatOptions) -> Iterator[pa.Table]:
        return read_delimited(stream, columns, options, csv_rules=csv_rules, names=names, types=types)

    return read


def _arrow_writer(kind: str) -> Writer:
    def write(
        columns: Sequence[tuple[str, DataType]],
        batches: Iterator[pa.RecordBatch],
        options: FormatOptions,
        statistics: RunStatistics | None,
    ) -> Iterator[bytes]:
        return arrow_and_parquet.write_arrow_or_parquet(kind, columns, batches, options)

    return write


def _json_rows(**shape: Any) -> Writer:
    return partial(write_json_rows, shape=JsonLayout(**shape))


_NDJSON = "application/x-ndjson; charset=UTF-8"
_TSV = "text/tab-separated-values; charset=UTF-8"
_CSV = "text/csv; charset=UTF-8; header="
_JSON = "application/json; charset=UTF-8"
_TEXT = "text/plain; charset=UTF-8"
_ARROW = "application/vnd.apache.arrow."

_TABLE = [
    Format(
        "TabSeparated",
        _TSV,
        _delimited(False),
        partial(text_writers.write_tsv, header=0),
        small_inserts.parse_small_tsv,
    ),
    Format("TabSeparatedWithNames", _TSV, _delimited(False, True), partial(text_writers.write_tsv, header=1)),
    Format(
        "TabSeparatedWithNamesAndTypes", _TSV, _delimited(False, True, True), partial(text_writers.write_tsv, header=2)
    ),
    *(
        Format(f"TabSeparatedRaw{kind}", _TSV, None, partial(text_writers.write_tsv, header=header, raw=True))
        for header, kind in enumerate(("", "WithNames", "WithNamesAndTypes"))
    ),
    Format("CSV", _CSV + "absent", _delimited(True), partial(text_writers.write_csv, header=0)),
    Format("CSVWithNames", _CSV + "present", _delimited(True, True), partial(text_writers.write_csv, header=1)),
    Format(
        "CSVWithNamesAndTypes",
        _CSV + "present",
        _delimited(True, True, True),
        partial(text_writers.write_csv, header=2),
    ),
    Format("Values", _TEXT, values_reader.read_values, text_writers.write_values, values_reader.parse_few_values),
    Format("JSONEachRow", _NDJSON, object_reader.read_json_each_row, _json_rows(), small_inserts.parse_small_json_rows),
    Format("JSONStringsEachRow", _NDJSON, read_json_strings, _json_rows(strings=True)),
    *(
        Format(
            f"JSONCompact{'Strings' if strings else ''}EachRow{kind}",
            _NDJSON,
            partial(read_json_compact, header=header, strings=strings),
            _json_rows(compact=True, strings=strings, header=header),
        )
        for strings in (False, True)
        for header, kind in enumerate(("", "WithNames", "WithNamesAndTypes"))
    ),
    *(
        Format(
            f"JSON{'Compact' if compact else ''}{'Strings' if strings else ''}EachRowWithProgress",
            _NDJSON,
            None,
            _json_rows(compact=compact, strings=strings, progress=True),
        )
        for compact in (False, True)
        for strings in (False, True)
    ),
    *(
        Format(
            f"JSON{'Compact' if compact else ''}{'Strings' if strings else ''}",
            _JSON,
            None,
            partial(write_json, shape=JsonLayout(compact=compact, strings=strings)),
        )
        for compact in (False, True)
        for strings in (False, True)
    ),
    *(
        Format(f"{style}{kind}", _TEXT, None, partial(pretty.write_pretty, style=style, is_plain="NoEscapes" in kind))
        for style in ("Pretty", "PrettyCompact", "PrettySpace")
        for kind in ("", "NoEscapes", "MonoBlock", "NoEscapesMonoBlock")
    ),
    Format("Vertical", _TEXT, None, pretty.write_vertical),
    Format("Markdown", "text/markdown; charset=UTF-8", None, line_formats.write_markdown),
    Format("TSKV", _TEXT, None, line_formats.write_tskv),
    Format("LineAsString", _TEXT, line_formats.read_lines, partial(text_writers.write_tsv, header=0, raw=True)),
    Format("RawBLOB", _TEXT, line_formats.read_raw_blob, line_formats.write_raw_blob),
    Format("Null", _TEXT, None, text_writers.write_null),
    Format("Native", "application/octet-stream", read_native, write_native),
    *(
        Format(
            f"RowBinary{kind}",
            "application/octet-stream",
            partial(read_row_binary, header=header),
            partial(write_row_binary, header=header),
            None if header else small_inserts.parse_small_row_binary,
        )
        for header, kind in enumerate(("", "WithNames", "WithNamesAndTypes"))
    ),
    Format("Parquet", "application/octet-stream", arrow_and_parquet.read_parquet, _arrow_writer("Parquet")),
    Format("Arrow", _ARROW + "file", arrow_and_parquet.read_arrow, _arrow_writer("Arrow")),
    Format("ArrowStream", _ARROW + "stream", arrow_and_parquet.read_arrow_stream, _arrow_writer("ArrowStream")),
]
FORMAT_ALIASES = {
    "TSV": "TabSeparated",
    "TSVWithNames": "TabSeparatedWithNames",
    "TSVWithNamesAndTypes": "TabSeparatedWithNamesAndTypes",
    "TSVRaw": "TabSeparatedRaw",
    "Raw": "TabSeparatedRaw",
    "JSONLines": "JSONEachRow",
    "NDJSON": "JSONEachRow",
    "JSONL": "JSONEachRow",
    "MD": "Markdown",
    "TSVRawWithNames": "TabSeparatedRawWithNames",
    "TSVRawWithNamesAndTypes": "TabSeparatedRawWithNamesAndTypes",
    "RawWithNames": "TabSeparatedRawWithNames",
    "RawWithNamesAndTypes": "TabSeparatedRawWithNamesAndTypes",
}
FORMATS: dict[str, Format] = {entry.name: entry for entry in _TABLE}
_BY_LOWER = {name.lower(): entry for name, entry in FORMATS.items()} | {
    alias.lower(): FORMATS[name] for alias, name in FORMAT_ALIASES.items()
}


def find_format(name: str) -> Format:
    """Returns the format of that name, an alias, or either in any case, as in ClickHouse.

    Raises 73 (UNKNOWN_FORMAT).
    """
    entry = _BY_LOWER.get(name.lower())
    if entry is None:
        near = suggest_names(name, [*FORMATS, *FORMAT_ALIASES])
        raise UserError("UNKNOWN_FORMAT", f"Unknown format {name}{near}. The formats are: {', '.join(sorted(FORMATS))}")
    return entry


def content_type(name: str) -> str:
    """Returns the Content-Type header of an answer in the format."""
    return find_format(name).content_type


def read_blocks(
    format: str,
    stream: BinaryIO,
    columns: Sequence[Column],
    *,
    settings: Settings = DEFAULT_SETTINGS,
    max_block_rows: int = 1_048_576,
    max_block_bytes: int = 0,
    status: QueryStatus | None = None,
) -> Iterator[pa.Table]:
    """Yields blocks of the data's rows, with those of ``columns`` that the data have.

    Raises ``UserError`` naming row (from 1) and column of a bad value: 27, 6, 72, 38, 41 …; 321 out of range; 117 not
    UTF-8. Also raises what ``status`` raises when the statement must end (394, 159) or takes too much memory (241).
    """
    entry = find_format(format)
    if entry.reader is None:
        raise UserError("UNKNOWN_FORMAT", f"Format {entry.name} is only for output")
    options = FormatOptions.of(settings, status)
    if entry.small_reader is None:
        return resize_blocks(entry.reader(stream, columns, options), max_block_rows, max_block_bytes)
    return _read_small_or_all(entry, stream, columns, options, max_block_rows, max_block_bytes)


def _read_small_or_all(
    entry: Format, stream: BinaryIO, columns: Sequence[Column], options: FormatOptions, most_rows: int, most_bytes: int
) -> Iterator[pa.Table]:
    assert entry.small_reader is not None
    assert entry.reader is not None
    options.status.check()
    first = bytes(read_up_to(stream, small_inserts.MAX_SMALL_INSERT_BYTES + 1))
    is_all = len(first) <= small_inserts.MAX_SMALL_INSERT_BYTES
    table = entry.small_reader(first, columns, options) if is_all else None
    if table is not None and table.num_rows <= most_rows:
        yield table
        return
    whole = cast(BinaryIO, io.BytesIO(first) if is_all else PrependedStream(first, stream))
    yield from resize_blocks(entry.reader(whole, columns, options), most_rows, most_bytes)


def write_blocks(
    format: str,
    columns: Sequence[tuple[str, DataType]],
    batches: Iterator[pa.RecordBatch],
    *,
    settings: Settings = DEFAULT_SETTINGS,
    statistics: RunStatistics | None = None,
    status: QueryStatus | None = None,
    client_protocol_version: int = 0,
) -> Iterator[bytes]:
    """Yields the rows in the format, piece by piece, as they arrive. Raises what ``status`` raises."""
    entry = find_format(format)
    if entry.writer is None:
        raise UserError("UNKNOWN_FORMAT", f"Format {entry.name} is only for input")
    options = replace(FormatOptions.of(settings, status), client_protocol_version=client_protocol_version)
    return entry.writer(columns, batches, options, statistics)
