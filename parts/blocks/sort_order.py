"""ClickHouse's sorting order, vectorised: key arrays become unsigned codes with the key's order.

Order: NULLs last, before them NaN, text and fixed strings bytewise, LowCardinality by value, Enum by number, UUID by
bytes, tuples element by element. Arrays and maps in keys are refused.

Each key column becomes one :class:`KeyCodes`: uint64 codes that use ``bits`` bits. The first bits of all key columns
and the row number are packed into 64 and sorted as integers (several times faster than any argsort), which gives the
stable order. Where bits were left out, rows that are equal without them are ordered by a lexicographic sort of the
codes. Strings that rarely repeat are ranked by a sort of all rows. Codes are comparable only within one call.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from parts.common.errors import UserError
from parts.common.thread_pool import map_parallel

_WORD = 64
_PARALLEL_ROWS = 50_000
_SAMPLES = 16
_SAMPLE_ROWS = 4096
_FEW_RUNS = 64
_RADIX_BITS = 16
"""NumPy sorts integers of at most 16 bits by radix sort."""


Word = np.ndarray | np.uint64


@dataclass(frozen=True, slots=True)
class KeyCodes:
    """Order-preserving codes below ``2**bits``."""

    codes: np.ndarray
    bits: int


def compute_sort_permutation(keys: Sequence[pa.ChunkedArray], rows: int) -> np.ndarray | None:
    """Returns row numbers in stable sorting order, or ``None`` when the rows are in order already."""
    if not keys or rows < 2:
        return None
    columns = encode_keys(keys, rows)
    # A stable order needs no key column that only repeats the order in which the rows came.
    while columns and _never_falls(columns[-1].codes):
        columns.pop()
    if not columns:
        return None
    words = pack_key_codes(columns, rows)
    return None if is_sorted(words) else _stable_order(words, rows)


def encode_keys(keys: Sequence[pa.ChunkedArray], rows: int) -> list[KeyCodes]:
    """Returns the codes of every key column (a tuple gives several)."""
    flat = [array for key in keys for array in _plain_columns(key)]
    if rows >= _PARALLEL_ROWS and len(flat) > 1:
        return map_parallel(_codes, flat)
    return [_codes(array) for array in flat]


def pack_key_codes(columns: Sequence[KeyCodes], rows: int) -> list[KeyCodes]:
    """Packs the codes into as few 64-bit words as possible, most significant first."""
    words: list[KeyCodes] = []
    for column in columns:
        if not column.bits:
            continue
        if words and words[-1].bits + column.bits <= _WORD:
            last = words[-1]
            joined = (last.codes << np.uint64(column.bits)) | column.codes
            words[-1] = KeyCodes(joined, last.bits + column.bits)
        else:
            words.append(column)
    return words or [KeyCodes(np.zeros(rows, np.uint64), 0)]


def is_sorted(words: Sequence[KeyCodes]) -> bool:
    """Tells whether the rows are in order."""
    if len(words) == 1:
        return _never_falls(words[0].codes)
    later = less_than([w.codes[1:] for w in words], [w.codes[:-1] for w in words])
    return not later.any()


def _never_falls(codes: np.ndarray) -> bool:
    return bool(np.all(codes[1:] >= codes[:-1]))


def less_than(left: Sequence[Word], right: Sequence[Word]) -> np.ndarray:
    """Compares row by row whether ``left`` is lexicographically below ``right``.

    One side may be one scalar per word.
    """
    result = left[-1] < right[-1]
    for a, b in zip(reversed(left[:-1]), reversed(right[:-1]), strict=True):
        result = (a < b) | ((a == b) & result)
    return result


def _stable_order(words: list[KeyCodes], rows: int) -> np.ndarray:
    row_bits = (rows - 1).bit_length()
    if len(words) == 1 and words[0].bits <= _RADIX_BITS:
        return np.argsort(words[0].codes.astype(np.uint16), kind="stable")
    is_whole = sum(word.bits for word in words) + row_bits <= _WORD
    if len(words) == 1 and not is_whole and _is_easy(words[0].codes):
        return np.argsort(words[0].codes, kind="stable")
    packed = _prefix(words, _WORD - row_bits) << np.uint64(row_bits)
    packed |= np.arange(rows, dtype=np.uint64)
    packed.sort()
    order = (packed & np.uint64((1 << row_bits) - 1)).view(np.int64)
    if is_whole:
        return order
    same = np.zeros(rows + 1, np.bool_)
    prefix = packed >> np.uint64(row_bits)
    np.equal(prefix[1:], prefix[:-1], out=same[1:-1])
    undecided = np.flatnonzero(same[1:] | same[:-1])
    if len(undecided) > rows // 4:
        return _lexicographic_order(words)
    among = order[undecided]
    order[undecided] = among[_lexicographic_order([KeyCodes(word.codes[among], word.bits) for word in words])]
    return order


def _is_easy(codes: np.ndarray) -> bool:
    """Tells whether NumPy's stable sort is fast: a few sorted runs, or few values."""
    if np.count_nonzero(codes[1:] < codes[:-1]) < _FEW_RUNS:
        return True
    return len(np.unique(codes[:_SAMPLE_ROWS])) < min(len(codes), _SAMPLE_ROWS) // 2


