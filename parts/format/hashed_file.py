"""Files of parts: written once with a running hash, fsynced, read by memory map."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import wait
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa
import xxhash

from parts.common.errors import CorruptionError
from parts.common.thread_pool import submit
from parts.format.checksums import FileChecksum

_MOST_PIECES = 512
_GATHER_BYTES = 128 * 1024
_FEW_SYNCS = 2
_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0)


_sync: Callable[[int], None] = os.fsync


def sync_descriptor(descriptor: int) -> None:
    """Calls fsync. Every fsync of the process goes through here."""
    _sync(descriptor)


@contextmanager
def replace_sync(instead: Callable[[int], None]) -> Iterator[None]:
    """Replaces fsync inside the block, for a simulated disk."""
    global _sync
    former, _sync = _sync, instead
    try:
        yield
    finally:
        _sync = former


class HashedFile:
    """A new append-only file that knows its size and XXH3-128. Used by one thread at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size = 0
        self._hasher = xxhash.xxh3_128()
        self._gathered: list[bytes | memoryview] = []
        self._gathered_bytes = 0
        self._descriptor = os.open(path, _FLAGS, 0o644)

    def write(self, pieces: Sequence[bytes | memoryview]) -> None:
        """Appends the pieces. Small writes are gathered in memory first."""
        size = sum(len(piece) for piece in pieces)
        if size < _GATHER_BYTES:
            self._gathered.extend(pieces)
            self._gathered_bytes += size
            if self._gathered_bytes >= _GATHER_BYTES:
                self._write_gathered()
        else:
            self._write_gathered()
            for piece in pieces:
                self._hasher.update(piece)
            self._write_out([piece for piece in pieces if len(piece)])
        self.size += size

    def _write_gathered(self) -> None:
        if self._gathered:
            data = b"".join(self._gathered)
            self._gathered, self._gathered_bytes = [], 0
            self._hasher.update(data)
            self._write_out([data])

    def _write_out(self, pieces: list[bytes | memoryview]) -> None:
        for start in range(0, len(pieces), _MOST_PIECES):
            some = pieces[start : start + _MOST_PIECES]
            total = sum(len(piece) for piece in some)
            written = os.writev(self._descriptor, some)
            if written < total:  # a full disk raises; a short write is continued
                rest = memoryview(b"".join(some))
                while written < total:
                    written += os.write(self._descriptor, rest[written:])

    @property
    def checksum(self) -> FileChecksum:
        """The size and hash of everything written."""
        self._write_gathered()
        return FileChecksum(self.size, self._hasher.hexdigest())

    def sync(self) -> None:
        """Writes everything to disk."""
        self._write_gathered()
        sync_descriptor(self._descriptor)

    def close(self) -> None:
        """Writes everything to the operating system and closes. Closing twice is fine."""
        if self._descriptor >= 0:
            try:
                self._write_gathered()
            finally:
                self.discard()

    def discard(self) -> None:
        """Closes without writing what is gathered, for an unwanted file. Does not fail on a full disk."""
        descriptor, self._descriptor = self._descriptor, -1
        self._gathered, self._gathered_bytes = [], 0
        if descriptor >= 0:
            os.close(descriptor)


class InMemoryFile:
    """A file in memory with the interface of :class:`HashedFile`, to become part of another file."""

    def __init__(self, name: str) -> None:
        self.path = Path(name)
        self.size = 0
        self._pieces: list[bytes | memoryview] = []

    def write(self, pieces: Sequence[bytes | memoryview]) -> None:
        """Appends the pieces."""
        self._pieces.extend(pieces)
        self.size += sum(len(piece) for piece in pieces)

    @property
    def content(self) -> bytes:
        """Everything written."""
        return b"".join(self._pieces)


def sync_files(files: Iterable[HashedFile], directory: Path | None = None) -> None:
    """Fsyncs all files, and ``directory`` if given, several at once: a journal commits them together."""
    syncs: list[Callable[[], None]] = [file.sync for file in files]
    if directory is not None:
        syncs.append(partial(sync_directory, directory))
    if len(syncs) <= _FEW_SYNCS:  # the journal commits the directory with the file
        for each in syncs:
            each()
        return
    waiting = [submit(sync) for sync in syncs[1:]]
    try:
        if syncs:
            syncs[0]()
    finally:
        wait(waiting)
    for sync in waiting:
        sync.result()


