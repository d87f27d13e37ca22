"""Writes the text formats: columns are rendered as texts, and Arrow joins the rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from parts.types import (
    DataType,
    TupleType,
    strip_nullable,
)
from sql.formats.converters.scalars.all_formats import is_textual, scalar_format
from sql.formats.converters.text_rendering import render_plain, render_quoted
from sql.formats.format_options import FormatOptions
from sql.formats.text.small_results import MOST_TSV_ROWS, is_small_result, write_small_tsv
from sql.grammar.text_escapes import TSV_ESCAPES, concatenate_bytes, escape

Columns = Sequence[tuple[str, DataType]]
Batches = Iterator[pa.RecordBatch]
_SLICE_ROWS = 65536
_SLICE_BYTES = 64 << 20


@dataclass(slots=True)
class RunStatistics:
    """The statistics of the run that JSON formats show; read after the last row."""

    elapsed_seconds: float = 0.0
    rows_read: int = 0
    bytes_read: int = 0
    rows_before_limit: int | None = None


def slice_rows(batches: Batches) -> Iterator[pa.RecordBatch]:
    """Yields the rows in pieces whose text stays far below Arrow's 2 GiB for a string array."""
    for batch in batches:
        if not batch.num_rows:
            continue
        per_row = max(batch.nbytes // batch.num_rows, 1)
        step = max(1, min(_SLICE_ROWS, _SLICE_BYTES // per_row))
        for start in range(0, batch.num_rows, step):
            yield batch.slice(start, step)


def join_row(opener: str, texts: Sequence[pa.Array], separator: str, closer: str) -> pa.Array:
    """Joins each row's texts with marks around and between."""
    pieces: list[object] = [opener]
    for index, column in enumerate(texts):
        pieces += [separator, column] if index else [column]
    pieces.append(closer)
    return pc.binary_join_element_wise(*pieces, "")


def release_gradually(texts: list[pa.Array]) -> None:
    """Frees arrays one by one: tens of thousands at once would hold the interpreter."""
    while texts:
        texts.pop()


# TabSeparated and CSV -------------------------------------------------------------------------------------------------


def write_tsv(
    columns: Columns,
    batches: Batches,
    options: FormatOptions,
    statistics: RunStatistics | None,
    *,
    header: int,
    raw: bool = False,
) -> Iterator[bytes]:
    """Writes TabSeparated; ``header`` is 0 for none, 1 for names, 2 for types too."""

    def tidy(text: str) -> str:
        return text if raw else str(escape(pa.array([text], pa.string()), TSV_ESCAPES)[0].as_py())

    if header:
        yield ("\t".join(tidy(name) for name, _ in columns) + "\n").encode()
    if header > 1:
        yield ("\t".join(tidy(str(type_)) for _, type_ in columns) + "\n").encode()
    for batch in slice_rows(batches):
        if is_small_result(batch, MOST_TSV_ROWS):
            yield _render_small_lines(batch, columns, options, raw)
            continue
        texts = [render_tsv_fields(batch.column(i), type_, options, raw) for i, (_, type_) in enumerate(columns)]
        yield concatenate_bytes(join_row("", texts, "\t", "\n"))
        release_gradually(texts)


def _render_small_lines(batch: pa.RecordBatch, columns: Columns, options: FormatOptions, raw: bool) -> bytes:
    texts = []
    for array, (_, type_) in zip(batch.columns, columns, strict=True):
        few = write_small_tsv(array, type_, raw)
        if few is None:
            break
        texts.append(few)
    else:
        return "".join(["\t".join(row) + "\n" for row in zip(*texts, strict=True)]).encode()
    rendered = [render_tsv_fields(batch.column(i), type_, options, raw) for i, (_, type_) in enumerate(columns)]
    return concatenate_bytes(join_row("", rendered, "\t", "\n"))


def render_tsv_fields(array: pa.Array, type_: DataType, options: FormatOptions, raw: bool) -> pa.Array:
    """Renders a column's values as TabSeparated fields; ``raw`` does not escape."""
    texts = render_plain(array, type_, options)
    if not raw and is_textual(type_):
        texts = escape(texts, TSV_ESCAPES)
    return pc.fill_null(texts, "\\N") if texts.null_count else texts


def write_csv(
    columns: Columns, batches: Batches, options: FormatOptions, statistics: RunStatistics | None, *, header: int
) -> Iterator[bytes]:
    """Writes CSV. A tuple becomes its elements, each a column, as in ClickHouse."""
    separator = options.csv_delimiter
    original, columns = columns, flatten_tuple_columns(columns)
    lines = [[name for name, _ in columns], [str(type_) for _, type_ in columns]][:header]
    for line in lines:
        yield (separator.join('"' + text.replace('"', '""') + '"' for text in line) + "\n").encode()
    for batch in slice_rows(batches):
        arrays = flatten_tuple_arrays(
            [batch.column(i) for i in range(batch.num_columns)], [type_ for _, type_ in original]
        )
        texts = [_render_csv_fields(array, type_, options) for array, (_, type_) in zip(arrays, columns, strict=True)]
        yield concatenate_bytes(join_row("", texts, separator, "\n"))
        release_gradually(texts)


def flatten_tuple_columns(columns: Columns) -> list[tuple[str, DataType]]:
    """Replaces tuples by their elements, to any depth: ``t`` becomes ``t.1``, ``t.2`` or ``t.name``."""
    flat: list[tuple[str, DataType]] = []
    for name, type_ in columns:
        if not isinstance(type_, TupleType) or not type_.elements:
            flat.append((name, type_))
            continue
        inner = [(f"{name}.{label or i}", element) for i, (label, element) in enumerate(type_.elements, 1)]
        flat += flatten_tuple_columns(inner)
    return flat


def flatten_tuple_arrays(arrays: Sequence[pa.Array], types: Sequence[DataType]) -> list[pa.Array]:
    """Replaces tuples in the arrays as :func:`flatten_tuple_columns` does in the columns."""
    flat: list[pa.Array] = []
    for array, type_ in zip(arrays, types, strict=True):
        if isinstance(type_, TupleType) and type_.elements:
            flat += flatten_tuple_arrays(array.flatten(), [element for _, element in type_.elements])
        else:
            flat.append(array)
    return flat


def _render_csv_fields(array: pa.Array, type_: DataType, options: FormatOptions) -> pa.Array:
    kind = strip_nullable(type_)
    if isinstance(kind, TupleType):  # only the empty tuple is not flattened
        return pa.repeat("", len(array))
    texts = render_plain(array, type_, options)
    format_ = scalar_format(kind)
    if format_ is None or format_.needs_quotes:
        texts = pc.binary_join_element_wise('"', pc.replace_substring(texts, '"', '""'), '"', "")
    return pc.fill_null(texts, "\\N") if texts.null_count else texts


# Values ---------------------------------------------------------------------------------------------------------------


def write_values(
    columns: Columns, batches: Batches, options: FormatOptions, statistics: RunStatistics | None
) -> Iterator[bytes]:
    """Writes VALUES: rows in brackets."""
    first = True
    for batch in slice_rows(batches):
        texts = [render_quoted(batch.column(i), type_, options) for i, (_, type_) in enumerate(columns)]
        yield concatenate_bytes(join_row(",(", texts, ",", ")"), skip=int(first))
        release_gradually(texts)
        first = False


def write_null(
    columns: Columns, batches: Batches, options: FormatOptions, statistics: RunStatistics | None
) -> Iterator[bytes]:
    """Reads all rows and writes nothing."""
    for _ in batches:
        pass
    yield b""
