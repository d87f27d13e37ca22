"""Messages between two processes of one server, over a socket pair that nobody else can reach.

A message is a pickled object behind its length (4 bytes, little-endian), whole and in order; file descriptors may
travel with one. Both ends are the same program, forked from one parent, so pickle is safe here.

A *call* is a message and its answer on a channel that carries one call at a time: no thread stands between a worker's
query and the replica process's work for it.
"""

from __future__ import annotations

import array
import contextlib
import logging
import pickle
import select
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from parts.common.errors import PandoError, UnavailableError, convert_resource_error
from parts.common.query_status import QueryStatus

logger = logging.getLogger(__name__)

_LENGTH = struct.Struct("<I")
_READ_BYTES = 1 << 16
_MOST_DESCRIPTORS = 8
_LOOK_SECONDS = 0.05
_STOP = "stop"


class Channel:
    """One end. ``send`` from any thread, ``receive`` from one."""

    def __init__(self, end: socket.socket) -> None:
        self.socket = end
        self._sending = threading.Lock()
        self._held = bytearray()
        self._descriptors: list[int] = []

    def send(self, message: object, descriptors: Sequence[int] = ()) -> None:
        """Raises ``OSError`` when the other end is gone."""
        data = pickle.dumps(message, 5)
        packet = _LENGTH.pack(len(data)) + data
        with self._sending:
            if descriptors:
                rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))]
                sent = self.socket.sendmsg([packet], rights)
                packet = packet[sent:]
            self.socket.sendall(packet)

    def receive(self) -> Any:
        """Waits for a message. Raises ``EOFError`` when the other end is gone, ``TimeoutError`` as the socket does."""
        size = self._wait_for(_LENGTH.size)
        length = _LENGTH.unpack_from(size)[0]
        packet = self._wait_for(_LENGTH.size + length)
        message = pickle.loads(memoryview(packet)[_LENGTH.size : _LENGTH.size + length])
        del self._held[: _LENGTH.size + length]
        return message

    def take_descriptors(self) -> list[int]:
        """What came with the messages received since the last call."""
        taken, self._descriptors = self._descriptors, []
        return taken

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()

    def _wait_for(self, size: int) -> bytes:
        while len(self._held) < size:
            try:
                data, ancillary, _, _ = self.socket.recvmsg(
                    max(_READ_BYTES, size - len(self._held)), socket.CMSG_SPACE(4 * _MOST_DESCRIPTORS)
                )
            except ConnectionError:
                raise EOFError from None
            for level, kind, rights in ancillary:
                if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                    self._descriptors.extend(array.array("i", rights[: len(rights) - len(rights) % 4]))
            if not data:
                raise EOFError
            self._held += data
        return bytes(self._held[:size])


