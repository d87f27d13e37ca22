"""Writes RowBinary, RowBinaryWithNames and RowBinaryWithNamesAndTypes.

The values of a row follow each other:

======================  ==================================================
one width               the value (:mod:`fixed_width_values`)
String                  its length (a varint), its bytes
Nullable(T)             1 for null; else 0 and the value
Array(T), Map(K, V)     the number of elements (a varint), the elements;
                        for a map key and value in turn
Tuple(…)                its elements
LowCardinality(T)       as T
======================  ==================================================

A header may have the number of columns (a varint), their names, their types. Every column becomes a column of bytes,
and Arrow joins them row by row. Source: ClickHouse documentation, "RowBinary".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parts.types import ArrayType, DataType, LowCardinalityType, MapType, NullableType, StringType, TupleType
from sql.formats.converters.arrow_type_mapping import list_parts
from sql.formats.converters.fixed_width_values import to_bytes
from sql.formats.format_options import FormatOptions
from sql.formats.streams.varints import encode, encode_all
from sql.formats.text.text_writers import RunStatistics, slice_rows
from sql.grammar.text_escapes import concatenate_bytes

Columns = Sequence[tuple[str, DataType]]


def write_row_binary(
    columns: Columns,
    batches: Iterator[pa.RecordBatch],
    options: FormatOptions,
    statistics: RunStatistics | None,
    *,
    header: int,
) -> Iterator[bytes]:
    """Yields the batches as rows. ``header`` is 0 for none, 1 for names, 2 for names and types."""
    if header:
        texts = [name for name, _ in columns] + ([str(type_) for _, type_ in columns] if header > 1 else [])
        yield encode(len(columns)) + b"".join(encode(len(text.encode())) + text.encode() for text in texts)
    types = [type_ for _, type_ in columns]
    has_one_width = all(type_.memory_width_bytes is not None for type_ in types)
    for batch in slice_rows(batches):
        options.status.check()
        if has_one_width:
            yield np.hstack(
                [to_bytes(array, type_) for array, type_ in zip(batch.columns, types, strict=True)]
            ).tobytes()
        else:
            cells = [_encode_cells(array, type_) for array, type_ in zip(batch.columns, types, strict=True)]
            yield concatenate_bytes(pc.binary_join_element_wise(*cells, b""))


def _encode_cells(array: pa.Array, type_: DataType) -> pa.Array:
    """Returns the bytes of each value."""
    match type_:
        case NullableType(inner):
            given = pc.binary_join_element_wise(b"\0", _encode_cells(array, inner), b"")
            return pc.if_else(array.is_null(), b"\1", given) if array.null_count else given
        case LowCardinalityType(inner):
            return _encode_cells(array.dictionary_decode() if pa.types.is_dictionary(array.type) else array, inner)
        case StringType():
            texts = pc.cast(array.fill_null(""), pa.binary())
            return pc.binary_join_element_wise(_encode_counts(pc.binary_length(texts)), texts, b"")
        case ArrayType(inner):
            offsets, _, flat = list_parts(array)
            return _join_elements(offsets, _encode_cells(flat, inner))
        case MapType(key, value):
            offsets, _, flat = list_parts(array)
            pairs = pc.binary_join_element_wise(
                _encode_cells(flat.field(0), key), _encode_cells(flat.field(1), value), b""
            )
            return _join_elements(offsets, pairs)
        case TupleType(elements):
            children = [
                _encode_cells(child, inner) for child, (_, inner) in zip(array.flatten(), elements, strict=True)
            ]
            return pc.binary_join_element_wise(*children, b"") if children else pa.repeat(b"", len(array))
    matrix = np.ascontiguousarray(to_bytes(array, type_))
    offsets = np.arange(0, matrix.size + 1, matrix.shape[1], dtype=np.int32)
    return pa.Array.from_buffers(pa.binary(), len(array), [None, pa.py_buffer(offsets), pa.py_buffer(matrix)])


def _encode_counts(numbers: pa.Array) -> pa.Array:
    return encode_all(np.asarray(numbers).astype(np.int64))


def _join_elements(offsets: pa.Array, elements: pa.Array) -> pa.Array:
    """Returns, per row, the number of its elements and the elements."""
    lists = pa.ListArray.from_arrays(offsets, elements)
    bodies = pc.binary_join(lists, b"") if len(elements) else pa.array([b""] * len(lists), pa.binary())
    return pc.binary_join_element_wise(_encode_counts(lists.value_lengths()), bodies, b"")
