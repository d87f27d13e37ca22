"""Size limits of ZooKeeper requests, and functions that split long lists of operations.

A request of more than ``jute.maxbuffer`` (1 MiB unless configured) breaks the connection instead of being answered.
Repeating it would break the connection again, for everybody who shares the session. So the keepers refuse to send one
(:func:`require_request_fits`). Callers with a list that may grow split it with :func:`split_into_multis`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from coordination.keeper.interface import Create, Op, RequestTooLarge, SetData
from parts.common.errors import UserError

MAX_MULTI_OPERATIONS = 200
MAX_MULTI_BYTES = 512 * 1024
MAX_REQUEST_BYTES = 1024 * 1024 - 1024
"""Slightly less than ZooKeeper's default ``jute.maxbuffer``."""

_T = TypeVar("_T")


def operation_bytes(op: Op) -> int:
    """Returns an upper bound of the operation's size in a request.

    64 bytes cover the header, lengths and permissions.
    """
    data = len(op.data) if isinstance(op, Create | SetData) else 0
    return len(op.path.encode()) + data + 64


def require_request_fits(ops: Sequence[Op], chroot_bytes: int = 0) -> None:
    """Raises :class:`RequestTooLarge` if ZooKeeper would not answer the request.

    ``chroot_bytes`` is the length of the prefix of every path.
    """
    size = sum(map(operation_bytes, ops)) + chroot_bytes * len(ops)
    if size > MAX_REQUEST_BYTES:
        raise RequestTooLarge(size, MAX_REQUEST_BYTES, len(ops), max(ops, key=operation_bytes).path)


def require_log_entry_fits(op: Create, what: str) -> None:
    """Raises ``UserError`` 290 (LIMIT_EXCEEDED) if a log entry is too large to be copied to a queue.

    Every replica copies the entry together with other operations. A logged entry that cannot be pulled would stop the
    table for ever.
    """
    if operation_bytes(op) > MAX_MULTI_BYTES:
        raise UserError(
            "LIMIT_EXCEEDED",
            f"The log entry of {what} would take {operation_bytes(op)} bytes in ZooKeeper, "
            f"at most {MAX_MULTI_BYTES} are allowed; nothing was logged",
        )


def split_into_multis(items: Sequence[_T], size_bytes: Callable[[_T], int]) -> Iterator[list[_T]]:
    """Yields the items in order, in lists that fit into one multi each.

    An item larger than the limit goes alone.
    """
    packet: list[_T] = []
    packet_bytes = 0
    for item in items:
        size = size_bytes(item)
        if packet and (len(packet) == MAX_MULTI_OPERATIONS or packet_bytes + size > MAX_MULTI_BYTES):
            yield packet
            packet, packet_bytes = [], 0
        packet.append(item)
        packet_bytes += size
    if packet:
        yield packet


def split_into_chunks(items: Sequence[_T], length: int) -> Iterator[Sequence[_T]]:
    """Yields the items in order, ``length`` at a time."""
    for start in range(0, len(items), length):
        yield items[start : start + length]
