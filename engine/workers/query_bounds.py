"""Enforces the limits of queries on workers: decides from the shared page which worker to end.

A query is told to end by its own process, and usually does so at once. One that does not check (a long library call, a
huge plan) is ended with its worker:

- *time*: its ``max_execution_time`` is over, or a limit or KILL QUERY told it to end, and it still computes after the
  grace period. A query that waits for its client or another process is left alone.
- *memory*: the worker holds more than its queries may together for longer than the grace period, or much more at once.
  Or all workers together hold much more than the server may.

After the worker's end, the page as the worker left it decides the responses. A query that was to end, or that took the
memory, gets that as its error.

Invariants

- A worker is ended only if one of its queries computes beyond its end and the grace period, or if memory is exceeded.
  A query that waits is no reason.
- ``_killed`` changes under ``_lock``, for any thread may :meth:`Bounds.kill`.
- The responses are decided before the numbers of the ended worker are reset.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import numpy as np

from engine.workers.other_workers import hash_query_id
from engine.workers.shared_page import SharedPage
from parts.common.errors import CancelledError, PandoError, UserError, make_error_from_code

_SLACK_BYTES = 128 << 20
"""Memory that is not counted exactly."""
_AT_ONCE_RATIO, _AT_ONCE_BYTES = 1.5, 512 << 20
"""A worker this far over its share is ended without grace: the next look may come too late."""
_SERVER_RATIO = 1.15
_REPLACED = "It did not end by itself in time: the process that ran it was replaced"


@dataclass(frozen=True)
class EndReason:
    """The reason to end a worker.

    ``memory_of`` is the id hash of the query that took too much memory, if any.
    """

    reason: str
    memory_of: int = 0


@dataclass(frozen=True)
class WorkerEndResponses:
    """The responses to an ended worker's requests: errors by connection slot; others may be repeated."""

    errors: Mapping[int, PandoError] = field(default_factory=dict)
    repeats: bool = False


@dataclass
class _Share:
    """The memory that a worker's queries might hold lately.

    A query that has ended counts a little longer, because its memory is freed late.
    """

    size_bytes: float = 0
    noted: int = 0
    exceeded: int = 0
    """The time since when more is held; 0 if it is not."""