def sync_directory(path: Path) -> None:
    """Makes created, renamed and removed entries of a directory survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        sync_descriptor(descriptor)
    finally:
        os.close(descriptor)


class SharedSync:
    """The fsync of one directory for many threads: those that call while one runs share the next.

    Invariant: a call that returned was followed by a whole fsync that began after the call.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._changed = threading.Condition()
        self._is_running = False
        self._next = _Round()

    def __call__(self) -> None:
        """Returns after an fsync. Raises its error in every thread that shared it."""
        with self._changed:
            mine = self._next
            while self._is_running and not mine.is_done:
                self._changed.wait()
            if not mine.is_done:  # this thread runs it
                self._is_running, self._next = True, _Round()
        if not mine.is_done:
            self._run(mine)
        if mine.error is not None:
            raise mine.error

    def _run(self, mine: _Round) -> None:
        try:
            sync_directory(self._path)
        except BaseException as error:
            mine.error = error
        finally:
            with self._changed:
                mine.is_done, self._is_running = True, False
                self._changed.notify_all()


@dataclass(slots=True)
class _Round:
    is_done: bool = False
    error: BaseException | None = None


def make_directories(path: Path) -> None:
    """Creates ``path`` and its missing ancestors, so that they survive a power cut.

    Existing ones are fine.
    """
    missing = []
    while not path.exists():
        missing.append(path)
        path = path.parent
    for directory in reversed(missing):
        directory.mkdir(exist_ok=True)
        sync_directory(directory.parent)


def link_files(source: Path, target: Path, *, should_sync: bool) -> None:
    """Hard-links the files of ``source`` into ``target`` on the same disk.

    Whoever rewrites a file gets one of its own.
    """
    for file in sorted(source.iterdir()):
        os.link(file, target / file.name)
    if should_sync:
        sync_directory(target)


_DAMAGED = (
    errno.EIO, errno.EREMOTEIO, errno.EBADMSG, errno.EUCLEAN, errno.ENODATA,  # the disk, or the file system, is broken
    errno.EISDIR, errno.ENOTDIR, errno.ELOOP,  # the path is not a file
)  # fmt: skip
"""Errors of a file that cannot be read, however often it is tried."""


def convert_read_error(error: OSError, part: str, file: str) -> Exception:
    """Converts an error of reading a part's file.

    ``CorruptionError`` 226 (NO_FILE_IN_DATA_PART) or 74 (CANNOT_READ_FROM_FILE_DESCRIPTOR). Temporary errors (too many
    open files, permissions) are returned unchanged.
    """
    if error.errno == errno.ENOENT:
        return CorruptionError("File is missing", part=part, file=file, name="NO_FILE_IN_DATA_PART")
    if error.errno in _DAMAGED:
        message = f"File cannot be read ({error.strerror or error})"
        return CorruptionError(message, part=part, file=file, name="CANNOT_READ_FROM_FILE_DESCRIPTOR")
    return error


_before_reading: Callable[[Path], None] = lambda path: None  # noqa: E731


@contextmanager
def call_before_reads(before: Callable[[Path], None]) -> Iterator[None]:
    """Calls ``before`` with every file of a part before it is read; it may fail as a disk does."""
    global _before_reading
    former, _before_reading = _before_reading, before
    try:
        yield
    finally:
        _before_reading = former


def read_small_file(path: Path, part: str) -> bytes:
    """Returns a small file's bytes. Raises as :func:`convert_read_error` converts."""
    try:
        _before_reading(path)
        return path.read_bytes()
    except OSError as error:
        raise convert_read_error(error, part, path.name) from None


def stat_file(path: Path, part: str) -> os.stat_result:
    """Returns the size and times of a part's file. Raises as :func:`convert_read_error` converts."""
    try:
        return path.stat()
    except OSError as error:
        raise convert_read_error(error, part, path.name) from None


def check_size(path: Path, expected_size: int, part: str) -> None:
    """Raises ``CorruptionError`` unless the file exists with this size."""
    size = stat_file(path, part).st_size
    if size != expected_size:
        message = f"File has {size} bytes instead of {expected_size}"
        raise CorruptionError(message, part=part, file=path.name, offset=min(size, expected_size))


def refuse_other_files(directory: Path, known: Collection[str], part: str) -> None:
    """Raises ``CorruptionError`` for a file of the part's directory that is not ``known``."""
    try:
        found = list(directory.iterdir())
    except OSError as error:
        raise convert_read_error(error, part, ".") from None
    for path in found:
        if path.name not in known:
            message = "File does not belong to the part"
            raise CorruptionError(message, part=part, file=path.name, name="UNEXPECTED_FILE_IN_DATA_PART")


def map_file(path: Path, expected_size: int, part: str) -> pa.Buffer:
    """Returns the file's bytes, mapped.

    The size is checked first: touching pages past the end would kill the process.
    """
    check_size(path, expected_size, part)
    if expected_size == 0:
        return pa.py_buffer(b"")
    try:
        _before_reading(path)
        with pa.memory_map(str(path)) as mapped:
            return mapped.read_buffer(expected_size)
    except OSError as error:
        raise convert_read_error(error, part, path.name) from None
