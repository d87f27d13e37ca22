"""Fetches parts from another replica into temporary directories, checked and durable."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, wait
from functools import partial
from http.client import HTTPConnection, HTTPException, HTTPResponse
from io import FileIO
from pathlib import Path
from typing import Protocol, TypeVar
from urllib.parse import urlencode, urlsplit

import xxhash

from coordination.keeper.request_limits import split_into_chunks
from engine.interserver.protocol import CHUNK_BYTES, EXCEPTION_CODE_HEADER, Manifest, StagedCopy, basic_authorization
from engine.interserver.transfer import Transfer
from parts.common.errors import (
    CorruptionError,
    PandoError,
    UnavailableError,
    convert_resource_error,
    make_error_from_code,
)
from parts.common.part_name import PartName
from parts.common.thread_pool import submit
from parts.format.hashed_file import sync_descriptor, sync_directory
from parts.read.part_reader import open_part

_CONNECT_SECONDS = 3.0
_ANSWER_SECONDS = 30.0
_MAX_IDLE = 8
_MAX_ERROR_BYTES = 64 * 1024
_MAX_MANIFEST_BYTES = 16 * 1024 * 1024
_NAMES_IN_A_REQUEST = 500

_T = TypeVar("_T")


class InterserverClient:
    """A client that keeps a few idle connections to other replicas. May be called from any thread."""

    def __init__(
        self, credentials: tuple[str, str] | None, failpoint: Callable[[str], None] = lambda name: None
    ) -> None:
        self._failpoint = failpoint
        self._headers = {"User-Agent": "pando"}
        if credentials is not None:
            self._headers["Authorization"] = basic_authorization(credentials)
        self._lock = threading.Lock()
        self._idle: list[_Connection] = []
        self._is_closed = False

    def close(self) -> None:
        """Closes the idle connections; those in use are closed after their request."""
        with self._lock:
            idle, self._idle, self._is_closed = self._idle, [], True
        for connection in idle:
            connection.close()

    def fetch_part(
        self,
        base_url: str,
        endpoint: str,
        part: PartName,
        directory: Path,
        transfer: Transfer | None = None,
    ) -> None:
        """Downloads a part's files into ``directory`` and fsyncs the files and the directory.

        Raises the other side's error, such as 232 (no such part), and:

        - ``CancelledError`` soon after ``transfer`` raises it;
        - ``UnavailableError`` 210 (NETWORK_ERROR) if the other side does not answer or breaks off;
        - ``UnavailableError`` 243 or 75 if the disk here is full or fails;
        - ``CorruptionError`` if the received files do not match their checksums.
        """
        if part not in self.fetch_parts(base_url, endpoint, {part: directory}, transfer):
            raise UnavailableError("NETWORK_ERROR", f"Fetching {part} from {base_url} failed: it did not come")

    def fetch_parts(
        self,
        base_url: str,
        endpoint: str,
        directories: Mapping[PartName, Path],
        transfer: Transfer | None = None,
    ) -> list[PartName]:
        """Downloads several parts with one request, as :meth:`fetch_part` does; returns those received.

        The other side may lack some, and a server of an older version sends only the first.
        """

        transfer = transfer or Transfer()

        def on_piece(size: int) -> None:
            transfer.count_received(size)
            self._failpoint("fetch.piece")

        def read(answer: HTTPResponse) -> dict[PartName, dict[str, tuple[int, str]]]:
            transfer.begin(answer.length or 0)
            return _receive(answer, directories, on_piece)

        received = self._exchange(base_url, _make_target("/part", endpoint, directories), read)
        for part, hashes in received.items():
            check_part_checksums(directories[part], part, hashes)
        self._failpoint("fetch.after_temporary_part")
        return list(received)

    def part_hashes(self, base_url: str, endpoint: str, parts: Sequence[PartName]) -> dict[PartName, str]:
        """Returns the content hashes of those of the parts that are active on the replica.

        Raises ``UnavailableError`` 210 (NETWORK_ERROR) if the other side does not answer, and the other side's error
        (232: no such replica).
        """
        found: dict[PartName, str] = {}
        for some in split_into_chunks(parts, _NAMES_IN_A_REQUEST):
            target = _make_target("/hashes", endpoint, some)
            hashes = self._exchange(base_url, target, lambda answer: dict(json.loads(answer.read(_MAX_MANIFEST_BYTES))))
            found |= {part: str(hashes[str(part)]) for part in some if str(part) in hashes}
        return found

    def stage_copies(
        self, base_url: str, endpoint: str, source: str, staging: str, copies: Sequence[StagedCopy]
    ) -> None:
        """Makes a replica stage parts that the replica ``source`` has staged; returns when it has them.

        Raises ``UnavailableError`` 210 (NETWORK_ERROR) if the other side does not answer, and the other side's error.
        """
        asked = {"endpoint": endpoint, "source": source, "transaction": staging, "copy": list(map(str, copies))}
        self._exchange(base_url, f"/copies?{urlencode(asked, doseq=True)}", lambda answer: answer.read())

    def _exchange(self, base_url: str, target: str, read: Callable[[HTTPResponse], _T]) -> _T:
        """Sends one request; ``read`` reads the whole response."""
        try:
            connection = self._take_connection(base_url)
            try:
                with self._send_request(connection, target) as answer:
                    if answer.status >= 400:
                        raise _read_error(answer)
                    found = read(answer)
            except BaseException:
                connection.close()
                raise
        except (OSError, EOFError, ValueError, HTTPException) as error:
            ours = convert_resource_error(error) if isinstance(error, OSError) else error
            if isinstance(ours, PandoError):  # an error of this disk, not of the network
                raise ours from error
            raise UnavailableError("NETWORK_ERROR", f"{base_url}{target[:1000]} failed: {error!r}") from error
        self._return_connection(connection)
        return found

    def _send_request(self, connection: _Connection, target: str) -> HTTPResponse:
        """Sends a GET request; reconnects once if an idle connection has died."""
        was_kept = connection.sock is not None
        try:
            connection.request("GET", target, headers=self._headers)
            return connection.getresponse()
        except (OSError, HTTPException) as error:
            if not was_kept or isinstance(error, TimeoutError):
                raise
        connection.close()
        return self._send_request(connection, target)

    def _take_connection(self, base_url: str) -> _Connection:
        with self._lock:
            for position, connection in enumerate(self._idle):
                if connection.base_url == base_url:
                    return self._idle.pop(position)
        return _Connection(base_url)

    def _return_connection(self, connection: _Connection) -> None:
        surplus: _Connection | None = connection
        with self._lock:
            if not self._is_closed:
                self._idle.append(connection)
                surplus = self._idle.pop(0) if len(self._idle) > _MAX_IDLE else None
        if surplus is not None:
            surplus.close()


def _make_target(path: str, endpoint: str, parts: Iterable[PartName]) -> str:
    return f"{path}?" + urlencode({"endpoint": endpoint, "part": list(map(str, parts))}, doseq=True)


class _Connection(HTTPConnection):
    """An HTTP connection to ``base_url`` (``http://host:port``), connected on first use.

    Raises ``ValueError``.
    """

    def __init__(self, base_url: str) -> None:
        url = urlsplit(base_url)
        if url.scheme != "http" or url.hostname is None:
            raise ValueError(f"not an interserver address: {base_url}")
        super().__init__(url.hostname, url.port or 80, timeout=_CONNECT_SECONDS)
        self.base_url = base_url

    def connect(self) -> None:
        """Connects, and lengthens the timeout for responses."""
        super().connect()
        self.sock.settimeout(_ANSWER_SECONDS)


def _read_error(answer: HTTPResponse) -> Exception:
    message = answer.read(_MAX_ERROR_BYTES).decode(errors="replace")
    return make_error_from_code(int(answer.headers.get(EXCEPTION_CODE_HEADER, "1001")), message)


def _receive(
    answer: HTTPResponse, directories: Mapping[PartName, Path], on_piece: Callable[[int], None]
) -> dict[PartName, dict[str, tuple[int, str]]]:
    """Writes the parts of a response to disk, fsynced; returns size and XXH3-128 of each file."""
    asked = {str(part): part for part in directories}
    received: dict[PartName, dict[str, tuple[int, str]]] = {}
    while answer.length or not received:
        line = answer.readline(_MAX_MANIFEST_BYTES)
        if not line.endswith(b"\n"):
            raise EOFError("the answer ended early")
        manifest = Manifest.from_line(line)
        part = asked.pop(manifest.part or next(iter(asked), ""), None)
        if part is None:
            raise ValueError(f"the answer has a part {manifest.part!r} that was not asked for")
        if answer.length is None or answer.length < manifest.size:
            raise ValueError("the answer's length is not that of its files")
        received[part] = receive_files(answer, manifest.files, directories[part], on_piece)
    return received


class ReadableAnswer(Protocol):
    """The bytes of an answer."""

    def readinto(self, buffer: memoryview, /) -> int:
        """Reads at most as many bytes as the buffer takes; returns 0 at the end."""


def receive_files(
    answer: ReadableAnswer, files: Sequence[tuple[str, int]], directory: Path, on_piece: Callable[[int], None]
) -> dict[str, tuple[int, str]]:
    """Writes a part's files to disk, fsynced, and returns size and XXH3-128 of each.

    Raises ``EOFError`` and ``OSError``.
    """
    buffer = memoryview(bytearray(min(CHUNK_BYTES, max((size for _, size in files), default=0))))
    received: dict[str, tuple[int, str]] = {}
    syncs: list[Future[None]] = []
    try:
        for name, size in files:
            file = open(directory / name, "wb", buffering=0)  # noqa: SIM115 (closed by _sync)
            try:
                received[name] = (size, _receive_file(answer, file, size, buffer, on_piece))
            except BaseException:
                file.close()
                raise
            if len(received) < len(files):
                syncs.append(submit(partial(_sync, file)))  # while the next file is received
            else:
                _sync(file)
    finally:
        wait(syncs)
    for done in syncs:
        done.result()
    sync_directory(directory)
    return received


def _receive_file(
    answer: ReadableAnswer, file: FileIO, size: int, buffer: memoryview, on_piece: Callable[[int], None]
) -> str:
    digest = xxhash.xxh3_128()
    while size:
        piece = buffer[: answer.readinto(buffer[: min(size, len(buffer))])]
        if not piece:
            raise EOFError("the answer ended early")
        came = len(piece)
        size -= came
        digest.update(piece)
        while piece:
            piece = piece[file.write(piece) :]
        on_piece(came)
    return digest.hexdigest()


def _sync(file: FileIO) -> None:
    with file:
        sync_descriptor(file.fileno())


def check_part_checksums(directory: Path, part: PartName, received: dict[str, tuple[int, str]]) -> None:
    """Checks received files against the part's checksums.

    Raises ``CorruptionError``. ``received`` gives size and XXH3-128 of every file. Opening the part checks its
    metadata; this compares every other file with the checksums.
    """
    expected = open_part(directory, name=part).checksums.files
    for name, checksum in expected.items():
        if name in received and received[name] != (checksum.size, checksum.hash):
            raise CorruptionError("A fetched file does not match the part's checksums", part=str(part), file=name)
