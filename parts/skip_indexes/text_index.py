"""text: every token of a part with the granules that contain it.

``step`` is one number: the granules for which a posting stands. ``firsts`` are the first tokens of the blocks that
follow. Block ``b`` has its sorted tokens (``tokens b``) and for each the sorted numbers of its granules, divided by the
step (``granules b``). A reader decodes only the blocks that it searches.

While a part is written, an index keeps each distinct token once and four bytes for each posting. Beyond
``_MOST_POSTINGS`` the step doubles; with more distinct tokens than ``_MOST_TOKENS`` there is no index. So memory is
bounded whatever the rows are.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parts.skip_indexes.minmax_index import NamedArrays, to_single_array
from parts.skip_indexes.tokenizers import tokenize
from parts.table.table_description import SkipIndex
from parts.types import ArrayType, DataType, IntegerType, StringType

_NUMBER = IntegerType(32, False)
_TEXT = StringType()
_POSTINGS = ArrayType(_NUMBER)
_BLOCK_TOKENS = 4096
_MOST_POSTINGS = 1 << 26
_MOST_TOKENS = 1 << 25
_MOST_TOKEN_BYTES = 1 << 29
_TOGETHER_AT_LEAST = 1 << 20
"""The least number of waiting postings that are merged with the others."""


@dataclass(frozen=True)
class _Dictionary:
    """Distinct tokens (large binary), how many postings each has, and the postings, token by token."""

    tokens: pa.Array
    counts: np.ndarray
    granules: np.ndarray


_NOTHING = _Dictionary(pa.array([], pa.large_binary()), np.zeros(0, np.int64), np.zeros(0, np.uint32))


class TextIndexWriter:
    """Builds a text index of a part. Implements ``parts.skip_indexes.index_builder.SkipIndexWriter``."""

    def __init__(self, index: SkipIndex, granularity: int) -> None:
        self.index = index
        self._granularity = granularity
        self._rows = 0
        self._step = 1
        self._whole = _NOTHING
        self._waiting: list[_Dictionary] = []
        self._waiting_postings = 0
        self._is_too_large = False

    def add(self, block: pa.Table) -> None:
        """Adds the next rows."""
        if self._is_too_large:
            return
        (column,) = self.index.key.evaluate(block)
        for tokens in tokenize(self.index.arguments, to_single_array(column)):
            rows = len(tokens.ends) - 1
            granule = (self._rows + np.arange(rows)) // (self._granularity * self._step)
            owners = np.repeat(granule.astype(np.uint32), np.diff(tokens.ends))
            self._add_waiting(_dictionary(tokens.values, owners))
            self._rows += rows

    def to_named_arrays(self) -> NamedArrays | None:
        self._merge_waiting()
        whole = self._whole
        if self._is_too_large:
            return None
        order = pc.array_sort_indices(whole.tokens)
        tokens = whole.tokens.take(order)
        places = order.to_numpy()
        ends = np.concatenate(([0], np.cumsum(whole.counts)))
        cuts = range(0, len(tokens), _BLOCK_TOKENS)
        found: list[tuple[str, DataType, pa.Array]] = [
            ("step", _NUMBER, pa.array([self._step], pa.uint32())),
            ("firsts", _TEXT, _texts(tokens.take(pa.array(cuts, pa.int64())))),
        ]
        for number, cut in enumerate(cuts):
            chosen = places[cut : cut + _BLOCK_TOKENS]
            counts = whole.counts[chosen]
            offsets = np.concatenate(([0], np.cumsum(counts)))
            postings = whole.granules[np.arange(int(offsets[-1])) + np.repeat(ends[chosen] - offsets[:-1], counts)]
            lists = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(postings)).cast(_POSTINGS.arrow)
            found.append((f"tokens {number}", _TEXT, _texts(tokens.slice(cut, _BLOCK_TOKENS))))
            found.append((f"granules {number}", _POSTINGS, lists))
        return found

    def _add_waiting(self, dictionary: _Dictionary) -> None:
        self._waiting.append(dictionary)
        self._waiting_postings += len(dictionary.granules)
        if self._waiting_postings > max(_TOGETHER_AT_LEAST, len(self._whole.granules) // 2):
            self._merge_waiting()

    def _merge_waiting(self) -> None:
        parts = [self._whole, *self._waiting]
        self._waiting, self._waiting_postings = [], 0
        tokens = pa.concat_arrays([part.tokens for part in parts])
        numbers = np.repeat(np.arange(len(tokens)), np.concatenate([part.counts for part in parts]))
        granules = np.concatenate([part.granules for part in parts])
        encoded = tokens.dictionary_encode()
        self._whole = _grouped(encoded.dictionary, encoded.indices.to_numpy()[numbers], granules)
        tokens = self._whole.tokens
        if len(tokens) > min(_MOST_TOKENS, _MOST_POSTINGS) or tokens.nbytes > _MOST_TOKEN_BYTES:
            self._is_too_large = True
            self._whole = _NOTHING
        while len(self._whole.granules) > _MOST_POSTINGS:
            self._step *= 2
            whole = self._whole
            numbers = np.repeat(np.arange(len(whole.tokens)), whole.counts)
            self._whole = _grouped(whole.tokens, numbers, whole.granules // 2)


def _dictionary(tokens: pa.Array, granules: np.ndarray) -> _Dictionary:
    encoded = tokens.cast(pa.large_binary()).dictionary_encode()
    return _grouped(encoded.dictionary, encoded.indices.to_numpy(), granules)


def _grouped(tokens: pa.Array, numbers: np.ndarray, granules: np.ndarray) -> _Dictionary:
    """Groups postings in any order, and removes duplicates."""
    keys = (numbers.astype(np.uint64) << np.uint64(32)) | granules
    keys.sort()
    is_new = np.ones(len(keys), bool)
    np.not_equal(keys[1:], keys[:-1], out=is_new[1:])
    keys = keys[is_new]
    counts = np.bincount((keys >> np.uint64(32)).astype(np.int64), minlength=len(tokens))
    return _Dictionary(tokens, counts, keys.astype(np.uint32))


def _texts(tokens: pa.Array) -> pa.Array:
    """Returns the tokens as strings. Those of a FixedString may be invalid UTF-8."""
    return tokens.cast(pa.binary()).view(pa.string())


class StoredPostings:
    """A part's text index. ``entries`` are decoded on access."""

    def __init__(self, entries: NamedArrays, granules: int) -> None:
        self._entries = entries
        self._granules = granules
        self._step = entries[0][2][0].as_py()
        self._firsts = [token.as_buffer().to_pybytes() for token in entries[1][2]]

    def may_contain(self, token: bytes) -> np.ndarray:
        """Returns for each granule whether it may contain the token."""
        block = bisect_right(self._firsts, token) - 1
        if block < 0:
            return self._mask([])
        place = pc.index(self._tokens(block), pa.scalar(token, pa.binary())).as_py()
        return self._mask([] if place < 0 else [self._lists(block).slice(place, 1)])

    def may_match(self, test: Callable[[pa.Array], pa.Array]) -> np.ndarray:
        """Returns for each granule whether it may contain a token that passes the test."""
        return self._mask([
            self._lists(block).filter(test(self._tokens(block))) for block in range(len(self._firsts))
        ])  # fmt: skip

    def _tokens(self, block: int) -> pa.Array:
        return self._entries[2 + 2 * block][2].cast(pa.binary())

    def _lists(self, block: int) -> pa.Array:
        return self._entries[3 + 2 * block][2]

    def _mask(self, lists: Sequence[pa.Array]) -> np.ndarray:
        mask = np.zeros(-(-self._granules // self._step), bool)
        for one in lists:
            mask[one.flatten().to_numpy()] = True
        return np.repeat(mask, self._step)[: self._granules]
