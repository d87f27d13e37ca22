"""Reads a byte stream piece by piece for the binary formats, with memory only for what has arrived."""

from __future__ import annotations

from typing import BinaryIO

import numpy as np

from parts.common.errors import UserError
from parts.common.query_status import QueryStatus
from sql.formats.columnar.ipc_messages import read_up_to
from sql.formats.streams.varints import MAX_LENGTH_BYTES

_READ_BYTES = 1 << 18
MAX_NAME_BYTES = 1 << 20
MAX_COLUMNS = 100_000


class ByteSource:
    """A byte stream with a position. ``format_name`` stands in the errors.

    Raises 33 (CANNOT_READ_ALL_DATA) where data are cut off.
    """

    def __init__(self, stream: BinaryIO, format_name: str, status: QueryStatus) -> None:
        self._stream = stream
        self._held = b""
        self._position = 0
        self._accounted_bytes = 0
        self.format_name = format_name
        self.status = status

    def hold(self, size: int) -> None:
        """Accounts memory that the caller keeps of a block, until :meth:`release`. Raises 241."""
        self.status.memory.allocate(size, f"reading a block of {self.format_name}")
        self._accounted_bytes += size

    def release(self) -> None:
        """Frees the accounted memory."""
        self.status.memory.free(self._accounted_bytes)
        self._accounted_bytes = 0

    def is_at_end(self) -> bool:
        """Returns whether the stream has ended."""
        return not self._fill(1)

    def take(self, size: int) -> memoryview:
        """Returns the next ``size`` bytes."""
        if not self._fill(size):
            missing = size - (len(self._held) - self._position)
            raise UserError(
                "CANNOT_READ_ALL_DATA", f"{self.format_name} data are cut off: {missing} bytes of {size} are missing"
            )
        data = memoryview(self._held)[self._position : self._position + size]
        self._position += size
        return data

    def window(self, size: int = _READ_BYTES) -> memoryview:
        """Returns the next ``size`` bytes, or as many as there are, without taking them."""
        self._fill(size)
        return memoryview(self._held)[self._position : self._position + size]

    def number(self) -> int:
        """Reads a varint below 2**63. Raises 117."""
        result = 0
        for shift in range(0, 63, 7):
            byte = self.take(1)[0]
            result |= (byte & 0x7F) << shift
            if byte < 0x80:
                return result
        raise self.make_malformed_error("a number of more than nine bytes")

    def text(self, most: int = MAX_NAME_BYTES) -> str:
        """Reads a name: its length and UTF-8 bytes. Raises 117."""
        size = self.number()
        if size > most:
            raise self.make_malformed_error(f"a name of {size} bytes")
        try:
            return bytes(self.take(size)).decode()
        except UnicodeDecodeError:
            raise self.make_malformed_error("a name that is not UTF-8") from None

    def matrix(self, rows: int, width: int) -> np.ndarray:
        """Reads ``rows`` values of ``width`` bytes."""
        return np.frombuffer(self.take(rows * width), np.uint8).reshape(rows, width)

    def make_malformed_error(self, what: str) -> UserError:
        """Returns the error 117 (INCORRECT_DATA)."""
        return UserError("INCORRECT_DATA", f"Malformed {self.format_name} data: {what}")

    def _fill(self, size: int) -> bool:
        """Reads until ``size`` bytes are held; returns whether they are."""
        missing = size - (len(self._held) - self._position)
        if missing <= 0:
            return True
        self.status.check()
        rest = self._held[self._position :]
        self._held = rest + read_up_to(self._stream, max(missing, _READ_BYTES))
        self._position = 0
        return len(self._held) >= size


def pad_for_varints(data: memoryview) -> np.ndarray:
    """Returns the bytes with :data:`MAX_LENGTH_BYTES` zeros behind them."""
    out = np.zeros(len(data) + MAX_LENGTH_BYTES, np.uint8)
    out[: len(data)] = np.frombuffer(data, np.uint8)
    return out
