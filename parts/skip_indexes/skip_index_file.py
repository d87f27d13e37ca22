"""``skip.idx``: the skip indexes of a part, one after the other. Integers are little-endian.

``u32`` length of a JSON header, the header, zeros up to a multiple of 8, then for every index its values
(``parts.format.array_file``), padded likewise. The header is a list with, for each index: its name, kind, expressions,
types, arguments and granularity, by which a reader tells whether it is the index that the table has now, and the offset
behind the header, the size, and the size before compression.

What an index says is true of the part's columns as they were written. It is asked only where the table's columns are
the same (:meth:`parts.read.opened_part.OpenedPart.skip_index`).
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from parts.common.errors import CorruptionError
from parts.format.array_file import LazyNamedArrays, encode_named_arrays
from parts.format.file_names import SKIP_INDEXES
from parts.skip_indexes.minmax_index import NamedArrays
from parts.table.table_description import SkipIndex


@dataclass(frozen=True, slots=True)
class EncodedSkipIndex:
    """One index as it is in a file: what describes it, its bytes, and how many they were before compression."""

    description: Sequence[object]
    data: bytes | pa.Buffer
    uncompressed_bytes: int

    @property
    def name(self) -> str:
        return str(self.description[0])

    @property
    def size(self) -> int:
        return len(self.data)


class SkipIndexFile:
    """The indexes of a part. ``data`` is the file, mapped or read."""

    def __init__(self, data: pa.Buffer, part: str) -> None:
        self._data = data
        self._part = part
        try:
            (length,) = struct.unpack_from("<I", data)
            header = json.loads(bytes(data.slice(4, length)))
            begin = 4 + length + -(4 + length) % 8
            self._stored = {}
            end = 0
            for *description, offset, size, uncompressed in header:
                if offset != end:
                    raise ValueError(f"an index begins at {offset}, the last one ended at {end}")
                end += size + -size % 8
                found = EncodedSkipIndex(description, data.slice(begin + offset, size), uncompressed)
                self._stored[json.dumps(description)] = found
            if begin + end != data.size:
                raise ValueError(f"{begin + end} bytes are told of, {data.size} are there")
        except (struct.error, ValueError, TypeError, IndexError, pa.ArrowException) as error:
            raise CorruptionError(
                f"Bad header ({error})", part=part, file=SKIP_INDEXES, offset=0, name="CORRUPTED_DATA"
            ) from error

    def __iter__(self) -> Iterator[EncodedSkipIndex]:
        return iter(self._stored.values())

    def find(self, index: SkipIndex) -> EncodedSkipIndex | None:
        """What the part has of this very index."""
        return self._stored.get(json.dumps(_described(index)))

    def values(self, index: SkipIndex) -> NamedArrays | None:
        """The same, decoded, or of a text index to be decoded where it is looked into. Raises ``CorruptionError``."""
        found = self.find(index)
        if found is None:
            return None
        stored = LazyNamedArrays(found.data, self._part, SKIP_INDEXES)
        return stored if index.kind == "text" else list(stored)


def encode_index(index: SkipIndex, values: NamedArrays) -> EncodedSkipIndex:
    raw = sum(array.nbytes for _, _, array in values)
    return EncodedSkipIndex(_described(index), encode_named_arrays(values), raw)


def encode_index_file(indexes: Sequence[EncodedSkipIndex]) -> bytes:
    header: list[list[object]] = []
    pieces: list[bytes] = []
    offset = 0
    for index in indexes:
        header.append([*index.description, offset, index.size, index.uncompressed_bytes])
        pieces += [bytes(index.data), bytes(-index.size % 8)]
        offset += index.size + -index.size % 8
    text = json.dumps(header, ensure_ascii=False).encode()
    head = struct.pack("<I", len(text)) + text
    return b"".join([head, bytes(-len(head) % 8), *pieces])


def _described(index: SkipIndex) -> list[object]:
    types = [type_.name for type_ in index.key.types]
    return [index.name, index.kind, list(index.key.expressions), types, list(index.arguments), index.granularity]
