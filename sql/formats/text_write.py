"""Writing the text formats: columns are rendered as texts, Arrow joins the rows, and their bytes leave as they are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from parts.types import (
    BoolType,
    DataType,
    DecimalType,
    EnumType,
    FixedStringType,
    FloatType,
    IntegerType,
    NothingType,
    StringType,
    TupleType,
    strip_nullable,
)
from sql.formats.escapes import TSV_ESCAPES, escape, raw_bytes
from sql.formats.options import FormatOptions
from sql.formats.render import render_plain, render_quoted
from sql.formats.render_json import json_string, render_json

Columns = Sequence[tuple[str, DataType]]
Batches = Iterator[pa.RecordBatch]
_SLICE_ROWS = 65536
_SLICE_BYTES = 64 << 20
_PLAIN_IN_CSV = (IntegerType, FloatType, DecimalType, BoolType, NothingType)


@dataclass(slots=True)
class Statistics:
    """What the JSON formats tell about the run; read when the last row has been written."""

    elapsed_seconds: float = 0.0
    rows_read: int = 0
    bytes_read: int = 0
    rows_before_limit: int | None = None


def slices(batches: Batches) -> Iterator[pa.RecordBatch]:
    """The rows in pieces whose text stays far below the 2 GiB that an Arrow string array holds."""
    for batch in batches:
        if not batch.num_rows:
            continue
        per_row = max(batch.nbytes // batch.num_rows, 1)
        step = max(1, min(_SLICE_ROWS, _SLICE_BYTES // per_row))
        for start in range(0, batch.num_rows, step):
            yield batch.slice(start, step)


def join_row(opener: str, texts: Sequence[pa.Array], separator: str, closer: str) -> pa.Array:
    """Each row's texts with marks around and between."""
    pieces: list[object] = [opener]
    for index, column in enumerate(texts):
        pieces += [separator, column] if index else [column]
    pieces.append(closer)
    return pc.binary_join_element_wise(*pieces, "")


# TabSeparated and CSV -------------------------------------------------------------------------------------------------


def write_tsv(
    columns: Columns,
    batches: Batches,
    options: FormatOptions,
    statistics: Statistics | None,
    *,
    header: int,
    raw: bool = False,
) -> Iterator[bytes]:
    def tidy(text: str) -> str:
        return text if raw else str(escape(pa.array([text], pa.string()), TSV_ESCAPES)[0].as_py())

    if header:
        yield ("\t".join(tidy(name) for name, _ in columns) + "\n").encode()
    if header > 1:
        yield ("\t".join(tidy(str(type_)) for _, type_ in columns) + "\n").encode()
    for batch in slices(batches):
        texts = [_tsv_texts(batch.column(i), type_, options, raw) for i, (_, type_) in enumerate(columns)]
        yield raw_bytes(join_row("", texts, "\t", "\n"))


def _tsv_texts(array: pa.Array, type_: DataType, options: FormatOptions, raw: bool) -> pa.Array:
    texts = render_plain(array, type_, options)
    if not raw and isinstance(strip_nullable(type_), (StringType, FixedStringType, EnumType)):
        texts = escape(texts, TSV_ESCAPES)
    return pc.fill_null(texts, "\\N") if texts.null_count else texts


def write_csv(
    columns: Columns, batches: Batches, options: FormatOptions, statistics: Statistics | None, *, header: int
) -> Iterator[bytes]:
    """A tuple is written as its elements, each a column of its own, as ClickHouse does."""
    separator = options.csv_delimiter
    original, columns = columns, flat_columns(columns)
    lines = [[name for name, _ in columns], [str(type_) for _, type_ in columns]][:header]
    for line in lines:
        yield (separator.join('"' + text.replace('"', '""') + '"' for text in line) + "\n").encode()
    for batch in slices(batches):
        arrays = flat_arrays([batch.column(i) for i in range(batch.num_columns)], [type_ for _, type_ in original])
        texts = [_csv_texts(array, type_, options) for array, (_, type_) in zip(arrays, columns, strict=True)]
        yield raw_bytes(join_row("", texts, separator, "\n"))


def flat_columns(columns: Columns) -> list[tuple[str, DataType]]:
    """Tuples replaced by their elements, to any depth: ``t`` becomes ``t.1``, ``t.2`` or ``t.name``."""
    flat: list[tuple[str, DataType]] = []
    for name, type_ in columns:
        if not isinstance(type_, TupleType):
            flat.append((name, type_))
            continue
        inner = [(f"{name}.{label or i}", element) for i, (label, element) in enumerate(type_.elements, 1)]
        flat += flat_columns(inner)
    return flat


