"""Cuts long lists of operations into multis that ZooKeeper takes.

A request of more than ``jute.maxbuffer`` (1 MiB unless configured) breaks the connection instead of being answered, and
would break it again at every repeat.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

MAX_OPERATIONS = 200
MAX_BYTES = 512 * 1024

_T = TypeVar("_T")


def packets(items: Sequence[_T], size_bytes: Callable[[_T], int]) -> Iterator[list[_T]]:
    """The items in order, in runs that fit into one multi each; an item larger than a packet goes alone."""
    packet: list[_T] = []
    packet_bytes = 0
    for item in items:
        size = size_bytes(item)
        if packet and (len(packet) == MAX_OPERATIONS or packet_bytes + size > MAX_BYTES):
            yield packet
            packet, packet_bytes = [], 0
        packet.append(item)
        packet_bytes += size
    if packet:
        yield packet
