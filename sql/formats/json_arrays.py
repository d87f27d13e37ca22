"""Rows that are JSON arrays, written anew as objects, so that the reader of objects takes them.

Strings and depths are found for all bytes at once; between ``[``, the commas of depth 1 and ``]`` the keys are put in,
padded with spaces to one length.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np

from sql.formats.chunks import CHUNK_BYTES

_QUOTE, _BACKSLASH, _COMMA, _OPEN, _CLOSE = b'"\\,[]'
_WHITE = np.isin(np.arange(256), list(b" \t\r\n"))
_STEPS = np.zeros(256, np.int8)
_STEPS[list(b"[{")] = 1
_STEPS[list(b"]}")] = -1


_MOST_BYTES = 4 * CHUNK_BYTES
"""What is looked at takes some times its bytes."""


def as_objects(chunk: bytes, keys: Sequence[str]) -> bytes | None:
    """Lines of arrays of ``keys`` values as lines of objects; ``None`` for what is not so plain."""
    if len(chunk) > _MOST_BYTES:
        return None
    data = np.frombuffer(chunk, np.uint8)
    quotes = _quotes(data)
    if len(quotes) & 1:
        return None
    edges = np.zeros(len(data) + 1, np.int8)
    edges[quotes[::2]], edges[quotes[1::2] + 1] = 1, -1
    is_outside = np.cumsum(edges[:-1], dtype=np.int8) == 0
    depths = np.cumsum(np.where(is_outside, _STEPS[data], 0), dtype=np.int32)
    begins = np.flatnonzero(is_outside & (depths == 1) & (data == _OPEN) & (np.append(0, depths[:-1]) == 0))
    ends = np.flatnonzero(is_outside & (depths == 0) & (data == _CLOSE))
    commas = np.flatnonzero(is_outside & (depths == 1) & (data == _COMMA))
    rows, width = len(begins), len(keys)
    if not rows or len(ends) != rows or len(commas) != rows * (width - 1) or int(depths[-1]) or int(depths.min()) < 0:
        return None
    places = np.column_stack([begins, commas.reshape(rows, width - 1)])
    is_between = depths == 0
    is_between[ends] = False
    if (places[:, 1:2] < places[:, :1]).any():
        return None  # a row has more values, another fewer
    if (places[:, -1] >= ends).any() or (begins[1:] <= ends[:-1]).any() or not _WHITE[data[is_between]].all():
        return None
    return _with_keys(data, places.reshape(-1), ends, keys)


def _quotes(data: np.ndarray) -> np.ndarray:
    """Where strings begin and end: quotes behind an even number of backslashes."""
    quotes = np.flatnonzero(data == _QUOTE)
    backslashes = np.flatnonzero(data == _BACKSLASH)
    if not len(backslashes):
        return quotes
    is_first = np.append(True, np.diff(backslashes) != 1)
    run_begins = np.maximum.accumulate(np.where(is_first, backslashes, 0))
    is_escaping = (backslashes - run_begins) % 2 == 0
    return quotes[~np.isin(quotes, backslashes[is_escaping] + 1)]


def _with_keys(data: np.ndarray, places: np.ndarray, ends: np.ndarray, keys: Sequence[str]) -> bytes:
    texts = [("{" if not index else ",") + json.dumps(key, ensure_ascii=False) + ":" for index, key in enumerate(keys)]
    size = max(len(text.encode()) for text in texts)
    matrix = np.stack([np.frombuffer(text.encode().ljust(size), np.uint8) for text in texts])
    data = data.copy()
    data[ends] = ord("}")
    heads = places + np.arange(len(places)) * (size - 1)
    out = np.empty(len(data) + len(places) * (size - 1), np.uint8)
    is_data = np.ones(len(out), bool)
    spots = heads[:, None] + np.arange(size)
    out[spots.reshape(-1, len(keys), size)] = matrix
    is_data[spots] = False
    is_kept = np.ones(len(data), bool)
    is_kept[places] = False
    out[is_data] = data[is_kept]
    return out.tobytes()
