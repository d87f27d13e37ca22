"""Calls between two processes of one server, here between two threads."""

from __future__ import annotations

import errno
import queue
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from engine.workers.channel import CallClient, Channel, serve_calls
from parts.common.errors import PandoError, UserError

_SECONDS = 30.0


class Other:
    """The process at the other end."""

    def __init__(self) -> None:
        self.ends: queue.Queue[str] = queue.Queue()
        self.threads: list[threading.Thread] = []

    def open_channel(self) -> socket.socket:
        near, far = socket.socketpair()
        self.threads.append(threading.Thread(target=serve_calls, args=(Channel(far), self.handle)))
        self.threads[-1].start()
        return near

    def handle(self, name: str, arguments: tuple[Any, ...], channel: Channel) -> object:
        if name == "refuse":
            raise UserError("BAD_ARGUMENTS", "no")
        if name == "add":
            return sum(arguments)
        try:
            return sum(arguments) + channel.receive()
        except EOFError:
            self.ends.put(name)
            raise UserError("ABORTED", "given up") from None


@pytest.fixture
def other() -> Iterator[Other]:
    other = Other()
    yield other
    for thread in other.threads:
        thread.join(_SECONDS)
        assert not thread.is_alive()


@pytest.fixture
def caller(other: Other) -> Iterator[CallClient]:
    caller = CallClient(other.open_channel, "gone")
    yield caller
    caller.close()


def test_more_is_told_to_a_call_that_has_begun(caller: CallClient, other: Other) -> None:
    call = caller.begin("add and wait", 1, 2)
    assert caller.is_busy
    call.tell(4)
    assert call.finish() == 7
    assert not caller.is_busy
    assert caller.call("add", 1, 2) == 3
    assert len(other.threads) == 1


def test_a_call_that_is_given_up_learns_of_it(caller: CallClient, other: Other) -> None:
    caller.begin("add and wait", 1).give_up()
    assert other.ends.get(timeout=_SECONDS) == "add and wait"
    assert not caller.is_busy
    assert caller.call("add", 3, 4) == 7


def test_an_error_of_a_call_keeps_the_channel(caller: CallClient, other: Other) -> None:
    with pytest.raises(UserError, match="no"):
        caller.call("refuse")
    assert not caller.is_busy
    assert caller.call("add", 3, 4) == 7
    assert len(other.threads) == 1


@pytest.mark.parametrize(
    ("number", "code"), [(errno.ENOSPC, 243), (errno.EMFILE, 76), (errno.EIO, 75), (errno.ESRCH, 1001)]
)
def test_what_the_system_does_not_give_has_its_own_code(
    caller: CallClient, other: Other, monkeypatch: pytest.MonkeyPatch, number: int, code: int
) -> None:
    def fail(name: str, arguments: tuple[Any, ...], channel: Channel) -> object:
        raise OSError(number, "no", "file")

    monkeypatch.setattr(other, "handle", fail)
    with pytest.raises(PandoError) as raised:
        caller.call("create_table")
    assert raised.value.code == code
