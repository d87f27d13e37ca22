"""Merges several streams into one: each is read in its own thread, a few items ahead."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

Item = TypeVar("Item")

_AHEAD = 2
_POLL_SECONDS = 0.05


def read_in_parallel(streams: Sequence[Iterator[Item]], check: Callable[[], None]) -> Iterator[Item]:
    """Yields the items of all streams as they arrive; the first error ends all.

    ``check`` is called while waiting and raises to stop. Even a single stream gets a thread, because a thread that
    waits for the network cannot check.
    """
    items: queue.Queue[tuple[Item | None, BaseException | None]] = queue.Queue(_AHEAD * len(streams))
    is_over = threading.Event()

    def put(item: Item | None, error: BaseException | None = None) -> None:
        while not is_over.is_set():
            try:
                items.put((item, error), timeout=_POLL_SECONDS)
            except queue.Full:
                continue
            return

    def read(stream: Iterator[Item]) -> None:
        try:
            for item in stream:
                put(item)
                if is_over.is_set():
                    break
        except BaseException as error:
            put(None, error)
        else:
            put(None)
        finally:
            close = getattr(stream, "close", None)
            if close is not None:
                close()

    for number, stream in enumerate(streams):
        threading.Thread(target=read, args=(stream,), name=f"shard-{number}", daemon=True).start()
    left = len(streams)
    try:
        while left:
            try:
                item, error = items.get(timeout=_POLL_SECONDS)
            except queue.Empty:
                check()
                continue
            if error is not None:
                raise error
            if item is None:
                left -= 1
            else:
                yield item
    finally:
        is_over.set()


def run_all(tasks: Sequence[Callable[[], None]]) -> None:
    """Runs all tasks at the same time and waits for all. Raises the first one's error."""
    if len(tasks) == 1:
        tasks[0]()
        return
    errors: list[BaseException | None] = [None] * len(tasks)

    def run(position: int) -> None:
        try:
            tasks[position]()
        except BaseException as error:
            errors[position] = error

    threads = [
        threading.Thread(target=run, args=(position,), name=f"shard-{position}", daemon=True)
        for position in range(len(tasks))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    failed = next((error for error in errors if error is not None), None)
    if failed is not None:
        raise failed
