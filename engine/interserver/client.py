"""Fetches a part from another replica into a temporary directory, checked and durable."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import xxhash

from engine.failpoints import failpoint
from engine.interserver.protocol import CHUNK_BYTES, EXCEPTION_CODE_HEADER, Manifest
from parts.errors import CancelledError, CorruptionError, UnavailableError, error_from_code
from parts.part_name import PartName
from parts.reader import open_part

_TIMEOUT = httpx.Timeout(30.0, connect=3.0)


class InterserverClient:
    """A pool of connections to other replicas; from any thread."""

    def __init__(self, credentials: tuple[str, str] | None) -> None:
        self._http = httpx.Client(
            auth=credentials, timeout=_TIMEOUT, trust_env=False, limits=httpx.Limits(max_keepalive_connections=8)
        )

    def close(self) -> None:
        self._http.close()

    def fetch_part(
        self,
        base_url: str,
        endpoint: str,
        part: PartName,
        directory: Path,
        is_cancelled: Callable[[], bool] = lambda: False,
    ) -> None:
        """Fills ``directory`` with the part's files, fsynced. Raises ``CancelledError`` soon after ``is_cancelled()``.

        Raises ``UnavailableError`` 210 (NETWORK_ERROR) when the other side does not answer or breaks off,
        ``CorruptionError`` when what came does not match its checksums, and the other side's error (232: no such part).
        """
        try:
            with self._http.stream(
                "GET", f"{base_url}/part", params={"endpoint": endpoint, "part": str(part)}
            ) as response:
                if response.status_code >= 400:
                    message = response.read().decode(errors="replace")
                    raise error_from_code(int(response.headers.get(EXCEPTION_CODE_HEADER, 1001)), message)
                hashes = _receive_files(_ByteStream(response.iter_bytes(CHUNK_BYTES)), directory, is_cancelled)
        except (httpx.HTTPError, EOFError, ValueError) as error:
            raise UnavailableError("NETWORK_ERROR", f"Fetching {part} from {base_url} failed: {error!r}") from error
        _check(directory, part, hashes)
        failpoint("fetch.after_temporary_part")


class _ByteStream:
    """Exact reads from an iterator of chunks."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = b""

    def line(self) -> bytes:
        while b"\n" not in self._rest:
            self._rest += self._next()
        line, _, self._rest = self._rest.partition(b"\n")
        return line

    def pieces(self, size: int) -> Iterator[bytes]:
        """Exactly ``size`` bytes, in pieces. Raises ``EOFError``."""
        while size:
            piece = self._rest or self._next()
            self._rest = piece[size:]
            piece = piece[:size]
            size -= len(piece)
            yield piece

    def _next(self) -> bytes:
        for chunk in self._chunks:
            return chunk
        raise EOFError("the answer ended early")


def _receive_files(
    stream: _ByteStream, directory: Path, is_cancelled: Callable[[], bool]
) -> dict[str, tuple[int, str]]:
    """Writes the files; returns size and XXH3-128 of each."""
    received: dict[str, tuple[int, str]] = {}
    for name, size in Manifest.from_line(stream.line()).files:
        digest = xxhash.xxh3_128()
        with open(directory / name, "wb") as file:
            for piece in stream.pieces(size):
                file.write(piece)
                digest.update(piece)
                if is_cancelled():
                    raise CancelledError("The fetch was cancelled: a drop, a stop, or a new ZooKeeper session")
                failpoint("fetch.piece")
            file.flush()
            os.fsync(file.fileno())
        received[name] = (size, digest.hexdigest())
    return received


def _check(directory: Path, part: PartName, received: dict[str, tuple[int, str]]) -> None:
    """Opening checks the metadata against itself; every other file must be what the checksums say."""
    expected = open_part(directory, name=part).checksums.files
    for name, checksum in expected.items():
        if name in received and received[name] != (checksum.size, checksum.hash):
            raise CorruptionError("A fetched file does not match the part's checksums", part=str(part), file=name)
