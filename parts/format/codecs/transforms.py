"""Reversible, vectorised transforms of integer buffers.

All arithmetic wraps modulo 2^bits, so any bytes survive.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
UNSIGNED: dict[int, np.dtype[Any]] = {0: np.dtype("<u1"), 1: np.dtype("<u2"), 2: np.dtype("<u4"), 3: np.dtype("<u8")}
"""log2 of the width in bytes → dtype."""
CONSTANT_WIDTH_CODE = 7
"""Narrow's width code for "no differences are stored"."""
DECIMAL_LOG2 = 4
_EXPONENTS = range(7)
_SCALE_SAMPLE = 256
_EXACT = 1 << 53


def delta_encode(raw: Bytes, log2_width: int) -> Bytes:
    """Returns the first value, then differences to the value before. Trailing bytes stay as they are."""
    values, tail = _split(raw, log2_width)
    encoded = np.empty_like(values)
    encoded[:1] = values[:1]
    np.subtract(values[1:], values[:-1], out=encoded[1:])
    return _join(encoded, tail)


def delta_decode(stored: Bytes, log2_width: int) -> Bytes:
    values, tail = _split(stored, log2_width)
    return _join(np.cumsum(values, dtype=values.dtype), tail)


def double_delta_encode(raw: Bytes, log2_width: int) -> Bytes:
    return delta_encode(delta_encode(raw, log2_width), log2_width)


def double_delta_decode(stored: Bytes, log2_width: int) -> Bytes:
    return delta_decode(delta_decode(stored, log2_width), log2_width)


def split_encode(raw: Bytes, log2_width: int) -> Bytes:
    """Returns the first bytes of all values, then the second ones, and so on.

    ``raw`` is a whole number of values.
    """
    return np.ascontiguousarray(raw.reshape(-1, 1 << log2_width).T).reshape(-1)


def split_decode(stored: Bytes, log2_width: int) -> Bytes:
    return decode_split_slice(stored, log2_width, 0, len(stored))


def decode_split_slice(stored: Bytes, log2_width: int, begin: int, size: int) -> Bytes:
    """Returns ``size`` raw bytes from byte ``begin`` on, both whole values."""
    if not 1 <= log2_width <= 3:
        raise ValueError(f"no values of {1 << log2_width} bytes are split")
    width = 1 << log2_width
    planes = stored.reshape(width, -1)[:, begin >> log2_width : (begin + size) >> log2_width]
    values = np.empty((planes.shape[1], width), np.uint8)
    for place in range(width):  # several times as fast as a transposed copy
        values[:, place] = planes[place]
    return values.reshape(-1)


def scale_encode(raw: Bytes) -> tuple[Bytes, int] | None:
    """Returns integers and their exponent, or ``None`` when no exponent fits all values."""
    floats = raw.view("<f8")
    for exponent in _EXPONENTS:
        if _scaled(floats[:_SCALE_SAMPLE], exponent) is not None:
            integers = _scaled(floats, exponent)
            return None if integers is None else (integers.view(np.uint8), exponent)
    return None


def _scaled(floats: npt.NDArray[np.float64], exponent: int) -> npt.NDArray[np.int64] | None:
    with np.errstate(all="ignore"):
        whole = np.rint(floats * 10.0**exponent)
    if not np.abs(whole).max() < _EXACT:  # NaN is not either
        return None
    integers = whole.astype("<i8")
    return integers if np.array_equal(_unscaled(integers, exponent).view("<u8"), floats.view("<u8")) else None


def scale_decode(stored: Bytes, exponent: int) -> Bytes:
    """Returns the floats: the integers divided by 10 to the exponent."""
    return _unscaled(stored.view("<i8"), exponent).view(np.uint8)


def _unscaled(integers: npt.NDArray[np.int64], exponent: int) -> npt.NDArray[np.float64]:
    floats = integers.astype("<f8")
    floats /= 10.0**exponent
    return floats


def narrow_encode(raw: Bytes, log2_width: int, signed: bool) -> tuple[Bytes, int] | None:
    """Returns the encoded bytes and the width code of the differences, or ``None`` if not smaller."""
    if log2_width == DECIMAL_LOG2:
        with_base = narrow_decimals(raw)
        if with_base is None:
            return None
        return narrow_encode(with_base[8:], 3, True) or (with_base, 3)
    unsigned = UNSIGNED[log2_width]
    values = raw.view(np.dtype(f"<i{unsigned.itemsize}") if signed else unsigned)
    smallest = int(values.min())
    span = int(values.max()) - smallest
    if span == 0:
        return _with_base(smallest, np.empty(0, np.uint8)), CONSTANT_WIDTH_CODE
    for width_code in range(log2_width):
        if span < 1 << (8 << width_code):
            differences = values.view(unsigned) - unsigned.type(smallest % (1 << 8 * unsigned.itemsize))
            return _with_base(smallest, differences.astype(UNSIGNED[width_code]).view(np.uint8)), width_code
    return None


def narrow_decimals(raw: Bytes) -> Bytes | None:
    """Returns 16-byte integers as Narrow's output with 8-byte differences to 0; ``None`` if too large."""
    halves = raw.view("<i8").reshape(-1, 2)
    low = np.ascontiguousarray(halves[:, 0])
    return _with_base(0, low.view(np.uint8)) if np.array_equal(halves[:, 1], low >> 63) else None


def narrow_decode(stored: Bytes, log2_width: int, width_code: int, raw_size: int) -> Bytes:
    """Returns the raw bytes: the base plus each difference."""
    count = raw_size >> log2_width
    target = UNSIGNED[min(log2_width, 3)]
    base = target.type(int(stored[:8].view("<u8")[0]) & ((1 << 8 * target.itemsize) - 1))
    differences = None if width_code == CONSTANT_WIDTH_CODE else stored[8:].view(UNSIGNED[width_code])
    if log2_width < DECIMAL_LOG2:
        if differences is None:
            return np.full(count, base, target).view(np.uint8)
        return np.add(differences, base, dtype=target).view(np.uint8)
    wide = np.empty((count, 2), "<u8")
    if differences is None:
        wide[:, 0] = base
    else:
        np.add(differences, base, out=wide[:, 0])  # straight into every other word: several times faster than a copy
    if int(base) < 1 << 63 and width_code != 3:  # the smallest value is not negative, so no value is
        wide[:, 1] = 0
    else:
        signed = wide.view("<i8")
        np.right_shift(signed[:, 0], 63, out=signed[:, 1])
    return wide.reshape(-1).view(np.uint8)


def compute_narrow_size(log2_width: int, width_code: int, raw_size: int) -> int:
    """Returns the size of Narrow's output for ``raw_size`` bytes of input."""
    return 8 if width_code == CONSTANT_WIDTH_CODE else 8 + ((raw_size >> log2_width) << width_code)


def _with_base(base: int, differences: Bytes) -> Bytes:
    return np.concatenate([np.array([base % (1 << 64)], "<u8").view(np.uint8), differences])


def _split(raw: Bytes, log2_width: int) -> tuple[npt.NDArray[np.unsignedinteger], Bytes]:
    whole = len(raw) >> log2_width << log2_width
    return raw[:whole].view(UNSIGNED[log2_width]), raw[whole:]


def _join(values: npt.NDArray[np.unsignedinteger], tail: Bytes) -> Bytes:
    head = values.view(np.uint8)
    return np.concatenate([head, tail]) if len(tail) else head
