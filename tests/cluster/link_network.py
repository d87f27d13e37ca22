"""The network between linked clusters of one machine: every server is reached at its cluster's address.

The servers of a cluster listen on 127.0.0.1 and name themselves by another loopback address, at which a
:class:`Gateway` accepts what links and replicas send and passes it on. So the way into one cluster can be cut, slow, or
cut for its answers alone, while clients, who use 127.0.0.1, notice nothing. Loopback addresses other than 127.0.0.1
work on Linux without being set up.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar

_PIECE_BYTES = 1 << 16
_POLL_SECONDS = 0.1
T = TypeVar("T")


class Gateway:
    """The way into one cluster. Its faults may be changed from any thread, and hold for open connections too."""

    def __init__(self, host: str) -> None:
        self.host = host
        self.is_cut = False
        """Nothing passes; a connection that was used meanwhile is closed afterwards."""
        self.loses_answers = False
        """Requests arrive, and nothing comes back."""
        self.delay_seconds = 0.0
        """How late each piece arrives."""

    def mend(self) -> None:
        """Lets everything pass."""
        self.is_cut = self.loses_answers = False
        self.delay_seconds = 0.0

    async def serve(self, port: int) -> None:
        """Accepts connections for a port of 127.0.0.1, for as long as the loop runs."""

        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await self._connect(port, reader, writer)

        await asyncio.start_server(accept, self.host, port)

    async def _connect(self, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers = [writer]
        try:
            await self._wait_while_cut()
            there_reader, there_writer = await asyncio.open_connection("127.0.0.1", port)
            writers.append(there_writer)
            ways = [
                asyncio.ensure_future(self._pass_on(reader, there_writer, is_answer=False)),
                asyncio.ensure_future(self._pass_on(there_reader, writer, is_answer=True)),
            ]
            _, open_ = await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            for way in open_:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
        except OSError:
            pass  # the server is down: the asker's connection is closed
        finally:
            for each in writers:
                with suppress(OSError):
                    each.close()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_answer: bool) -> None:
        while piece := await reader.read(_PIECE_BYTES):
            if self.delay_seconds:
                await asyncio.sleep(self.delay_seconds)
            if self.is_cut or (is_answer and self.loses_answers):
                while self.is_cut or (is_answer and self.loses_answers):
                    await asyncio.sleep(_POLL_SECONDS)
                return  # a piece is missing
            writer.write(piece)
            await writer.drain()

    async def _wait_while_cut(self) -> None:
        while self.is_cut:
            await asyncio.sleep(_POLL_SECONDS)


class LinkNetwork:
    """The gateways of all clusters, run by one thread."""

    def __init__(self, names: Sequence[str]) -> None:
        self.gateways = {name: Gateway(f"127.0.0.{number}") for number, name in enumerate(names, 2)}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def open(self, name: str, ports: Sequence[int]) -> None:
        """Accepts connections for servers of the cluster."""
        for port in ports:
            self._run(self.gateways[name].serve(port)).result(10)

    def _run(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def mend(self) -> None:
        """Lets everything pass, everywhere."""
        for gateway in self.gateways.values():
            gateway.mend()

    def close(self) -> None:
        """Closes all connections."""

        async def cancel_all() -> None:
            tasks = asyncio.all_tasks() - {asyncio.current_task()}
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

        self._run(cancel_all()).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
