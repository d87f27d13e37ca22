"""Choose the chain of a column's values by trying, for large merged parts that are kept for long.

A chain costs its stored bytes and the time to undo it. Its score, in 64ths of the raw bytes, is the stored bytes plus

====  ===========================================================================
0     nothing, Narrow;
3     LZ4 (about 3 GB/s);
4     [Narrow], Split, ZSTD(1) (about 2 GB/s: a byte's plane is often random or constant, which costs nothing);
6     the same after Scale (about 1.5 GB/s);
10    ZSTD(3) (about 1 GB/s).
====  ===========================================================================

and the lowest score wins. All chains are tried on the beginning of a frame. The choice stays for the next
:data:`_FRAMES_PER_CHOICE` frames, or until one of them scores worse by a sixteenth of its raw bytes than the frame it
was made for. So the choice depends only on the column's values: every replica makes the same.

Text, lengths, indices, bitmaps and wide decimals keep the table's codec: Split does not help there, and ZSTD alone
would make reading text several times slower.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from parts.format.codecs import transforms
from parts.format.codecs.codec_chain import LZ4, NARROW, SCALE, SPLIT, ZSTD, BufferKind, Codec, Stored, compress_zstd

_VERSION = (2, 0)
"""Format version of parts with Split or Scale, which earlier readers do not know."""
_FRAMES_PER_CHOICE = 32
_SAMPLE_BYTES = 256 * 1024
_WORSE_BY = 4
_LEAST_BYTES = 4096
Encode = Callable[[pa.Buffer, BufferKind], tuple[bytes, Stored]]


@dataclass(slots=True)
class _Choice:
    encode: Encode
    score: float
    frames_left: int = _FRAMES_PER_CHOICE


class DenseEncoder:
    """The encoder of one column. Its frames come in order, from one thread at a time."""

    def __init__(self, codec: Codec) -> None:
        self.version = codec.version
        self._codec = codec
        self._candidates: tuple[Encode, ...] = (codec.encode, _split, _scale, _zstd)
        self._choices: dict[int, _Choice] = {}

    def encode(self, raw: pa.Buffer, kind: BufferKind, position: int) -> tuple[bytes, Stored]:
        """Encodes with the best chain for the column."""
        if not kind.is_values or kind.log2_width > 3 or raw.size < _LEAST_BYTES:
            return self._codec.encode(raw, kind)
        encoded = self._encode(raw, kind, position)
        if _has(SPLIT, encoded[0]) or _has(SCALE, encoded[0]):
            self.version = max(self.version, _VERSION)
        return encoded

    def _encode(self, raw: pa.Buffer, kind: BufferKind, position: int) -> tuple[bytes, Stored]:
        choice = self._choices.get(position)
        if choice is not None and choice.frames_left:
            choice.frames_left -= 1
            encoded = choice.encode(raw, kind)
            if _score(encoded, raw.size) <= choice.score + _WORSE_BY:
                return encoded
        sample = raw.slice(0, min(raw.size, _SAMPLE_BYTES))
        best = min(self._candidates, key=lambda encode: _score(encode(sample, kind), sample.size))
        encoded = best(raw, kind)
        self._choices[position] = _Choice(best, _score(encoded, raw.size))
        return encoded


def _has(family: int, chain: bytes) -> bool:
    return any(method & 0xF0 == family for method in chain)


def _score(encoded: tuple[bytes, Stored], raw_size: int) -> float:
    chain, stored = encoded
    if _has(SCALE, chain):
        undoing = 6
    elif _has(SPLIT, chain):
        undoing = 4
    elif ZSTD in chain:
        undoing = 10
    else:
        undoing = 3 if LZ4 in chain else 0
    return 64 * memoryview(stored).nbytes / raw_size + undoing


def _split(raw: pa.Buffer, kind: BufferKind) -> tuple[bytes, Stored]:
    """Encodes with Narrow where it helps, then Split, then ZSTD(1)."""
    current, log2_width = np.frombuffer(raw, np.uint8), kind.log2_width
    chain = bytearray()
    narrowed = transforms.narrow_encode(current, log2_width, kind.integers == "signed") if kind.integers else None
    if narrowed is not None:
        chain.append(NARROW + 8 * log2_width + narrowed[1])
        current, log2_width = narrowed
    if 1 <= log2_width <= 3:
        chain.append(SPLIT + log2_width)
        current = transforms.split_encode(current, log2_width)
    return bytes([*chain, ZSTD]), compress_zstd(current, 1)


def _scale(raw: pa.Buffer, kind: BufferKind) -> tuple[bytes, Stored]:
    """Encodes floats that are decimal fractions as scaled integers, and others as :func:`_split`."""
    is_float = kind.log2_width == 3 and not kind.integers
    scaled = transforms.scale_encode(np.frombuffer(raw, np.uint8)) if is_float else None
    if scaled is None:
        return _split(raw, kind)
    integers, exponent = scaled
    chain, stored = _split(pa.py_buffer(integers), BufferKind(3, "signed", True))
    return bytes([SCALE + exponent, *chain]), stored


def _zstd(raw: pa.Buffer, _: BufferKind) -> tuple[bytes, Stored]:
    return bytes([ZSTD]), compress_zstd(raw, 3)