class Bounds:
    """The limits of all workers. ``server_limit_bytes`` is the server's memory limit."""

    def __init__(self, page: SharedPage, grace_seconds: float, server_limit_bytes: int) -> None:
        self._page = page
        self._grace = int(grace_seconds * 1e9)
        self._limit_bytes = server_limit_bytes
        self._shares: dict[int, _Share] = {}
        self._killed: dict[tuple[int, int], int] = {}
        self._lock = threading.Lock()
        """Guards ``_killed``: any thread kills, one looks."""

    def forget(self, worker: int) -> None:
        """Forgets a worker that was replaced."""
        self._shares.pop(worker, None)
        self._forget_kills(worker, but=())

    def kill(self, worker: int, query_id: str, now: int) -> bool:
        """Records a KILL QUERY, which counts even if the worker does not react.

        Tells whether the query runs there.
        """
        number = hash_query_id(query_id)
        is_running = number in self._queries(worker)["id"]
        if is_running:
            with self._lock:
                self._killed.setdefault((worker, number), now)
        return bool(is_running)

    def _forget_kills(self, worker: int, but: Collection[int]) -> None:
        with self._lock:
            self._killed = {key: at for key, at in self._killed.items() if key[0] != worker or key[1] in but}

    def select_workers_to_end(self, held: Mapping[int, int], now: int) -> dict[int, EndReason]:
        """Returns the workers to end.

        ``held`` is the memory of each worker in bytes; ``now`` is in nanoseconds.
        """
        found = {}
        for worker, held_bytes in held.items():
            end_reason = self._find_overdue(worker, now) or self._find_oversized(worker, held_bytes, now)
            if end_reason is not None:
                found[worker] = end_reason
        if not found and sum(held.values()) > self._limit_bytes * _SERVER_RATIO:
            found = self._find_largest(held)
        return found

    def make_responses(self, worker: int, end_reason: EndReason, now: int) -> WorkerEndResponses:
        """Returns the responses after the worker's end. Must run before its numbers are reset."""
        errors: dict[int, PandoError] = {}
        for query in self._queries(worker):
            connection = int(query["connection"])
            error = self._make_error(worker, query, now, is_hog=int(query["id"]) == end_reason.memory_of)
            if connection and error is not None:
                errors[connection - 1] = error
        return WorkerEndResponses(errors, repeats=True)

    # -- time -----------------------------------------------------------------------------------------------------

    def _find_overdue(self, worker: int, now: int) -> EndReason | None:
        queries = self._queries(worker)
        if self._killed:
            self._forget_kills(worker, but={int(number) for number in queries["id"]})
        for query in queries:
            end, working = self._get_end(worker, query), int(query["working"])
            if end and working and now > max(end, working) + self._grace:
                return EndReason(f"ran a query that was to end {(now - end) / 1e9:.1f} s ago")
        return None

    def _get_end(self, worker: int, query: np.void) -> int:
        """Returns when the query was to end; 0 if it need not."""
        killed = self._killed.get((worker, int(query["id"])), 0)
        return min((end for end in (killed, int(query["deadline"]), int(query["told_to_end"])) if end), default=0)

    # -- memory ---------------------------------------------------------------------------------------------------

    def _find_oversized(self, worker: int, held_bytes: int, now: int) -> EndReason | None:
        queries = self._queries(worker)
        if not len(queries):
            self._shares.pop(worker, None)
            return None
        share = self._shares.setdefault(worker, _Share())
        wanted = sum(min(int(limit) or self._limit_bytes, self._limit_bytes) for limit in queries["limit_bytes"])
        if wanted >= share.size_bytes or now - share.noted > self._grace:
            share.size_bytes, share.noted = wanted, now
        over = held_bytes - int(self._page.idle_bytes[worker]) - share.size_bytes
        if over <= _SLACK_BYTES:
            share.exceeded = 0
            return None
        share.exceeded = share.exceeded or now
        at_once = over > share.size_bytes * (_AT_ONCE_RATIO - 1) + _AT_ONCE_BYTES
        if at_once or now - share.exceeded > self._grace:
            return EndReason(f"held {held_bytes} bytes, more than its queries may", _find_largest_query(queries))
        return None

    def _find_largest(self, held: Mapping[int, int]) -> dict[int, EndReason]:
        """Returns the worker with the largest query, to be ended."""
        sizes = {worker: int(queries["held_bytes"].max()) for worker in held if len(queries := self._queries(worker))}
        if not sizes:
            return {}
        worker = max(sizes, key=sizes.__getitem__)
        reason = f"held {held[worker]} bytes while all workers held {sum(held.values())}"
        return {worker: EndReason(reason, _find_largest_query(self._queries(worker)))}

    # -- queries --------------------------------------------------------------------------------------------------

    def _queries(self, worker: int) -> np.ndarray:
        places = self._page.running[worker]
        return places[places["id"] != 0]

    def _make_error(self, worker: int, query: np.void, now: int, *, is_hog: bool) -> PandoError | None:
        """Returns the error that the query gets, or ``None`` if it is not to blame."""
        code = int(query["code"])
        if (worker, int(query["id"])) in self._killed:
            code = _CANCELLED.code
        is_late = 0 < int(query["deadline"]) < now
        if code == _MEMORY.code or (is_hog and not (code or is_late)):
            limit = int(query["limit_bytes"]) or self._limit_bytes
            told = f"Memory limit exceeded: the query held more than it may, the maximum is {limit} bytes"
            return UserError(_MEMORY.name, f"{told} (max_memory_usage). {_REPLACED}")
        if code == _TIMEOUT.code or (is_late and not code):
            seconds = (int(query["deadline"]) - int(query["started"])) / 1e9
            told = f"Timeout exceeded: the query ran longer than max_execution_time = {seconds:g} seconds"
            return UserError(_TIMEOUT.name, f"{told}. {_REPLACED}")
        return make_error_from_code(code, f"The query was told to end. {_REPLACED}") if code else None


_TIMEOUT = UserError("TIMEOUT_EXCEEDED", "")
_MEMORY = UserError("MEMORY_LIMIT_EXCEEDED", "")
_CANCELLED = CancelledError()


def _find_largest_query(queries: np.ndarray) -> int:
    """Returns the query to blame for memory:

    one that was told so, or the largest. Among queries without a count yet it is the one that began last.
    """
    told = queries[queries["code"] == _MEMORY.code]
    among = told if len(told) else queries
    return int(among[np.lexsort((among["started"], among["held_bytes"]))[-1]]["id"])
