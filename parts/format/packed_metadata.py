"""The small files of a part, each alone (wide) or packed into ``meta.bin`` (compact).

Packing saves fsyncs for small inserts. A packed part also has ``data.bin`` in it, as the last entry.

``meta.bin``, little-endian: magic ``PANDOMT1``; u32 number of entries, u32 zero; per entry u64 offset, u64 size, 32
bytes of name padded with zeros; then the entries, each at a multiple of 8; at the end 16 bytes XXH3-128 of everything
before.
"""

from __future__ import annotations

import functools
import os
import struct
from collections.abc import Collection
from pathlib import Path

import pyarrow as pa
import xxhash

from parts.common.errors import CorruptionError
from parts.format.checksums import check_major_version
from parts.format.file_names import DATA_FILE, META_FILE
from parts.format.hashed_file import map_file, read_small_file

_MAGIC = b"PANDOMT1"
_NAME_BYTES = 32
_FEW_BYTES = 4096
_HEAD = struct.Struct("<8sII")
_ENTRY = struct.Struct("<QQ32s")


def pack_files(files: dict[str, bytes]) -> bytes:
    """Returns the bytes of ``meta.bin``."""
    offset = _HEAD.size + _ENTRY.size * len(files)
    head = [_HEAD.pack(_MAGIC, len(files), 0)]
    body: list[bytes] = []
    for name, data in files.items():
        assert len(name.encode()) <= _NAME_BYTES, name
        head.append(_ENTRY.pack(offset, len(data), name.encode()))
        body += [data, bytes(-len(data) % 8)]
        offset += len(data) + -len(data) % 8
    packed = b"".join(head + body)
    return packed + xxhash.xxh3_128_digest(packed)


def unpack_files(data: bytes, part: str) -> dict[str, bytes]:
    """Returns the files in ``meta.bin``.

    Raises ``CorruptionError``, ``UserError`` 287 for a newer major version.
    """
    return {name: data[offset : offset + size] for name, (offset, size) in _places(data, part).items()}


def _places(data: bytes, part: str) -> dict[str, tuple[int, int]]:
    """Returns offset and size of every file in ``meta.bin``. Raises as :func:`unpack_files`."""
    if len(data) < _HEAD.size + 16 or xxhash.xxh3_128_digest(data[:-16]) != data[-16:]:
        raise CorruptionError("Checksum of the packed metadata doesn't match", part=part, file=META_FILE, offset=0)
    magic, count, _ = _HEAD.unpack_from(data)
    if magic[:-1] == _MAGIC[:-1] and magic[-1:].isdigit():
        check_major_version(int(magic[-1:]), part)
    if magic != _MAGIC:
        raise CorruptionError("Unknown format", part=part, file=META_FILE, offset=0, name="CORRUPTED_DATA")
    entries = _ENTRY.iter_unpack(data[_HEAD.size : _HEAD.size + count * _ENTRY.size])
    return {_name(name): (offset, size) for offset, size, name in entries}


@functools.lru_cache(maxsize=1024)
def _name(padded: bytes) -> str:
    return padded.rstrip(b"\x00").decode()


class MetadataReader:
    """Reads the small files of the part in ``directory`` by name, packed or not.

    ``written``: the bytes of ``meta.bin``, from a caller that has just written them.
    """

    def __init__(self, directory: Path, part: str, written: bytes = b"") -> None:
        self.directory = directory
        self._part = part
        self._is_written = bool(written)
        self.is_packed = bool(written) or os.path.lexists(directory / META_FILE)
        self._held = written or (read_small_file(directory / META_FILE, part) if self.is_packed else b"")
        self._packed = _places(self._held, part) if self.is_packed else {}
        self._bytes = len(self._held)

    @property
    def packed_names(self) -> Collection[str]:
        """The names inside ``meta.bin``; none for a wide part."""
        return self._packed.keys()

    def release_data(self) -> None:
        """Drops data at the end of ``meta.bin`` from memory; :meth:`map_data` maps them when needed.

        Few bytes that were read stay: a part is usually read soon after it is opened, and mapping takes longer than
        reading them.
        """
        if DATA_FILE in self._packed and (self._is_written or self._bytes > _FEW_BYTES):
            offset = self._packed[DATA_FILE][0]
            if all(place[0] <= offset for place in self._packed.values()):
                self._held = self._held[:offset]

    def map_data(self) -> pa.Buffer:
        """Returns the data in ``meta.bin``."""
        is_held = len(self._held) == self._bytes
        whole = pa.py_buffer(self._held) if is_held else map_file(self.directory / META_FILE, self._bytes, self._part)
        return whole.slice(*self._packed[DATA_FILE])

    def read(self, name: str) -> bytes:
        """Returns a small file's bytes. Raises ``CorruptionError`` if it is missing."""
        if not self.is_packed:
            return read_small_file(self.directory / name, self._part)
        if name not in self._packed:
            message = f"{META_FILE} lacks {name}"
            raise CorruptionError(message, part=self._part, file=META_FILE, name="NO_FILE_IN_DATA_PART")
        offset, size = self._packed[name]
        return self._held[offset : offset + size]