def _prefix(words: Sequence[KeyCodes], bits: int) -> np.ndarray:
    """Returns the first ``bits`` bits of the rows' codes, or all if there are fewer."""
    prefix = words[0].codes >> np.uint64(max(words[0].bits - bits, 0))
    room = bits - words[0].bits
    for word in words[1:]:
        if room <= 0:
            break
        taken = min(word.bits, room)
        prefix = (prefix << np.uint64(taken)) | (word.codes >> np.uint64(word.bits - taken))
        room -= taken
    return prefix


def _lexicographic_order(words: Sequence[KeyCodes]) -> np.ndarray:
    if len(words) == 1:
        return np.argsort(words[0].codes, kind="stable")
    import polars as pl  # takes 0.1 s, and many processes never sort so much

    frame = pl.DataFrame({str(i): word.codes for i, word in enumerate(words)})
    order = frame.select(pl.arg_sort_by(frame.columns, maintain_order=True)).to_series()
    return order.to_numpy().astype(np.int64)


def _plain_columns(key: pa.ChunkedArray) -> list[pa.Array]:
    array = _contiguous(key)
    if pt.is_struct(array.type):
        return [c for i in range(array.type.num_fields) for c in _plain_columns(pa.chunked_array([array.field(i)]))]
    if pt.is_nested(array.type) and not pt.is_dictionary(array.type):
        raise UserError(
            "NOT_IMPLEMENTED", f"A sorting key of Arrow type {array.type} is not supported: use scalar columns"
        )
    return [array]


def _contiguous(key: pa.ChunkedArray) -> pa.Array:
    if key.num_chunks == 1:
        return key.chunk(0)
    if not key.num_chunks:
        return pa.nulls(0, key.type)
    if pt.is_string(key.type):  # may not fit 32-bit offsets
        key = key.cast(pa.large_string())
    joined = key.combine_chunks()
    return joined if isinstance(joined, pa.Array) else pa.concat_arrays(joined.chunks)


def _codes(array: pa.Array) -> KeyCodes:
    type_ = array.type
    if pt.is_dictionary(type_):
        return _dictionary_codes(array)
    present = array.is_valid().cast(pa.uint8()).to_numpy() if array.null_count else None
    if array.null_count == len(array):  # also: no rows
        return KeyCodes(np.zeros(len(array), np.uint64), 0)
    values = _value_codes(array)
    if present is None:
        return values
    codes = np.where(present.view(np.bool_), values.codes, np.uint64(0))
    absent = (present == 0).astype(np.uint64)
    if values.bits < _WORD:
        return KeyCodes(codes | (absent << np.uint64(values.bits)), values.bits + 1)
    dense = np.unique(codes, return_inverse=True)[1].astype(np.uint64)
    bits = int(dense.max()).bit_length()
    return KeyCodes(dense | (absent << np.uint64(bits)), bits + 1)


def _value_codes(array: pa.Array) -> KeyCodes:
    """Returns codes for the values that are not null, and any codes elsewhere."""
    type_ = array.type
    if pt.is_boolean(type_):
        return KeyCodes(array.fill_null(False).cast(pa.uint8()).to_numpy().astype(np.uint64), 1)
    if pt.is_string(type_) or pt.is_large_string(type_) or pt.is_fixed_size_binary(type_) or pt.is_binary(type_):
        return _text_codes(array)
    if pt.is_decimal(type_):
        return _decimal_codes(array)
    raw = np.frombuffer(
        array.buffers()[1], f"<i{type_.bit_width // 8}", len(array), array.offset * type_.bit_width // 8
    )
    if pt.is_floating(type_):
        return _float_codes(raw, array)
    if pt.is_unsigned_integer(type_):
        return _integer_codes(raw.view(f"<u{raw.itemsize}"))
    return _integer_codes(raw)


