"""Scan kernels that parse numbers; Polars parses integers and floats by ClickHouse's grammar.

Decimals of up to 15 digits, with or without a point, are read by words of eight bytes, others by Polars.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parts.types import DecimalType, IntegerType
from sql.typing.column_kernels.kernels import fixed_width_values, validity_buffer
from sql.typing.column_kernels.scannable import split_known_values
from sql.typing.column_kernels.text_words import TextColumn, compute_where_first_byte, parse_digits

_MAX_DIGITS = 15
_TENS = 10 ** np.arange(_MAX_DIGITS + 1, dtype=np.int64)
_MINUS, _PLUS, _POINT = b"-+."
_FINE_SCALE = 20
_DIGITS_AT_ONCE = 19
_SLICES = 4
"""Only the last 64 digits decide the low 64 bits, because 10^64 is a multiple of 2^64."""
_BEGINS_INTEGER, _BEGINS_FLOAT, _BEGINS_DECIMAL = (
    np.isin(np.arange(256), list(marks)) for marks in (b"0123456789+-", b"0123456789+-.iInN", b"0123456789+-.eE")
)


def parse_numbers(texts: pa.Array, type_: pa.DataType) -> pa.Array:
    """Parses numbers; NULL for texts that are invalid or do not fit the type."""
    import polars as pl  # takes 0.1 s

    goal = pl.from_arrow(pa.nulls(0, type_)).dtype
    return pl.from_arrow(texts).cast(goal, strict=False).to_arrow()


def fitting_integers(texts: pa.Array, *, goal: IntegerType) -> pa.Array:
    """Parses integers; NULL for texts that are invalid or do not fit the type."""
    return compute_where_first_byte(texts, _BEGINS_INTEGER, partial(parse_numbers, type_=goal.arrow), may_take_all=True)


def parse_floats(texts: pa.Array, *, bits: int) -> pa.Array:
    """Parses floats; NULL for invalid texts."""
    type_ = pa.float64() if bits == 64 else pa.float32()
    return compute_where_first_byte(texts, _BEGINS_FLOAT, partial(parse_numbers, type_=type_), may_take_all=True)


def parse_integers(texts: pa.Array, *, goal: IntegerType) -> pa.Array:
    """Parses integers and keeps their low bits; invalid texts are left over as odd."""
    wide = pa.int64() if goal.signed else pa.uint64()
    known = pc.cast(parse_numbers(texts, wide), goal.arrow, safe=False)
    if known.null_count == texts.null_count:
        return split_known_values(known, texts, np.zeros(len(texts), bool))
    pattern = r"^[+-]?[0-9]+$" if goal.signed else r"^\+?[0-9]+$"
    is_left = pc.and_(pc.is_null(known), pc.is_valid(texts))
    rows = np.flatnonzero(np.asarray(is_left))
    left = texts.take(pa.array(rows))
    is_long = np.asarray(pc.match_substring_regex(left, pattern))
    if is_long.any():
        low = _low_bits(left.filter(pa.array(is_long))).astype(goal.arrow.to_pandas_dtype())
        places = np.zeros(len(texts), bool)
        places[rows[is_long]] = True
        known = pc.replace_with_mask(known, pa.array(places), pa.array(low))
    is_odd = np.zeros(len(texts), bool)
    is_odd[rows[~is_long]] = True
    return split_known_values(known, texts, is_odd)


def _low_bits(spelled: pa.Array) -> np.ndarray:
    """Returns the low 64 bits of integers of any length."""
    digits = pc.utf8_ltrim(spelled, "+-")
    value = np.zeros(len(spelled), np.uint64)
    for behind in range(0, _SLICES * _DIGITS_AT_ONCE, _DIGITS_AT_ONCE):
        piece = pc.utf8_slice_codeunits(digits, -behind - _DIGITS_AT_ONCE, -behind or None)
        value += fixed_width_values(parse_numbers(piece, pa.uint64()).fill_null(0), np.uint64) * np.uint64(
            10**behind % 2**64
        )
    return np.where(np.asarray(pc.starts_with(spelled, "-")), -value, value)


def decimal_pattern(goal: DecimalType) -> str:
    """Returns the regular expression of a Decimal's valid texts.

    The integer part has at most as many digits as the type. As in ClickHouse further points and missing digits are
    ignored.
    """
    return rf"[+-]?0*[0-9]{{0,{goal.precision}}}([.][0-9.]*)?([eE][+-]?[0-9]+)?"


def parse_decimals(texts: pa.Array, *, goal: DecimalType) -> pa.Array:
    """Parses Decimals; digits beyond the scale are cut off, not rounded."""
    read = _ParsedDecimals(texts)
    change = goal.scale - read.scale
    is_known = read.is_read & (change <= 18 - _MAX_DIGITS)
    units = np.where(change < 0, read.units // _TENS[np.clip(-change, 0, _MAX_DIGITS)], read.units)
    units = units * _TENS[np.clip(change, 0, 18 - _MAX_DIGITS)]
    units = np.where(read.is_negative, -units, units)
    is_right = is_known & (np.abs(units) < 10**goal.precision) if goal.precision < 18 else is_known
    known = read.column(units, is_right, goal)
    left = read.texts.rows[~is_known]
    if not len(left):
        return known
    spelled = pc.match_substring_regex(texts.take(pa.array(left)), f"^{decimal_pattern(goal)}$")
    left = left[np.asarray(spelled)]
    if not len(left):
        return known
    others = np.zeros(len(texts), bool)
    others[left] = True
    return pc.replace_with_mask(known, pa.array(others), _parse_odd_decimals(texts.take(pa.array(left)), goal))


def _parse_odd_decimals(texts: pa.Array, goal: DecimalType) -> pa.Array:
    """Parses texts that match :func:`decimal_pattern` but are too long or unusual."""
    type_ = pa.decimal128(goal.precision, goal.scale)
    is_strange = pc.match_substring_regex(texts, r"[.].*[.]|^[+-]?([.eE]|$)")
    if pc.any(is_strange).as_py():
        texts = pc.replace_with_mask(texts, is_strange, _with_one_point(texts.filter(is_strange)))
    if goal.scale > _FINE_SCALE - 2:
        return parse_numbers(truncate_to_scale(texts, goal.scale), type_)
    fine = pc.cast(
        parse_numbers(truncate_to_scale(texts, _FINE_SCALE), pa.decimal128(38, _FINE_SCALE)),
        pa.decimal128(38, goal.scale),
        safe=False,
    )
    values = parse_numbers(fine, type_)
    return (
        values
        if goal.precision <= 18
        else pc.coalesce(values, parse_numbers(truncate_to_scale(texts, goal.scale), type_))
    )


def _with_one_point(texts: pa.Array) -> pa.Array:
    """Rewrites texts with several points or missing digits for Polars."""
    behind = pc.replace_substring(pc.replace_substring_regex(texts, r"^[^.]*[.]?", ""), ".", "")
    before = pc.replace_substring_regex(texts, r"[.].*$", "")
    spelled = pc.if_else(pc.match_substring(texts, "."), pc.binary_join_element_wise(before, behind, "."), texts)
    return pc.replace_substring_regex(spelled, r"^([+-]?)([.eE]|$)", r"\10\2")


def truncate_to_scale(texts: pa.Array, scale: int) -> pa.Array:
    """Removes the digits beyond the scale."""
    if pc.max(pc.binary_length(texts)).as_py() <= scale:
        return texts
    return pc.replace_substring_regex(texts, rf"([.][0-9]{{{scale}}})[0-9]+$", r"\1")


class _ParsedDecimals:
    """Parsed texts of a sign, digits and an optional point: ``units`` of ten to the minus ``scale``."""

    def __init__(self, array: pa.Array) -> None:
        self.texts = texts = TextColumn.select_by_first_byte(array, _BEGINS_DECIMAL)
        first = texts.bytes_at(0)
        self.is_negative = first == _MINUS
        has_sign = self.is_negative | (first == _PLUS)
        place = self._place_of_point()
        before = texts.part(has_sign.astype(np.int64), place)
        behind = texts.part(place + 1, texts.sizes)
        whole, _, is_whole = parse_digits(before)
        fraction, _, is_fraction = parse_digits(behind)
        self.scale = np.minimum(behind.sizes, _MAX_DIGITS)
        digits = before.sizes + behind.sizes
        self.is_read = (is_whole | (before.sizes == 0)) & (is_fraction | (behind.sizes == 0))
        self.is_read &= digits <= _MAX_DIGITS
        self.units = np.where(self.is_read, whole.astype(np.int64) * _TENS[self.scale] + fraction.astype(np.int64), 0)

    def _place_of_point(self) -> np.ndarray:
        """Returns the place of each text's first point, its size if there is none."""
        texts = self.texts
        places = texts.sizes.copy()
        points = texts.places_of(_POINT)
        if len(points):
            row = texts.row_of(points)
            inside = row >= 0
            np.minimum.at(places, row[inside], points[inside] - texts.begins[row[inside]])
        return places

    def column(self, units: np.ndarray, known: np.ndarray, goal: DecimalType) -> pa.Array:
        """Builds a Decimal column of ``units``, NULL where ``known`` is false."""
        wide, is_known = np.zeros((self.texts.count, 2), np.int64), np.zeros(self.texts.count, bool)
        wide[self.texts.rows, 0], wide[self.texts.rows, 1] = units, units >> 63
        is_known[self.texts.rows] = known
        type_ = pa.decimal128(goal.precision, goal.scale)
        return pa.Array.from_buffers(type_, len(wide), [validity_buffer(is_known), pa.py_buffer(wide)])
