"""ZooKeeper's ``multiRead``: many nodes read by one request. The kazoo client does not have it.

Servers that understand it: ZooKeeper 3.6 and newer, ClickHouse Keeper 22.11 and newer.

A request is a row of heads and operations (get, children), an answer a row of heads and results; an operation that
fails has its error in its place. The operations are carried out one after the other, not at one moment, as if they had
been sent one by one. Source: ZooKeeper's ``MultiOperationRecord`` and ``MultiResponse``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kazoo.exceptions import EXCEPTIONS
from kazoo.protocol.serialization import (
    GetChildren,
    GetData,
    MultiHeader,
    int_struct,
    multiheader_struct,
    read_buffer,
    read_string,
    stat_struct,
)
from kazoo.protocol.states import ZnodeStat

LEAST_TOGETHER = 16
"""Fewer reads of one kind are sent one by one, which every server understands."""
MOST_TOGETHER = 500
_ERROR = -1


@dataclass(frozen=True)
class MultiRead:
    """A ``multiRead`` request for the kazoo client.

    Its answer is a list. An item is ``(data, stat)``, a list of names, or an exception.
    """

    operations: Sequence[GetData | GetChildren]
    type: int = 22

    def serialize(self) -> bytearray:
        """Returns the request's bytes."""
        written = bytearray()
        for operation in self.operations:
            written += MultiHeader(operation.type, False, _ERROR).serialize() + operation.serialize()
        return written + multiheader_struct.pack(_ERROR, True, _ERROR)

    @classmethod
    def deserialize(cls, data: bytes, offset: int) -> list[Any]:
        """Parses the server's answer from ``offset`` on."""
        answers: list[Any] = []
        while True:
            header, offset = MultiHeader.deserialize(data, offset)
            if header.done:
                return answers
            answer, offset = _answer(header.type, data, offset)
            answers.append(answer)


def _answer(kind: int, data: bytes, offset: int) -> tuple[Any, int]:
    if kind == GetData.type:
        content, offset = read_buffer(data, offset)
        stat = ZnodeStat._make(stat_struct.unpack_from(data, offset))
        return (content, stat), offset + stat_struct.size
    number = int_struct.unpack_from(data, offset)[0]
    offset += int_struct.size
    if kind == GetChildren.type:
        names = []
        for _ in range(number):
            name, offset = read_string(data, offset)
            names.append(name)
        return names, offset
    if kind == _ERROR:
        return EXCEPTIONS[number](), offset
    raise ValueError(f"a result of kind {kind} in the answer to a multiRead")


class MultiReadSupport:
    """Remembers whether the servers understand ``multiRead``.

    A server that does not may answer so, or just break the connection. So a request that never worked and met a lost
    connection is not tried again.
    """

    def __init__(self) -> None:
        self._has_worked = False
        self._is_refused = False

    @property
    def is_worth_trying(self) -> bool:
        """Whether the next read should use ``multiRead``."""
        return not self._is_refused

    def record_success(self) -> None:
        """Notes that a request was answered."""
        self._has_worked = True

    def record_failure(self, *, is_refusal: bool) -> None:
        """Notes that a request failed. ``is_refusal``: the server answered that it does not know the request."""
        self._is_refused = is_refusal or not self._has_worked
