"""Parses plain values of a few rows without Arrow's kernels, whose fixed costs would dominate.

Every function gives up (``None``) on what is not written in the one plain way. The readers for any number of rows then
parse it, and report errors. So plain values are read exactly as those readers would.
"""

from __future__ import annotations

import datetime
import functools
import itertools
import re
import struct
from collections.abc import Callable, Sequence

import pyarrow as pa

from parts.types import DataType, DateTimeType, DateType, FloatType, IntegerType, NullableType, StringType

Texts = Callable[[Sequence[str]], pa.Array | None]
_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,19}")
_FLOAT = re.compile(r"-?[0-9]{1,18}(?:\.[0-9]{1,18})?(?:[eE][-+]?[0-9]{1,2})?")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}")
_CODES = {8: "b", 16: "h", 32: "i", 64: "q"}
_EPOCH_DAY = datetime.date(1970, 1, 1).toordinal()
_LAST_DAY = 0xFFFF
_LAST_SECOND = 0xFFFF_FFFF


@functools.lru_cache(maxsize=4096)
def plain_text_parser(type_: DataType, timezone: str) -> Texts | None:
    """Returns the parser of bare texts for the type; ``None`` for a type that is not supported here."""
    if isinstance(type_, NullableType):
        return plain_text_parser(type_.inner, timezone)
    if isinstance(type_, IntegerType) and type_.bits in _CODES:
        return functools.partial(_parse_integers, type_)
    if isinstance(type_, StringType):
        return parse_strings
    if isinstance(type_, DateType):
        return _parse_dates
    if isinstance(type_, DateTimeType) and (type_.timezone or timezone) == "UTC":
        return _parse_times
    if isinstance(type_, FloatType) and type_.bits == 64:
        return _parse_floats
    return None


def _parse_integers(type_: IntegerType, texts: Sequence[str]) -> pa.Array | None:
    return integer_array(type_, list(map(int, texts))) if all(map(_INTEGER.fullmatch, texts)) else None


def integer_array(type_: IntegerType, values: Sequence[int]) -> pa.Array | None:
    """Returns an array of integers; ``None`` when one is out of range."""
    if min(values) < type_.minimum or max(values) > type_.maximum:
        return None
    code = _CODES[type_.bits]
    return _fixed_width_array(type_.arrow, code if type_.signed else code.upper(), values)


def parse_strings(texts: Sequence[str]) -> pa.Array | None:
    """Returns an array of strings; ``None`` for halves of surrogate pairs."""
    try:
        encoded = [text.encode() for text in texts]
    except UnicodeEncodeError:
        return None
    return string_array(encoded)


def string_array(texts: Sequence[bytes]) -> pa.Array:
    """Returns an array of UTF-8 strings."""
    ends = list(itertools.accumulate(map(len, texts), initial=0))
    buffers = [None, pa.py_buffer(struct.pack(f"<{len(ends)}i", *ends)), pa.py_buffer(b"".join(texts))]
    return pa.Array.from_buffers(pa.string(), len(texts), buffers)


def float_array(values: Sequence[float]) -> pa.Array:
    """Returns an array of Float64."""
    return _fixed_width_array(pa.float64(), "d", values)


def _parse_floats(texts: Sequence[str]) -> pa.Array | None:
    return float_array(list(map(float, texts))) if all(map(_FLOAT.fullmatch, texts)) else None


def _parse_dates(texts: Sequence[str]) -> pa.Array | None:
    try:
        days = [datetime.date.fromisoformat(text).toordinal() - _EPOCH_DAY for text in texts]
    except ValueError:
        return None
    if not all(map(_DATE.fullmatch, texts)) or min(days) < 0 or max(days) > _LAST_DAY:
        return None
    return date_array(days)


def date_array(days: Sequence[int]) -> pa.Array:
    """Returns an array of Date; ``days`` count from 1970."""
    return _fixed_width_array(pa.date32(), "i", days)


def _parse_times(texts: Sequence[str]) -> pa.Array | None:
    if not all(map(_TIME.fullmatch, texts)):
        return None
    try:
        times = [datetime.datetime.fromisoformat(text).replace(tzinfo=datetime.UTC) for text in texts]
    except ValueError:
        return None
    seconds = [int(time.timestamp()) for time in times]
    return datetime_array(seconds) if min(seconds) >= 0 and max(seconds) <= _LAST_SECOND else None


def datetime_array(seconds: Sequence[int]) -> pa.Array:
    """Returns an array of DateTime; ``seconds`` count from 1970."""
    return _fixed_width_array(pa.timestamp("s"), "q", seconds)


def _fixed_width_array(type_: pa.DataType, code: str, values: Sequence[float]) -> pa.Array:
    data = struct.pack(f"<{len(values)}{code}", *values)
    return pa.Array.from_buffers(type_, len(values), [None, pa.py_buffer(data)])
