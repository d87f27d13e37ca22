"""Processes that run merges and mutations, one at a time each, with lower priority than queries.

The replica process sends an order, receives its progress, and may send a request to stop. A process that ends in the
middle of a merge leaves nothing but a temporary directory, which the replica process removes.

Invariants

- A process has one order at a time; its channel is idle or belongs to the thread that waits for the order.
- At most ``most`` orders run. A channel returns to the idle ones only when its order has ended, by success or by the
  merge's own error; after any other failure it is closed, which ends the process.
- A merge process never commits: it writes into the temporary directory that the order names.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

from engine.catalog.kept_definitions import KeptDefinitions
from engine.server.config import Config
from engine.tables.merges.merge_execution import run_merge
from engine.tables.merges.mutation_execution import open_active_parts, run_mutation
from engine.tables.services import MergeOrder, MutationOrder, MutationReadTable
from engine.tables.table_definition import TableDefinition
from engine.workers.channel import Channel
from engine.workers.fork_server import ForkServer, set_process_name
from parts.common.errors import CancelledError, PandoError, UnavailableError, convert_resource_error
from parts.common.lru_cache import LruCache
from parts.common.process_memory import configure_allocators, release_memory
from parts.merge import MergeProgress

_STOP = "stop"
_PROGRESS_SECONDS = 0.25
_LOOK_SECONDS = 0.1
_NICENESS = 10
_TABLES_KEPT = 64


class MergeProcesses:
    """The replica process's side:

    at most ``most`` merge processes, forked on first use. May be called from any thread.
    """

    def __init__(self, fork_server: ForkServer, most: int) -> None:
        self._fork_server = fork_server
        self._idle: list[Channel] = []
        self._free = threading.Semaphore(most)
        self._lock = threading.Lock()
        self._is_ending = False

    def run(
        self,
        order: MergeOrder | MutationOrder,
        is_cancelled: Callable[[], bool],
        on_progress: Callable[[MergeProgress], None],
    ) -> None:
        """Runs an order in a merge process. Raises the merge's error, and 210 if the process ended."""
        while not self._free.acquire(timeout=_LOOK_SECONDS):
            if is_cancelled():
                raise CancelledError("The merge was cancelled")
        try:
            channel = self._channel()
            try:
                error = self._run(channel, order, is_cancelled, on_progress)
            except (EOFError, OSError) as problem:
                channel.close()
                raise UnavailableError("NETWORK_ERROR", "The process of a merge has ended; try again") from problem
            with self._lock:
                self._idle.append(channel)
        finally:
            self._free.release()
        if error is not None:
            raise error

    def stop(self) -> None:
        """Ends the idle processes, by closing their channels."""
        with self._lock:
            self._is_ending = True
            idle, self._idle = self._idle, []
        for channel in idle:
            channel.close()

    def _channel(self) -> Channel:
        with self._lock:
            if self._is_ending:
                raise UnavailableError("NETWORK_ERROR", "The server is stopping")
            if self._idle:
                return self._idle.pop()
        ours, theirs = socket.socketpair()
        self._fork_server.fork("merge", (), [theirs])
        return Channel(ours)

    def _run(
        self,
        channel: Channel,
        order: MergeOrder | MutationOrder,
        is_cancelled: Callable[[], bool],
        on_progress: Callable[[MergeProgress], None],
    ) -> PandoError | None:
        channel.socket.settimeout(_LOOK_SECONDS)
        channel.send(order)
        has_told = False
        while True:
            try:
                kind, value = channel.receive()
            except TimeoutError:
                kind = ""
            if kind == "progress":
                on_progress(value)
            elif kind == "done":
                outcome: PandoError | None = value
                return outcome
            if not has_told and is_cancelled():
                has_told = True
                channel.send(_STOP)


def serve_merge_orders(config: Config, end: socket.socket) -> None:
    """Runs orders in the child, one after the other, until the replica process closes its end."""
    set_process_name("pando merge")
    with contextlib.suppress(OSError):
        os.nice(_NICENESS)
    configure_allocators()
    tables = _Tables(config)
    channel = Channel(end)
    with contextlib.suppress(EOFError, OSError):
        while True:
            order = channel.receive()
            if order == _STOP:  # it came after the merge had ended
                continue
            channel.send(("done", _run_order(channel, order, tables)))
            release_memory()


def _run_order(channel: Channel, order: MergeOrder | MutationOrder, tables: _Tables) -> PandoError | None:
    """Runs one order; returns its error, or ``None``."""
    told = time.monotonic()

    def on_progress(progress: MergeProgress) -> None:
        nonlocal told
        if time.monotonic() - told >= _PROGRESS_SECONDS:
            told = time.monotonic()
            channel.send(("progress", progress))

    def is_cancelled() -> bool:
        # The request to stop, or the end of the replica process: nothing else comes during a merge.
        return bool(select.select([channel.socket.fileno()], [], [], 0)[0])

    try:
        if isinstance(order, MutationOrder):
            run_mutation(order, tables.definition, is_cancelled, on_progress)
        else:
            definition = tables.definition(order)
            run_merge(
                order,
                open_active_parts(definition, order.sources, order.positions),
                definition.description,
                is_cancelled,
                on_progress,
            )
    except PandoError as error:
        return error
    except (OSError, MemoryError) as problem:
        translated = convert_resource_error(problem)
        return translated if isinstance(translated, PandoError) else PandoError("STD_EXCEPTION", repr(problem))
    except Exception as problem:
        return PandoError("STD_EXCEPTION", f"{type(problem).__name__}: {problem}")
    return None


class _Tables:
    """The compiled definitions of the tables merged last."""

    def __init__(self, config: Config) -> None:
        self._definitions = KeptDefinitions.of(config)
        self._known: LruCache[tuple[Path, str], TableDefinition] = LruCache(_TABLES_KEPT)

    def definition(self, order: MergeOrder | MutationOrder | MutationReadTable) -> TableDefinition:
        """Returns the order's table definition, compiled once."""
        key = (order.data_path, repr(order.create))
        return self._known.get(key, lambda: self._definitions.compile(order.database, order.create))
