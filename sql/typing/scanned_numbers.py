"""Numbers that texts spell, as scans read them: by words of eight bytes.

Known are signs and up to 20 digits, for floats and decimals with a point among up to 15 of them; a text that is *odd*
may spell something else, which DuckDB reads; all others spell nothing."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parts.types import DecimalType, IntegerType
from sql.typing.kernels import masked, validity
from sql.typing.scannable import known_and_odd
from sql.typing.text_words import Texts, whole_numbers

_MOST_DIGITS = 15
"""A whole number of so many digits, and a power of ten below 10^22, are floats: their quotient is rounded once."""
_TENS = 10 ** np.arange(_MOST_DIGITS + 1, dtype=np.int64)
_MINUS, _PLUS, _POINT = b"-+."
_BEGINS_INTEGER, _BEGINS_FLOAT = np.zeros(256, bool), np.zeros(256, bool)
_BEGINS_INTEGER[list(b"0123456789+-")] = True
_BEGINS_FLOAT[list(b"0123456789+-.iInN")] = True


def integers(texts: pa.Array, *, goal: IntegerType) -> pa.Array:
    """The low bits of those that fit 64 bits."""
    return _integers(texts, goal, is_exact=False)[0]


def fitting_integers(texts: pa.Array, *, goal: IntegerType) -> pa.Array:
    """Those that fit the type."""
    known, is_long = _integers(texts, goal, is_exact=True)
    if is_long.any():  # zeros before it may make any number long
        short = pc.if_else(pa.array(is_long), texts, pa.scalar(None, pa.string()))
        short = pc.replace_substring_regex(short, r"^([+-]?)0+([0-9])", r"\1\2")
        known = pc.coalesce(known, _integers(short, goal, is_exact=True)[0])
    return known


def _integers(array: pa.Array, goal: IntegerType, *, is_exact: bool) -> tuple[pa.Array, np.ndarray]:
    """The values, and which rows have too many digits."""
    texts = Texts.that_begin(array, _BEGINS_INTEGER)
    first = texts.bytes_at(0)
    is_negative = first == _MINUS
    has_sign = is_negative | (first == _PLUS)
    value, known, is_number = whole_numbers(texts, has_sign)
    if goal.signed:
        known &= value <= np.uint64((1 << 63) - 1) + is_negative
    else:
        is_number &= ~is_negative
    known &= is_number
    if is_exact:
        most = np.uint64(goal.maximum) + is_negative if goal.signed else np.uint64(goal.maximum)
        known &= value <= most
    value = np.where(is_negative, -value, value) if is_negative.any() else value
    kind = np.dtype(f"{'i' if goal.signed else 'u'}{goal.bits // 8}")
    is_long = np.zeros(texts.count, bool)
    is_long[texts.rows] = texts.sizes > 20
    return _column(texts, value.astype(kind), known, goal.arrow), is_long


def _column(texts: Texts, values: np.ndarray, known: np.ndarray, type_: pa.DataType) -> pa.Array:
    if len(texts.rows) == texts.count:
        return masked(values, known, type_)
    result, is_known = np.zeros(texts.count, values.dtype), np.zeros(texts.count, bool)
    result[texts.rows], is_known[texts.rows] = values, known
    return masked(result, is_known, type_)


def floats(texts: pa.Array, *, bits: int) -> pa.Array:
    """Floats that are known, and texts that may spell others."""
    read = _Decimal(texts)
    value = read.units / _TENS[read.scale]
    value = np.where(read.is_negative, -value, value)
    if bits == 32:  # rounded twice is not always rounded right
        read.is_known &= (read.scale == 0) & (read.units < 1 << 24)
    known = _column(
        read.texts, value.astype(f"f{bits // 8}"), read.is_known, pa.float64() if bits == 64 else pa.float32()
    )
    return known_and_odd(known, texts, read.odd)


def decimals(texts: pa.Array, *, goal: DecimalType) -> pa.Array:
    """Decimals that are known, without the digits that the type has not, and texts that may spell others."""
    read = _Decimal(texts)
    change = goal.scale - read.scale
    read.is_known &= change <= 18 - _MOST_DIGITS
    units = np.where(change < 0, read.units // _TENS[np.clip(-change, 0, _MOST_DIGITS)], read.units)
    units = units * _TENS[np.clip(change, 0, 18 - _MOST_DIGITS)]
    units = np.where(read.is_negative, -units, units)
    if goal.precision < 18:
        read.is_known &= np.abs(units) < 10**goal.precision
    known = _column(read.texts, units, read.is_known, pa.int64())
    wide = np.empty((len(known), 2), np.int64)
    wide[:, 0] = np.frombuffer(known.buffers()[1], np.int64)[: len(known)]
    wide[:, 1] = wide[:, 0] >> 63
    type_ = pa.decimal128(goal.precision, goal.scale)
    is_valid = validity(np.asarray(known.is_valid())) if known.null_count else None
    result = pa.Array.from_buffers(type_, len(known), [is_valid, pa.py_buffer(wide)])
    return known_and_odd(result, texts, read.odd)


class _Decimal:
    """What is spelled with a sign, digits, and perhaps a point: ``units`` of ten to the minus ``scale``."""

    def __init__(self, array: pa.Array) -> None:
        self.texts = texts = Texts.that_begin(array, _BEGINS_FLOAT)
        first = texts.bytes_at(0)
        self.is_negative = first == _MINUS
        has_sign = self.is_negative | (first == _PLUS)
        place = self._place_of_point()
        before = texts.part(has_sign.astype(np.int64), place)
        behind = texts.part(place + 1, texts.sizes)
        whole, _, is_whole = whole_numbers(before)
        fraction, _, is_fraction = whole_numbers(behind)
        self.scale = np.minimum(behind.sizes, _MOST_DIGITS)
        digits = before.sizes + behind.sizes
        self.is_known = is_whole & (is_fraction | (behind.sizes == 0)) & (digits <= _MOST_DIGITS)
        self.units = np.where(self.is_known, whole.astype(np.int64) * _TENS[self.scale] + fraction.astype(np.int64), 0)

    def _place_of_point(self) -> np.ndarray:
        """Of the first point of each text, its size where there is none."""
        texts = self.texts
        places = texts.sizes.copy()
        points = texts.places_of(_POINT)
        if len(points):
            row = texts.row_of(points)
            inside = row >= 0
            np.minimum.at(places, row[inside], points[inside] - texts.begins[row[inside]])
        return places

    @property
    def odd(self) -> np.ndarray:
        """Texts that begin as numbers do."""
        is_odd = np.zeros(self.texts.count, bool)
        is_odd[self.texts.rows] = ~self.is_known
        return is_odd
