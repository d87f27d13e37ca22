"""Formats floats as ClickHouse does: shortest digits, an exponent from 1e21 on and below 1e-6.

Polars finds the digits, but it uses exponents from 1e16 on and below 1e-5; those numbers are rewritten here.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sql.typing.column_kernels.kernels import fixed_width_values

_FIRST_BIG, _FIRST_EXPONENT = 1e16, 1e21
_LEAST_PLAIN, _FIRST_PLAIN = 1e-6, 1e-5


def format_floats(values: pa.Array) -> pa.Array:
    """Formats Float64 values."""
    import polars as pl  # takes 0.1 s

    spelled = pl.from_arrow(values).cast(pl.String).str.strip_suffix(".0").to_arrow().cast(pa.string())
    sizes = np.abs(fixed_width_values(values, np.float64))
    if values.null_count:
        sizes = np.where(np.asarray(pc.is_valid(values)), sizes, 0)
    with np.errstate(invalid="ignore"):
        is_odd = ~((sizes < _FIRST_BIG) & ((sizes >= _FIRST_PLAIN) | (sizes == 0)))
        is_odd &= ~(sizes < _LEAST_PLAIN)
    if not is_odd.any():
        return spelled
    some = pa.array(is_odd)
    return pc.replace_with_mask(spelled, some, _rewrite_exponents(spelled.filter(some), sizes[is_odd]))


def _rewrite_exponents(spelled: pa.Array, sizes: np.ndarray) -> pa.Array:
    result = pc.replace_substring(spelled, "+", "")
    if np.isnan(sizes).any():
        result = pc.if_else(pa.array(np.isnan(sizes)), "nan", result)
    for power in range(16, 21):
        result = _expand_exponent(result, (sizes >= _FIRST_BIG) & (sizes < _FIRST_EXPONENT), power)
    is_small = (sizes >= _LEAST_PLAIN) & (sizes < _FIRST_PLAIN)
    if is_small.any():
        some = pa.array(is_small)
        plain = pc.replace_substring_regex(result.filter(some), r"^(-?)([0-9])[.]?([0-9]*)e-6$", r"\10.00000\2\3")
        result = pc.replace_with_mask(result, some, plain)
    return result


def _expand_exponent(spelled: pa.Array, is_big: np.ndarray, power: int) -> pa.Array:
    """Rewrites texts with the exponent ``power`` as plain integers."""
    end = f"e{power}"
    some = pc.and_(pa.array(is_big), pc.ends_with(spelled, end))
    if not pc.any(some).as_py():
        return spelled
    found = pc.replace_substring(pc.utf8_slice_codeunits(spelled.filter(some), 0, -len(end)), ".", "")
    signs = pc.if_else(pc.starts_with(found, "-"), "-", "")
    digits = pc.utf8_rpad(pc.utf8_ltrim(found, "-"), power + 1, "0")
    return pc.replace_with_mask(spelled, some, pc.binary_join_element_wise(signs, digits, ""))