def flat_arrays(arrays: Sequence[pa.Array], types: Sequence[DataType]) -> list[pa.Array]:
    flat: list[pa.Array] = []
    for array, type_ in zip(arrays, types, strict=True):
        if isinstance(type_, TupleType):
            flat += flat_arrays(array.flatten(), [element for _, element in type_.elements])
        else:
            flat.append(array)
    return flat


def _csv_texts(array: pa.Array, type_: DataType, options: FormatOptions) -> pa.Array:
    kind = strip_nullable(type_)
    texts = render_plain(array, type_, options)
    if not isinstance(kind, _PLAIN_IN_CSV):
        texts = pc.binary_join_element_wise('"', pc.replace_substring(texts, '"', '""'), '"', "")
    return pc.fill_null(texts, "\\N") if texts.null_count else texts


# Values ---------------------------------------------------------------------------------------------------------------


def write_values(
    columns: Columns, batches: Batches, options: FormatOptions, statistics: Statistics | None
) -> Iterator[bytes]:
    first = True
    for batch in slices(batches):
        texts = [render_quoted(batch.column(i), type_, options) for i, (_, type_) in enumerate(columns)]
        rows = raw_bytes(join_row(",(", texts, ",", ")"))
        yield rows[1:] if first else rows
        first = False


def write_null(
    columns: Columns, batches: Batches, options: FormatOptions, statistics: Statistics | None
) -> Iterator[bytes]:
    for _ in batches:
        pass
    yield b""


# JSON -----------------------------------------------------------------------------------------------------------------


def _json_columns(
    batch: pa.RecordBatch, columns: Columns, options: FormatOptions, indent: int | None
) -> list[pa.Array]:
    return [render_json(batch.column(i), type_, options, indent) for i, (_, type_) in enumerate(columns)]


def write_json_each_row(
    columns: Columns, batches: Batches, options: FormatOptions, statistics: Statistics | None
) -> Iterator[bytes]:
    keys = [json_string(name, options) + ":" for name, _ in columns]
    for batch in slices(batches):
        texts = _json_columns(batch, columns, options, None)
        pairs = [pc.binary_join_element_wise(key, text, "") for key, text in zip(keys, texts, strict=True)]
        yield raw_bytes(join_row("{", pairs, ",", "}\n"))


def write_json_compact_each_row(
    columns: Columns, batches: Batches, options: FormatOptions, statistics: Statistics | None
) -> Iterator[bytes]:
    for batch in slices(batches):
        yield raw_bytes(join_row("[", _json_columns(batch, columns, options, None), ", ", "]\n"))


def write_json(
    columns: Columns, batches: Batches, options: FormatOptions, statistics: Statistics | None, *, compact: bool
) -> Iterator[bytes]:
    yield _json_meta(columns, options).encode()
    rows = 0
    render = _compact_rows if compact else _object_rows
    for batch in slices(batches):
        texts = raw_bytes(render(batch, columns, options))
        yield texts[2:] if rows == 0 else texts
        rows += batch.num_rows
    yield _json_tail(rows, options, statistics).encode()


def _json_meta(columns: Columns, options: FormatOptions) -> str:
    entries = [
        f'\t\t{{\n\t\t\t"name": {json_string(name, options)},\n\t\t\t"type": {json_string(str(type_), options)}\n\t\t}}'
        for name, type_ in columns
    ]
    return '{\n\t"meta":\n\t[\n' + ",\n".join(entries) + '\n\t],\n\n\t"data":\n\t[\n'


def _object_rows(batch: pa.RecordBatch, columns: Columns, options: FormatOptions) -> pa.Array:
    texts = _json_columns(batch, columns, options, 3)
    keys = ["\t\t\t" + json_string(name, options) + ": " for name, _ in columns]
    pairs = [pc.binary_join_element_wise(key, text, "") for key, text in zip(keys, texts, strict=True)]
    return join_row(",\n\t\t{\n", pairs, ",\n", "\n\t\t}")


def _compact_rows(batch: pa.RecordBatch, columns: Columns, options: FormatOptions) -> pa.Array:
    return join_row(",\n\t\t[", _json_columns(batch, columns, options, None), ", ", "]")


def _json_tail(rows: int, options: FormatOptions, statistics: Statistics | None) -> str:
    text = f'\n\t],\n\n\t"rows": {rows}'
    if statistics is not None and statistics.rows_before_limit is not None:
        text += f',\n\n\t"rows_before_limit_at_least": {statistics.rows_before_limit}'
    if options.write_statistics:
        known = statistics or Statistics()
        text += (
            f',\n\n\t"statistics":\n\t{{\n\t\t"elapsed": {known.elapsed_seconds:.9g},'
            f'\n\t\t"rows_read": {known.rows_read},'
            f'\n\t\t"bytes_read": {known.bytes_read}\n\t}}'
        )
    return text + "\n}\n"