def _integer_codes(values: np.ndarray) -> KeyCodes:
    smallest, largest = int(values.min()), int(values.max())
    base = np.uint64(smallest % (1 << _WORD))
    return KeyCodes(values.astype(np.uint64) - base, (largest - smallest).bit_length())


def _float_codes(raw: np.ndarray, array: pa.Array) -> KeyCodes:
    """Returns IEEE bits in numeric order: -0.0 equals 0.0, every NaN is one value above infinity."""
    floats = raw.view(f"<f{raw.itemsize}").astype(np.float64) + 0.0
    bits = floats.view(np.uint64)
    top = np.uint64(1 << 63)
    ordered = np.where(bits >= top, ~bits, bits | top)
    nan = np.isnan(floats)
    if nan.any():
        ordered = np.where(nan, np.uint64((1 << _WORD) - 1), ordered)
    return KeyCodes(ordered, _WORD)


def _decimal_codes(array: pa.Array) -> KeyCodes:
    halves = np.frombuffer(array.buffers()[1], "<i8", 2 * len(array), 16 * array.offset).reshape(-1, 2)
    low = np.ascontiguousarray(halves[:, 0])
    if np.array_equal(halves[:, 1], low >> 63):
        return _integer_codes(low)
    return _ranked(array)


def _text_codes(array: pa.Array) -> KeyCodes:
    """Returns ranks among the distinct strings if they are few, otherwise ranks by a sort of all rows."""
    if pt.is_fixed_size_binary(array.type):
        array = array.cast(pa.binary())
    if len(array) <= _SAMPLE_ROWS or _repeats(array):
        return _ranked(array)
    import polars as pl

    text = pl.from_arrow(array)
    assert isinstance(text, pl.Series)
    order = text.arg_sort()
    in_order = text.gather(order)
    steps = (in_order.slice(1).ne_missing(in_order.slice(0, len(in_order) - 1))).to_numpy()
    codes = np.zeros(len(array), np.uint64)
    codes[order.to_numpy()[1:]] = np.cumsum(steps, dtype=np.uint64)
    return KeyCodes(codes, int(codes.max()).bit_length())


def _repeats(array: pa.Array) -> bool:
    """Estimates whether a string appears at least twice on average.

    It examines one sample, and more samples if the first does not show it.
    """
    if len(pc.unique(array.slice(0, _SAMPLE_ROWS))) < _SAMPLE_ROWS // 2:
        return True
    if len(array) < 2 * _SAMPLES * _SAMPLE_ROWS:
        return False
    starts = range(0, len(array), len(array) // _SAMPLES)
    samples = pa.chunked_array([array.slice(start, _SAMPLE_ROWS) for start in starts])
    return len(pc.unique(samples)) < len(samples) // 2


def _dictionary_codes(array: pa.DictionaryArray) -> KeyCodes:
    if array.dictionary.null_count or len(array.dictionary) > max(len(array), 16):
        return _codes(array.cast(array.type.value_type))
    if not len(array.dictionary):
        return KeyCodes(np.zeros(len(array), np.uint64), 0)
    ranks = _dense_ranks(array.dictionary)
    indices = array.indices.fill_null(0).to_numpy()
    codes = ranks[indices]
    if array.null_count:
        codes[array.is_null().cast(pa.uint8()).to_numpy().view(np.bool_)] = ranks.max() + np.uint64(1)
    return KeyCodes(codes, int(codes.max()).bit_length())


def _ranked(array: pa.Array) -> KeyCodes:
    if pt.is_fixed_size_binary(array.type):
        array = array.cast(pa.binary())
    encoded = array.dictionary_encode()
    if len(encoded.dictionary) == 0:
        return KeyCodes(np.zeros(len(array), np.uint64), 0)
    ranks = _dense_ranks(encoded.dictionary)
    return KeyCodes(ranks[encoded.indices.fill_null(0).to_numpy()], int(ranks.max()).bit_length())


def _dense_ranks(values: pa.Array) -> np.ndarray:
    """Returns the rank of each value from 0; equal values share one."""
    if pt.is_fixed_size_binary(values.type):
        values = values.cast(pa.binary())
    if pt.is_floating(values.type):
        codes = _codes(values).codes
        return np.unique(codes, return_inverse=True)[1].astype(np.uint64)
    ranks = pc.rank(values, sort_keys="ascending", tiebreaker="dense").to_numpy()
    return ranks.astype(np.uint64) - np.uint64(1)
