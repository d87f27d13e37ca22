"""The files of a part on their way between clusters.

The form is that of replicas' part exchange (:mod:`engine.interserver.protocol`): one line of JSON that lists the files,
and their bytes. The receiver checks every file against the part's own checksums.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path

from engine.interserver.part_client import check_part_checksums, receive_files
from engine.interserver.protocol import CHUNK_BYTES, Manifest
from parts.common.errors import CorruptionError, UnavailableError, convert_resource_error
from parts.common.part_name import PartName

_MAX_MANIFEST_BYTES = 16 << 20


def send_part(directory: Path) -> Iterator[bytes]:
    """Yields the manifest and the bytes of a part's files, the large ones first.

    A piece has about a megabyte.
    """
    held = bytearray()
    for piece in _read_part(directory):
        if len(held) + len(piece) > CHUNK_BYTES and held:
            yield bytes(held)
            held.clear()
        if len(piece) >= CHUNK_BYTES:
            yield piece
        else:
            held += piece
    yield bytes(held)


def _read_part(directory: Path) -> Iterator[bytes]:
    found = sorted(((file.stat().st_size, file) for file in directory.iterdir() if file.is_file()), reverse=True)
    yield Manifest(tuple((file.name, size) for size, file in found)).to_line()
    for size, file in found:
        left = size
        with open(file, "rb") as stream:
            while left:
                piece = stream.read(min(CHUNK_BYTES, left))
                if not piece:
                    raise CorruptionError(f"The file has become shorter than {size} bytes", file=file.name)
                left -= len(piece)
                yield piece


def receive_part(
    answer: io.RawIOBase | io.BytesIO,
    part: PartName,
    directory: Path,
    begin: Callable[[int], object],
    count: Callable[[int], None],
) -> int:
    """Writes a part's files into an empty directory, checked and durable; returns their size in bytes.

    ``begin`` gets the size before the first byte, ``count`` each piece's; both may raise to end the transfer. Raises
    ``CorruptionError`` for files that do not match their checksums, 243 or 75 for a disk that is full or fails.
    """
    stream = io.BufferedReader(answer, CHUNK_BYTES)
    try:
        line = stream.readline(_MAX_MANIFEST_BYTES)
        if not line.endswith(b"\n"):
            raise EOFError("the answer ended early")
        manifest = Manifest.from_line(line)
        begin(manifest.size)
        received = receive_files(stream, manifest.files, directory, count)
    except OSError as error:
        raise convert_resource_error(error) from error
    except (EOFError, ValueError, KeyError, TypeError) as error:
        raise UnavailableError("NETWORK_ERROR", f"Fetching {part} failed: {error}") from error
    check_part_checksums(directory, part, received)
    return manifest.size
