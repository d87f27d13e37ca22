"""Messages and calls between two processes of one server, over a private socket pair.

A message is a pickled object behind its length (4 bytes, little-endian). Messages arrive whole and in order, and may
carry file descriptors. Both ends are the same program, forked from one parent, so pickle is safe here.

A *call* is a message and its answer, on a channel that carries one call at a time. Therefore no extra thread stands
between a worker's query and the replica process's work for it.

Invariants

- A channel of calls carries one call at a time: a thread takes it, sends, and gives it back after it has read the
  answer. A channel whose answer was not read is closed, never used again.
- ``_held`` begins at a message's first byte whenever nobody is in ``receive``.
- The receiver of descriptors closes them.
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
_MAX_DESCRIPTORS = 8
_LOOK_SECONDS = 0.05
_STOP = "stop"


class Channel:
    """One end of a socket pair. ``send`` may be called from any thread, ``receive`` from one."""

    def __init__(self, end: socket.socket) -> None:
        self.socket = end
        self._sending = threading.Lock()
        self._held = bytearray()
        self._descriptors: list[int] = []

    def send(self, message: object, descriptors: Sequence[int] = ()) -> None:
        """Sends a message. Raises ``OSError`` if the other end is gone."""
        data = pickle.dumps(message, 5)
        packet = _LENGTH.pack(len(data)) + data
        with self._sending:
            if descriptors:
                rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))]
                sent = self.socket.sendmsg([packet], rights)
                packet = packet[sent:]
            self.socket.sendall(packet)

    def receive(self) -> Any:
        """Waits for a message.

        Raises ``EOFError`` if the other end is gone, ``TimeoutError`` as the socket does.
        """
        size = self._wait_for(_LENGTH.size)
        length = _LENGTH.unpack_from(size)[0]
        packet = self._wait_for(_LENGTH.size + length)
        message = pickle.loads(memoryview(packet)[_LENGTH.size : _LENGTH.size + length])
        del self._held[: _LENGTH.size + length]
        return message

    def take_descriptors(self) -> list[int]:
        """Returns the descriptors that came with the messages received since the last call."""
        taken, self._descriptors = self._descriptors, []
        return taken

    def close(self) -> None:
        """Closes this end; the other end sees it."""
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()

    def _wait_for(self, size: int) -> bytes:
        while len(self._held) < size:
            try:
                data, ancillary, _, _ = self.socket.recvmsg(
                    max(_READ_BYTES, size - len(self._held)), socket.CMSG_SPACE(4 * _MAX_DESCRIPTORS)
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
    """The calling side.

    May be called from any thread; each thread in a call has a channel of its own. ``open_channel`` returns this end of
    a new channel whose other end :func:`serve_calls` serves.
    """

    def __init__(self, open_channel: Callable[[], socket.socket], gone: str) -> None:
        self._open_channel = open_channel
        self._gone = gone
        self._idle: list[Channel] = []
        self._under_way = 0
        self._lock = threading.Lock()

    @property
    def is_busy(self) -> bool:
        """Tells whether a call is under way."""
        return self._under_way > 0

    def call(self, name: str, *arguments: object, is_stopped: Callable[[], bool] | None = None) -> Any:
        """Calls and returns the answer.

        Raises the call's error, and 210 (NETWORK_ERROR) if the other process is gone. ``is_stopped`` is polled; once it
        returns True, the other process is told to end the call.
        """
        return self.begin(name, *arguments).finish(is_stopped)

    def begin(self, name: str, *arguments: object) -> PendingCall:
        """Begins a call; more messages may be sent before its answer is read."""
        channel = self._channel()
        with self._using(channel):
            channel.send((name, arguments))
        return PendingCall(self, channel)

    def finish(self, channel: Channel, is_stopped: Callable[[], bool] | None) -> Any:
        """Waits for the answer of a call, and returns or raises it."""
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
        """Closes the channel of a call, which ends it."""
        channel.close()
        with self._lock:
            self._under_way -= 1

    def tell(self, channel: Channel, message: object) -> None:
        """Sends a message within a call."""
        with self._using(channel):
            channel.send(message)

    def close(self) -> None:
        """Closes the idle channels."""
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
        """Sends a message that the called code receives from its channel."""
        self._caller.tell(self._channel, message)

    def finish(self, is_stopped: Callable[[], bool] | None = None) -> Any:
        """Waits for the answer; see :meth:`CallClient.call`."""
        return self._caller.finish(self._channel, is_stopped)

    def give_up(self) -> None:
        """Ends the call: the called code finds its caller gone."""
        self._caller.give_up(self._channel)


class CallStatus(QueryStatus):
    """The status of a call on the called side: stopped when the caller says so or is gone."""

    def __init__(self, channel: Channel, max_execution_seconds: float, clock: Callable[[], float]) -> None:
        super().__init__(None, max_execution_seconds, clock)
        self._channel = channel

    @property
    def is_stopped(self) -> bool:
        """Tells whether the caller has stopped the call or is gone."""
        # While a call runs, only the request to stop it can come, or the end of the caller.
        if self.reason is None and select.select([self._channel.socket], [], [], 0)[0]:
            self.stop()
        return self.reason is not None

    def check_deadline(self) -> None:
        """Raises an error if the call is over its time, unless it is stopped."""
        if not self.is_stopped:
            super().check_deadline()


def _to_pando_error(call: str, problem: Exception) -> PandoError:
    """Converts an exception into the error that the caller raises.

    Resource errors have codes of their own; the rest is 1001.
    """
    is_resource = isinstance(problem, OSError | MemoryError | RuntimeError)
    told = convert_resource_error(problem) if is_resource else problem  # type: ignore[arg-type]
    if isinstance(told, PandoError):
        return told
    logger.exception("the call %s failed", call)
    return PandoError("STD_EXCEPTION", f"{type(problem).__name__}: {problem}")


def serve_calls(channel: Channel, handle: Callable[[str, tuple[Any, ...], Channel], Any]) -> None:
    """Serves the calls of one channel until its other end is closed. Errors are sent as answers."""
    while True:
        try:
            message = channel.receive()
        except (EOFError, OSError):
            break
        if message == _STOP:  # it came after its call had ended
            continue
        name, arguments = message
        try:
            answer: tuple[bool, Any] = (True, handle(name, arguments, channel))
        except Exception as problem:
            answer = (False, _to_pando_error(name, problem))
        try:
            channel.send(answer)
        except OSError:
            break
    channel.close()
