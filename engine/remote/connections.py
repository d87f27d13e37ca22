"""Queries and rows to the servers of other shards, over HTTP, with another replica where one does not answer.

A replica that failed is tried last for a minute. Any thread may use a :class:`RemoteServers`; a process has one.
"""

from __future__ import annotations

import io
import itertools
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, TypeVar

from engine.client.http.errors import RefusedError
from engine.config import Config
from engine.remote.clusters import Address, Shard, is_local
from parts.errors import PandoError, UnavailableError, UnknownOutcomeError
from sql.grammar.tokens import quote_string

if TYPE_CHECKING:
    from engine.client.http.connections import Answer, Connections

Value = TypeVar("Value")

_REMEMBERED_SECONDS = 60.0
_ANSWER_SECONDS = 300.0
_KILL_SECONDS = 1.0
_TRY_ANOTHER = frozenset({"UNKNOWN_TABLE", "UNKNOWN_DATABASE", "NETWORK_ERROR", "TABLE_IS_READ_ONLY"})
"""Another replica may do what this one refused."""


@dataclass(slots=True)
class Failures:
    """Of one replica: how many, and until when it is tried last."""

    count: int = 0
    until: float = 0.0


class RemoteServers:
    def __init__(self, config: Config, monotonic: Callable[[], float]) -> None:
        self._config = config
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._connections: dict[tuple[str, str, float], Connections] = {}
        self._failures: dict[tuple[str, int], Failures] = {}
        self._turns = itertools.count()

    def is_local(self, address: Address) -> bool:
        return is_local(address, self._config)

    def failures(self, address: Address) -> tuple[int, int]:
        """Their number, and the seconds until they are forgotten."""
        found = self._failures.get((address.host, address.port))
        left = found.until - self._monotonic() if found is not None else 0.0
        return (found.count, round(left)) if found is not None and left > 0 else (0, 0)

    @contextmanager
    def post(
        self,
        address: Address,
        text: str,
        settings: Mapping[str, str],
        rows: Iterable[bytes] | None = None,
        *,
        connect_seconds: float = 1.0,
    ) -> Iterator[Answer]:
        """One statement, whose answer is read as it comes; ``rows`` follow it."""
        head = text.encode()
        body = head if rows is None else itertools.chain([head + b"\n"], rows)
        parameters = {"database": address.default_database, **settings} if address.default_database else settings
        connections = self._connections_of(address, connect_seconds)
        with connections.post(f"http://{address}", "/", body, parameters) as answer:
            yield answer

    def of_any_replica(self, shard: Shard, ask: Callable[[Address], Value], *, connect_seconds: float = 1.0) -> Value:
        """What the first replica answers that does. One of several is asked whether it is there: a server that hangs
        still takes connections. Raises 279 where none answers, naming all, and at once what would be another replica's
        answer too."""
        problems = []
        for address in self.in_order(shard.replicas):
            try:
                if len(shard.replicas) > 1 and not self.is_local(address):
                    self._check_alive(address, connect_seconds)
                found = ask(address)
            except PandoError as error:
                if not _is_of_replica(error):
                    raise
                self._note_failure(address)
                problems.append(f"{address}: {error}")
            else:
                self._failures.pop((address.host, address.port), None)
                return found
        raise UnavailableError(
            "ALL_CONNECTION_TRIES_FAILED",
            f"All connection tries failed for shard {shard.number}. Log: {'; '.join(problems)}",
        )

    def kill(self, address: Address, query_id: str) -> None:
        """Ends a query that nobody waits for. A server that does not hear it goes on."""
        text = f"KILL QUERY WHERE query_id = {quote_string(query_id)}".encode()
        connections = self._connections_of(address, _KILL_SECONDS)
        with (
            suppress(PandoError),
            connections.post(f"http://{address}", "/", text, read_seconds=_KILL_SECONDS) as answer,
        ):
            answer.read()

    def in_order(self, replicas: Sequence[Address]) -> list[Address]:
        """This server first, those that failed last, the others in turns."""
        turn = next(self._turns) % len(replicas)
        turned = [*replicas[turn:], *replicas[:turn]]
        return sorted(turned, key=lambda address: (self.failures(address)[0], not self.is_local(address)))

    def close(self) -> None:
        with self._lock:
            connections, self._connections = self._connections, {}
        for entry in connections.values():
            entry.close()

    def _check_alive(self, address: Address, connect_seconds: float) -> None:
        if not self._connections_of(address, connect_seconds).is_alive(f"http://{address}", connect_seconds):
            raise RefusedError("NETWORK_ERROR", f"There is no answer within {connect_seconds:g} s")

    def _note_failure(self, address: Address) -> None:
        with self._lock:
            found = self._failures.setdefault((address.host, address.port), Failures())
            found.count += 1
            found.until = self._monotonic() + _REMEMBERED_SECONDS

    def _connections_of(self, address: Address, connect_seconds: float) -> Connections:
        from engine.client.http.connections import Connections  # httpx, which most servers never need

        key = (address.user, address.password, connect_seconds)
        with self._lock:
            if key not in self._connections:
                self._connections[key] = Connections(
                    user=address.user,
                    password=address.password,
                    timeout_seconds=_ANSWER_SECONDS,
                    connect_seconds=connect_seconds,
                    names_servers=True,
                )
            return self._connections[key]


def answer_file(answer: Answer) -> BinaryIO:
    """The answer for readers of files."""
    from engine.client.http.connections import AnswerFile

    return io.BufferedReader(AnswerFile(answer))


def _is_of_replica(error: PandoError) -> bool:
    return isinstance(error, RefusedError | UnknownOutcomeError) or error.name in _TRY_ANOTHER
