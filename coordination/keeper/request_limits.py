"""Cuts long lists of operations into multis that ZooKeeper takes.

A request of more than ``jute.maxbuffer`` (1 MiB unless configured) breaks the connection instead of being answered, and
would break it again at every repeat, for everybody who shares the session. The keepers refuse to send one
(:func:`require_request_fits`); whoever has a list that may grow cuts it with :func:`split_into_multis`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from coordination.keeper.interface import Create, Op, RequestTooLarge, SetData
from parts.common.errors import UserError

MAX_MULTI_OPERATIONS = 200
MAX_MULTI_BYTES = 512 * 1024
MAX_REQUEST_BYTES = 1024 * 1024 - 1024
"""Less than ``jute.maxbuffer`` is unless configured."""

_T = TypeVar("_T")


def operation_bytes(op: Op) -> int:
    """What the operation takes in a request, at most: 64 bytes hold head, lengths and permissions."""
    data = len(op.data) if isinstance(op, Create | SetData) else 0
    return len(op.path.encode()) + data + 64


def require_request_fits(ops: Sequence[Op], chroot_bytes: int = 0) -> None:
    """Raises :class:`RequestTooLarge` for what ZooKeeper would not answer. ``chroot_bytes`` come before every path."""
    size = sum(map(operation_bytes, ops)) + chroot_bytes * len(ops)
    if size > MAX_REQUEST_BYTES:
        raise RequestTooLarge(size, MAX_REQUEST_BYTES, len(ops), max(ops, key=operation_bytes).path)


def require_log_entry_fits(op: Create, what: str) -> None:
    """Of an entry of the log, which every replica copies to its queue together with other operations. Raises
    ``UserError`` 290 (LIMIT_EXCEEDED): what is logged and cannot be pulled would stop the table for ever."""
    if operation_bytes(op) > MAX_MULTI_BYTES:
        raise UserError(
            "LIMIT_EXCEEDED",
            f"The log entry of {what} would take {operation_bytes(op)} bytes in ZooKeeper, "
            f"at most {MAX_MULTI_BYTES} are allowed; nothing was logged",
        )


def split_into_multis(items: Sequence[_T], size_bytes: Callable[[_T], int]) -> Iterator[list[_T]]:
    """The items in order, in runs that fit into one multi each; an item larger than a packet goes alone."""
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
    """The items in order, ``length`` at a time."""
    for start in range(0, len(items), length):
        yield items[start : start + length]
