"""Writes the JSON formats.

A row is an object or, in the *Compact* formats, an array. In the *Strings* formats every value is its text as a string.
*WithProgress* wraps each row, and reports at the end what was read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from sql.formats.converters.text_rendering import render_plain
from sql.formats.format_options import FormatOptions
from sql.formats.json.text_rendering import json_string, quote_json, render_json
from sql.formats.text.small_results import MOST_JSON_ROWS, is_small_result, write_small_json
from sql.formats.text.text_writers import Batches, Columns, RunStatistics, join_row, slice_rows
from sql.grammar.text_escapes import concatenate_bytes

_NULL_TEXT = "ᴺᵁᴸᴸ"


@dataclass(frozen=True, slots=True)
class JsonLayout:
    """The layout of a JSON format. ``header`` is 0 for none, 1 for a row of names, 2 for types too."""

    compact: bool = False
    strings: bool = False
    header: int = 0
    progress: bool = False


def _render_columns(
    batch: pa.RecordBatch, columns: Columns, options: FormatOptions, shape: JsonLayout, indent: int | None = None
) -> list[pa.Array]:
    if not shape.strings:
        return [render_json(batch.column(i), type_, options, indent) for i, (_, type_) in enumerate(columns)]
    texts = [render_plain(batch.column(i), type_, options) for i, (_, type_) in enumerate(columns)]
    return [quote_json(pc.fill_null(text, _NULL_TEXT) if text.null_count else text, options) for text in texts]


def _render_small(
    batch: pa.RecordBatch, columns: Columns, options: FormatOptions, shape: JsonLayout
) -> list[list[str]] | None:
    if shape.strings or not is_small_result(batch, MOST_JSON_ROWS):
        return None
    texts = []
    for array, (_, type_) in zip(batch.columns, columns, strict=True):
        few = write_small_json(array, type_, options)
        if few is None:
            return None
        texts.append(few)
    return texts


def _join_small_lines(texts: list[list[str]], keys: list[str], shape: JsonLayout, before: str, after: str) -> bytes:
    rows = zip(*texts, strict=True)
    if shape.compact:
        return "".join([f"{before}[{', '.join(row)}]{after}" for row in rows]).encode()
    pairs = (",".join(map(str.__add__, keys, row)) for row in rows)
    return "".join([f"{before}{{{pair}}}{after}" for pair in pairs]).encode()


def write_json_rows(
    columns: Columns, batches: Batches, options: FormatOptions, statistics: RunStatistics | None, *, shape: JsonLayout
) -> Iterator[bytes]:
    """Yields JSONEachRow and its kin: a row a line."""
    if shape.progress:
        yield _meta_line(columns, options)
    for line in [[name for name, _ in columns], [str(type_) for _, type_ in columns]][: shape.header]:
        yield ("[" + ", ".join(json_string(text, options) for text in line) + "]\n").encode()
    before, after = ('{"row":', "}\n") if shape.progress else ("", "\n")
    keys = [json_string(name, options) + ":" for name, _ in columns]
    for batch in slice_rows(batches):
        options.status.check()
        few = _render_small(batch, columns, options, shape)
        if few is not None:
            yield _join_small_lines(few, keys, shape, before, after)
            continue
        texts = _render_columns(batch, columns, options, shape)
        if shape.compact:
            yield concatenate_bytes(join_row(before + "[", texts, ", ", "]" + after))
        else:
            pairs = [pc.binary_join_element_wise(key, text, "") for key, text in zip(keys, texts, strict=True)]
            yield concatenate_bytes(join_row(before + "{", pairs, ",", "}" + after))
    if shape.progress:
        yield _progress_line(statistics or RunStatistics())


def _meta_line(columns: Columns, options: FormatOptions) -> bytes:
    entries = (
        f'{{"name":{json_string(name, options)},"type":{json_string(str(type_), options)}}}' for name, type_ in columns
    )
    return f'{{"meta":[{",".join(entries)}]}}\n'.encode()


def _progress_line(statistics: RunStatistics) -> bytes:
    return (
        f'{{"progress":{{"read_rows":"{statistics.rows_read}","read_bytes":"{statistics.bytes_read}",'
        f'"total_rows_to_read":"{statistics.rows_read}",'
        f'"elapsed_ns":"{int(statistics.elapsed_seconds * 1e9)}"}}}}\n'
    ).encode()


def write_json(
    columns: Columns, batches: Batches, options: FormatOptions, statistics: RunStatistics | None, *, shape: JsonLayout
) -> Iterator[bytes]:
    """Yields JSON, JSONCompact and their kin: one document."""
    yield _json_meta(columns, options).encode()
    rows = 0
    render = _compact_rows if shape.compact else _object_rows
    for batch in slice_rows(batches):
        options.status.check()
        few = _render_small(batch, columns, options, shape)
        if few is not None:
            yield _join_small_objects(few, columns, options, shape)[0 if rows else 2 :].encode()
        else:
            yield concatenate_bytes(render(batch, columns, options, shape), skip=0 if rows else 2)
        rows += batch.num_rows
    yield _json_tail(rows, options, statistics).encode()


def _json_meta(columns: Columns, options: FormatOptions) -> str:
    entries = [
        f'\t\t{{\n\t\t\t"name": {json_string(name, options)},\n\t\t\t"type": {json_string(str(type_), options)}\n\t\t}}'
        for name, type_ in columns
    ]
    return '{\n\t"meta":\n\t[\n' + ",\n".join(entries) + '\n\t],\n\n\t"data":\n\t[\n'


def _object_rows(batch: pa.RecordBatch, columns: Columns, options: FormatOptions, shape: JsonLayout) -> pa.Array:
    texts = _render_columns(batch, columns, options, shape, 3)
    keys = ["\t\t\t" + json_string(name, options) + ": " for name, _ in columns]
    pairs = [pc.binary_join_element_wise(key, text, "") for key, text in zip(keys, texts, strict=True)]
    return join_row(",\n\t\t{\n", pairs, ",\n", "\n\t\t}")


def _join_small_objects(texts: list[list[str]], columns: Columns, options: FormatOptions, shape: JsonLayout) -> str:
    rows = zip(*texts, strict=True)
    if shape.compact:
        return "".join([f",\n\t\t[{', '.join(row)}]" for row in rows])
    keys = ["\t\t\t" + json_string(name, options) + ": " for name, _ in columns]
    return "".join([",\n\t\t{\n" + ",\n".join(map(str.__add__, keys, row)) + "\n\t\t}" for row in rows])


def _compact_rows(batch: pa.RecordBatch, columns: Columns, options: FormatOptions, shape: JsonLayout) -> pa.Array:
    return join_row(",\n\t\t[", _render_columns(batch, columns, options, shape), ", ", "]")


def _json_tail(rows: int, options: FormatOptions, statistics: RunStatistics | None) -> str:
    text = f'\n\t],\n\n\t"rows": {rows}'
    if statistics is not None and statistics.rows_before_limit is not None:
        text += f',\n\n\t"rows_before_limit_at_least": {statistics.rows_before_limit}'
    if options.write_statistics:
        known = statistics or RunStatistics()
        text += (
            f',\n\n\t"statistics":\n\t{{\n\t\t"elapsed": {known.elapsed_seconds:.9g},'
            f'\n\t\t"rows_read": {known.rows_read},'
            f'\n\t\t"bytes_read": {known.bytes_read}\n\t}}'
        )
    return text + "\n}\n"
