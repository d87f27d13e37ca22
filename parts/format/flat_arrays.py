"""Arrow arrays as flat lists of buffers in one canonical form, and back.

Canonical means that equal values give equal bytes, whatever slicing, null slots or dictionary order the array has. So
two replicas that merge the same rows write the same files. The type tree is walked in pre-order. Each node is
``(length, null count)`` followed by its buffers:

=====================  ==================================================================
every node             validity bits (LSB first), absent when nothing is null;
bool                   value bits;
fixed width            values; zero where null;
string                 lengths (uint32), bytes;
fixed_size_binary      bytes;
list, map              lengths (uint32), then the child nodes;
struct                 the child nodes;
dictionary             indices (int32) into a dictionary in order of first use, then the dictionary node.
=====================  ==================================================================

Lengths are stored instead of Arrow's offsets because they narrow to a byte or two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from parts.common.errors import UserError
from parts.format.codecs import BufferKind

_BITS = BufferKind()
_LENGTHS = BufferKind(2, "unsigned")
_INDICES = BufferKind(2, "unsigned")
_TEXT = BufferKind()


@dataclass(slots=True)
class FlatArray:
    """Nodes and buffers of one array in pre-order. An absent validity buffer is ``None``."""

    nodes: list[tuple[int, int]] = field(default_factory=list)
    buffers: list[tuple[pa.Buffer | None, BufferKind]] = field(default_factory=list)


def flatten_array(array: pa.Array) -> FlatArray:
    """Returns the canonical nodes and buffers of ``array``."""
    flat = FlatArray()
    _flatten(array, flat)
    return flat


def _flatten(array: pa.Array, flat: FlatArray) -> None:
    type_ = array.type
    if pt.is_dictionary(type_) and array.dictionary.null_count:  # nulls must be in the indices
        array = array.cast(type_.value_type).dictionary_encode()
    nulls = array.null_count
    flat.nodes.append((len(array), nulls))
    flat.buffers.append((_pack_bits(array.is_valid()) if nulls else None, _BITS))
    if pt.is_dictionary(type_):
        indices, dictionary = make_canonical_dictionary(array)
        flat.buffers.append((pa.py_buffer(indices), _INDICES))
        _flatten(dictionary, flat)
    elif pt.is_struct(type_):
        for position in range(type_.num_fields):
            _flatten(array.field(position), flat)
    elif pt.is_list(type_) or pt.is_map(type_):
        lengths, first, last = _lengths(array, nulls)
        flat.buffers.append((pa.py_buffer(lengths), _LENGTHS))
        for child in _list_children(array, first, last):
            _flatten(child, flat)
    elif pt.is_string(type_) or pt.is_binary(type_):
        array = array.fill_null("" if pt.is_string(type_) else b"") if nulls else array
        lengths, first, last = _lengths(array, 0)
        data = array.buffers()[2]
        flat.buffers.append((pa.py_buffer(lengths), _LENGTHS))
        flat.buffers.append((data.slice(first, last - first) if data is not None else pa.py_buffer(b""), _TEXT))
    elif pt.is_boolean(type_):
        flat.buffers.append((_pack_bits(array.fill_null(False) if nulls else array), _BITS))
    else:
        flat.buffers.append((get_fixed_width_buffer(array), get_buffer_kind(type_)))


def get_buffer_kind(type_: pa.DataType) -> BufferKind:
    """Returns how codecs may treat the values of a fixed-width type."""
    if pt.is_fixed_size_binary(type_):
        return _TEXT
    log2_width = (type_.bit_width // 8).bit_length() - 1
    if pt.is_floating(type_):
        return BufferKind(log2_width, "", True)
    return BufferKind(log2_width, "unsigned" if pt.is_unsigned_integer(type_) else "signed", True)


def get_fixed_width_buffer(array: pa.Array) -> pa.Buffer:
    """Returns the values of a fixed-width array from its first row to its last, zero where null."""
    if array.null_count:
        array = array.fill_null(_zero(array.type))
    width = array.type.bit_width // 8
    return array.buffers()[1].slice(array.offset * width, len(array) * width)


def _zero(type_: pa.DataType) -> pa.Scalar:
    if pt.is_fixed_size_binary(type_):
        return pa.scalar(bytes(type_.byte_width), type_)
    if pt.is_temporal(type_):
        return pa.scalar(0, pa.int32() if type_.bit_width == 32 else pa.int64()).cast(type_)
    return pa.scalar(0, type_)


def make_canonical_dictionary(array: pa.DictionaryArray) -> tuple[np.ndarray, pa.Array]:
    """Returns indices (0 where null) and a dictionary of distinct values in order of first use."""
    nulls = array.null_count
    used = pc.unique(array.indices.drop_null() if nulls else array.indices)
    dictionary = array.dictionary.take(used)
    indices = (array.indices.fill_null(0) if nulls else array.indices).to_numpy()
    mapping = np.zeros(max(len(array.dictionary), 1), np.int32)
    distinct = pc.unique(dictionary)
    if dictionary.null_count or len(distinct) < len(dictionary):
        encoded = dictionary.dictionary_encode()
        if encoded.null_count:  # a null inside the dictionary: only the plain form tells it from a null index
            return make_canonical_dictionary(array.cast(array.type.value_type).dictionary_encode())
        mapping[used.to_numpy()] = encoded.indices.to_numpy()
        dictionary = encoded.dictionary
    else:
        mapping[used.to_numpy()] = np.arange(len(used), dtype=np.int32)
    result = mapping[indices]
    if nulls:
        result[~_bool_numpy(array.is_valid())] = 0
    return result.astype(np.int32, copy=False), dictionary


def _list_children(array: pa.Array, first: int, last: int) -> Iterator[pa.Array]:
    if pt.is_map(array.type):
        yield array.keys.slice(first, last - first) if len(array) else array.keys.slice(0, 0)
        yield array.items.slice(first, last - first) if len(array) else array.items.slice(0, 0)
    else:
        yield array.values.slice(first, last - first) if len(array) else array.values.slice(0, 0)


def _lengths(array: pa.Array, nulls: int) -> tuple[np.ndarray, int, int]:
    """Returns uint32 lengths, and where the rows begin and end in the child or the bytes."""
    if nulls:
        raise UserError("NOT_IMPLEMENTED", f"NULL in place of a whole {array.type} cannot be stored")
    if not len(array):
        return np.empty(0, np.uint32), 0, 0
    offsets = np.frombuffer(array.buffers()[1], np.int32, len(array) + 1, 4 * array.offset)
    return (offsets[1:] - offsets[:-1]).view(np.uint32), int(offsets[0]), int(offsets[-1])


def _bool_numpy(array: pa.Array) -> np.ndarray:
    return array.cast(pa.uint8()).to_numpy().view(np.bool_)


def _pack_bits(array: pa.Array) -> pa.Buffer:
    return pa.py_buffer(np.packbits(_bool_numpy(array), bitorder="little"))


class LayoutError(Exception):
    """Nodes and buffers do not fit the type. The caller adds the place."""


NextBuffer = Callable[[], pa.Buffer | None]


def rebuild_array(type_: pa.DataType, nodes: Iterator[tuple[int, int]], next_buffer: NextBuffer) -> pa.Array:
    """Returns the array of ``type_``, read node by node and buffer by buffer. Raises :class:`LayoutError`."""
    length, nulls = next(nodes)
    validity = check_validity(next_buffer(), length, nulls)
    if pt.is_dictionary(type_):
        codes = _sized(next_buffer(), 4 * length)
        dictionary = rebuild_array(type_.value_type, nodes, next_buffer)
        return build_dictionary_array(type_, length, nulls, validity, codes, dictionary)
    if pt.is_struct(type_):
        children = [rebuild_array(type_.field(i).type, nodes, next_buffer) for i in range(type_.num_fields)]
        if any(len(child) != length for child in children):
            raise LayoutError(f"a tuple of {length} rows has elements of {[len(child) for child in children]} rows")
        return pa.Array.from_buffers(type_, length, [validity], nulls, children=children)
    if pt.is_list(type_):
        offsets = _offsets(next_buffer(), length)
        values = _long_enough(rebuild_array(type_.value_type, nodes, next_buffer), offsets)
        return pa.Array.from_buffers(type_, length, [validity, offsets], nulls, children=[values])
    if pt.is_map(type_):
        offsets = _offsets(next_buffer(), length)
        keys = _long_enough(rebuild_array(type_.key_type, nodes, next_buffer), offsets)
        items = _long_enough(rebuild_array(type_.item_type, nodes, next_buffer), offsets)
        fields = [type_.key_field, type_.item_field]
        entries = pa.StructArray.from_arrays([keys, items], fields=fields)
        return pa.Array.from_buffers(type_, length, [validity, offsets], nulls, children=[entries])
    if pt.is_string(type_) or pt.is_binary(type_):
        offsets = _offsets(next_buffer(), length)
        data = _sized(next_buffer(), _last(offsets))
        return pa.Array.from_buffers(type_, length, [validity, offsets, data], nulls)
    size = (length + 7) // 8 if pt.is_boolean(type_) else length * (type_.bit_width // 8)
    return pa.Array.from_buffers(type_, length, [validity, _sized(next_buffer(), size)], nulls)


def check_validity(validity: pa.Buffer | None, length: int, nulls: int) -> pa.Buffer | None:
    """Returns the validity bits. Raises :class:`LayoutError` if they are too few, or absent with nulls."""
    if nulls > length or (validity is None and nulls):
        raise LayoutError(f"{nulls} nulls in {length} rows, {'without' if validity is None else 'with'} validity bits")
    return None if validity is None else _sized(validity, (length + 7) // 8)


def build_dictionary_array(
    type_: pa.DataType, length: int, nulls: int, validity: pa.Buffer | None, codes: pa.Buffer, dictionary: pa.Array
) -> pa.DictionaryArray:
    """Builds the array. Raises :class:`LayoutError` for an index outside the dictionary.

    An array of nulls only has an empty dictionary. In older parts, Nullable columns that an INSERT left out were
    written so without validity bits.
    """
    indices = pa.Array.from_buffers(type_.index_type, length, [validity, codes], nulls)
    largest = int(np.frombuffer(codes, np.uint32, length).max()) if length else -1
    if largest == 0 and not len(dictionary) and not nulls:
        indices = pa.nulls(length, type_.index_type)
    is_all_null = length > 0 and indices.null_count == length
    if largest >= len(dictionary) and not (is_all_null and largest == 0):
        raise LayoutError(f"index {largest} into a dictionary of {len(dictionary)}")
    return pa.DictionaryArray.from_arrays(indices, dictionary, safe=False)  # Arrow would check every index again


def compute_offsets(lengths: np.ndarray) -> np.ndarray:
    """Returns Arrow's offsets of unsigned lengths. Raises :class:`LayoutError` if they exceed 31 bits."""
    total = int(lengths.sum(dtype=np.uint64))
    if total >= 1 << 31:
        raise LayoutError(f"the lengths sum up to {total}")
    if len(lengths) and total and lengths.min() == lengths.max():  # codes, flags, hashes: ten times as fast as a sum
        return np.arange(0, total + 1, total // len(lengths), dtype=np.int32)
    offsets = np.empty(len(lengths) + 1, np.int32)
    offsets[0] = 0
    np.cumsum(lengths.view(np.int32), out=offsets[1:])  # ten times as fast as from unsigned ones
    return offsets


def _offsets(lengths: pa.Buffer | None, count: int) -> pa.Buffer:
    return pa.py_buffer(compute_offsets(np.frombuffer(_sized(lengths, 4 * count), np.uint32, count)))


def _last(offsets: pa.Buffer) -> int:
    return int(np.frombuffer(offsets, np.int32)[-1])


def _long_enough(child: pa.Array, offsets: pa.Buffer) -> pa.Array:
    if len(child) < _last(offsets):
        raise LayoutError(f"{_last(offsets)} elements are needed, {len(child)} are there")
    return child


def _sized(buffer: pa.Buffer | None, size: int) -> pa.Buffer:
    if buffer is None or buffer.size < size:
        raise LayoutError(f"a buffer of {size} bytes is needed, {buffer.size if buffer else 0} are there")
    return buffer


def count_content_bytes(array: pa.Array, boundaries: np.ndarray) -> np.ndarray:
    """Returns the uncompressed bytes between consecutive row ``boundaries``; depends only on the values."""
    type_ = array.type
    rows = boundaries[1:] - boundaries[:-1]
    if pt.is_dictionary(type_):
        return rows * 4
    if pt.is_struct(type_):
        return sum(
            (count_content_bytes(array.field(i), boundaries) for i in range(type_.num_fields)), np.zeros_like(rows)
        )
    if pt.is_string(type_) or pt.is_binary(type_) or pt.is_list(type_) or pt.is_map(type_):
        if not len(array):
            return rows * 0
        if array.null_count:
            array = array.fill_null("" if pt.is_string(type_) else b"")
        offsets = np.frombuffer(array.buffers()[1], np.int32, len(array) + 1, 4 * array.offset)
        inner = offsets[boundaries].astype(np.int64)
        if pt.is_list(type_):
            return rows * 4 + count_content_bytes(array.values, inner)
        if pt.is_map(type_):
            return rows * 4 + count_content_bytes(array.keys, inner) + count_content_bytes(array.items, inner)
        return rows * 4 + (inner[1:] - inner[:-1])
    if pt.is_boolean(type_):
        return rows
    width = type_.bit_width // 8
    return rows * (8 if pt.is_decimal(type_) and type_.precision <= 18 else width)


def build_struct_array(children: Sequence[pa.Array], type_: pa.StructType, length: int) -> pa.Array:
    """Returns a struct without nulls. For a struct without fields it keeps ``length``, unlike pyarrow."""
    if not children:
        return pa.Array.from_buffers(type_, length, [None], 0, children=[])
    return pa.StructArray.from_arrays(children, fields=list(type_))
