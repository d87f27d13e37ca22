"""Verify a whole part piece by piece, so that the caller can pause in between."""

from __future__ import annotations

from collections.abc import Iterator

import xxhash

from parts.common.errors import CorruptionError, PartLabel
from parts.format.hashed_file import check_size, convert_read_error
from parts.read.part_reader import Part

PIECE_BYTES = 1 << 20


def verify_slowly(part: Part) -> Iterator[int]:
    """Verifies as ``Part.verify``. Yields the bytes read since the last time, about :data:`PIECE_BYTES`."""
    files = part.list_data_files()
    for file in files:
        yield from _read_through(part, file)
    part.verify(known=files)
    yield part.bytes_on_disk - sum(part.checksums.files[file].size for file in files)


def _read_through(part: Part, file: str) -> Iterator[int]:
    """Yields the bytes read. Raises ``CorruptionError`` if the file is not what was written."""
    expected, path, label = part.checksums.files[file], part.path / file, PartLabel(str(part.name), part.path)
    check_size(path, expected.size, label)
    hasher = xxhash.xxh3_128()
    try:
        with open(path, "rb", buffering=0) as stream:
            while piece := stream.read(PIECE_BYTES):
                hasher.update(piece)
                yield len(piece)
    except OSError as error:
        raise convert_read_error(error, label, file) from None
    if hasher.hexdigest() != expected.hash:
        raise CorruptionError("Checksum doesn't match", part=label, file=file, offset=0)