class CallClient:
    """Makes calls of the process at the other end. From any thread; each thread in a call has a channel of its own.

    ``open_channel`` gives this end of a new channel whose other end somebody serves with :func:`serve_calls`.
    """

    def __init__(self, open_channel: Callable[[], socket.socket], gone: str) -> None:
        self._open_channel = open_channel
        self._gone = gone
        self._idle: list[Channel] = []
        self._under_way = 0
        self._lock = threading.Lock()

    @property
    def is_busy(self) -> bool:
        """Whether a call is under way."""
        return self._under_way > 0

    def call(self, name: str, *arguments: object, is_stopped: Callable[[], bool] | None = None) -> Any:
        """The answer. Raises what the call raised there, and 210 (NETWORK_ERROR) when the process there is gone.

        ``is_stopped`` is asked now and then: once it says so the process there is told to end the call.
        """
        return self.begin(name, *arguments).finish(is_stopped)

    def begin(self, name: str, *arguments: object) -> PendingCall:
        """A call that the process there begins now; more may be told to it before its answer is wanted."""
        channel = self._channel()
        with self._using(channel):
            channel.send((name, arguments))
        return PendingCall(self, channel)

    def finish(self, channel: Channel, is_stopped: Callable[[], bool] | None) -> Any:
        with self._using(channel):
            is_well, answer = self._answer(channel, is_stopped)
        with self._lock:
            self._idle.append(channel)
            self._under_way -= 1
        if is_well:
            return answer
        raise answer

    @contextlib.contextmanager
    def _using(self, channel: Channel) -> Iterator[None]:
        try:
            yield
        except (EOFError, OSError) as problem:
            self.give_up(channel)
            raise UnavailableError("NETWORK_ERROR", self._gone) from problem
        except BaseException:
            self.give_up(channel)
            raise

    def give_up(self, channel: Channel) -> None:
        channel.close()
        with self._lock:
            self._under_way -= 1

    def tell(self, channel: Channel, message: object) -> None:
        with self._using(channel):
            channel.send(message)

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for channel in idle:
            channel.close()

    def _channel(self) -> Channel:
        with self._lock:
            self._under_way += 1
            if self._idle:
                return self._idle.pop()
        try:
            return Channel(self._open_channel())
        except OSError as problem:
            with self._lock:
                self._under_way -= 1
            raise UnavailableError("NETWORK_ERROR", self._gone) from problem

    def _answer(self, channel: Channel, is_stopped: Callable[[], bool] | None) -> tuple[bool, Any]:
        if is_stopped is None:
            channel.socket.settimeout(None)
            return channel.receive()
        channel.socket.settimeout(_LOOK_SECONDS)
        has_told = False
        while True:
            try:
                return channel.receive()
            except TimeoutError:
                if is_stopped() and not has_told:
                    has_told = True
                    channel.send(_STOP)


class PendingCall:
    """A call whose answer is still to come. It ends with :meth:`finish` or :meth:`give_up`."""

    def __init__(self, caller: CallClient, channel: Channel) -> None:
        self._caller = caller
        self._channel = channel

    def tell(self, message: object) -> None:
        """For code there that receives from its channel."""
        self._caller.tell(self._channel, message)

    def finish(self, is_stopped: Callable[[], bool] | None = None) -> Any:
        """See :meth:`Caller.call`."""
        return self._caller.finish(self._channel, is_stopped)

    def give_up(self) -> None:
        """What the process there receives next is the end of the caller."""
        self._caller.give_up(self._channel)


class CallStatus(QueryStatus):
    """A call as the code that works for it sees it: stopped when the caller says so, or is no more."""

    def __init__(self, channel: Channel, max_execution_seconds: float, clock: Callable[[], float]) -> None:
        super().__init__(None, max_execution_seconds, clock)
        self._channel = channel

    @property
    def is_stopped(self) -> bool:
        # While a call runs the only message that can come is the word to stop it, or the end of the caller.
        if self.reason is None and select.select([self._channel.socket], [], [], 0)[0]:
            self.stop()
        return self.reason is not None

    def check_deadline(self) -> None:
        if not self.is_stopped:
            super().check_deadline()


def _told(call: str, problem: Exception) -> PandoError:
    """What the other end raises: what the system does not give has codes of its own, the rest is 1001."""
    is_resource = isinstance(problem, OSError | MemoryError | RuntimeError)
    told = convert_resource_error(problem) if is_resource else problem  # type: ignore[arg-type]
    if isinstance(told, PandoError):
        return told
    logger.exception("the call %s failed", call)
    return PandoError("STD_EXCEPTION", f"{type(problem).__name__}: {problem}")


def serve_calls(channel: Channel, handle: Callable[[str, tuple[Any, ...], Channel], Any]) -> None:
    """Answers the calls of one channel until its other end goes. An error of the call is its answer."""
    while True:
        try:
            message = channel.receive()
        except (EOFError, OSError):
            break
        if message == _STOP:  # it came when its call had ended
            continue
        name, arguments = message
        try:
            answer: tuple[bool, Any] = (True, handle(name, arguments, channel))
        except Exception as problem:
            answer = (False, _told(name, problem))
        try:
            channel.send(answer)
        except OSError:
            break
    channel.close()
