"""Sends queries and rows to the servers of other shards over HTTP, with failover between replicas.

A replica that failed is tried last for a minute. A process has one :class:`RemoteServers`; it is thread-safe.
"""

from __future__ import annotations

import io
import itertools
import secrets
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, BinaryIO, TypeVar

from engine.http_client.errors import RefusedError
from engine.remote.replica_delays import Delays, Freshness, parse_delays
from engine.remote.server_clusters import Address, Shard, is_this_server
from engine.server.cluster_secret import make_authorization
from engine.server.config import Config
from parts.common.errors import PandoError, UnavailableError, UnknownOutcomeError
from sql.grammar.tokens import quote_string

if TYPE_CHECKING:
    from engine.http_client.connections import Connections, StreamedResponse

Value = TypeVar("Value")

_REMEMBERED_SECONDS = 60.0
_DELAYS_SECONDS = 1.0
"""How long a server's reported delays are reused."""
_ANSWER_SECONDS = 300.0
_KILL_SECONDS = 1.0
_SHOWN_CHARACTERS = 300
_TRY_ANOTHER = frozenset({"UNKNOWN_TABLE", "UNKNOWN_DATABASE", "NETWORK_ERROR", "TABLE_IS_READ_ONLY"})
"""Errors after which another replica may succeed."""


@dataclass(slots=True)
class ReplicaFailures:
    """The number of a replica's failures, and until when it is tried last."""

    count: int = 0
    until: float = 0.0


class RemoteServers:
    """The other servers, as this process reaches them. Thread-safe."""

    def __init__(self, config: Config, monotonic: Callable[[], float], clock: Callable[[], float]) -> None:
        """Keeps connections open until :meth:`close`; ``clock`` returns seconds since the epoch."""
        self._config = config
        self._clock = clock
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._connections: dict[tuple[str, str, bool, float], Connections] = {}
        self._failures: dict[tuple[str, int], ReplicaFailures] = {}
        self._delays: dict[tuple[str, int], tuple[float, Delays]] = {}
        """The time and content of each server's last report."""
        self._turns = itertools.count()

    def is_local(self, address: Address) -> bool:
        """Returns whether the address is this server's own."""
        return is_this_server(address, self._config)

    def count_failures(self, address: Address) -> tuple[int, int]:
        """Returns the number of a replica's failures, and the seconds until they are forgotten."""
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
        user: str,
        connect_seconds: float = 1.0,
        read_seconds: float | None = None,
    ) -> Iterator[StreamedResponse]:
        """Sends one statement of ``user``, followed by ``rows``, and gives the response as it arrives.

        Raises 209 (SOCKET_TIMEOUT) when the server sends nothing for ``read_seconds``.
        """
        head = text.encode() if rows is None else f"{text}\n".encode()
        body = head if rows is None else itertools.chain([head], rows)
        parameters = {"database": address.default_database, **settings} if address.default_database else settings
        connections = self._get_connections(address, connect_seconds)
        proof = self._make_authorization(address, user, parameters, head, has_rows=rows is not None)
        with connections.post(
            f"http://{address}", "/", body, parameters, read_seconds=read_seconds, authorization=proof
        ) as answer:
            yield answer

    def _make_authorization(
        self, address: Address, user: str, parameters: Mapping[str, str], statement: bytes, *, has_rows: bool = False
    ) -> str:
        """Returns the signed header; empty where the address has its own user and password."""
        if not address.secret:
            return ""
        return make_authorization(
            address.secret, address.cluster, user or "default", parameters, statement,
            has_rows=has_rows, now=self._clock(), number=secrets.token_hex(16),
        )  # fmt: skip

    def ask_any_replica(
        self,
        shard: Shard,
        ask: Callable[[Address], Value],
        *,
        connect_seconds: float = 1.0,
        freshness: Freshness | None = None,
    ) -> Value:
        """Returns the result of ``ask`` for the first replica that answers; others are tried after a failure.

        With ``freshness`` stale replicas are tried last, or not at all. If there are several replicas each is pinged
        first, because a server that hangs still accepts connections. Raises 279 (ALL_CONNECTION_TRIES_FAILED), which
        lists all failures; 369 (ALL_REPLICAS_ARE_STALE); and at once any error that another replica would give too.
        """
        problems: list[str] = []
        refusals: list[PandoError] = []
        stale: list[tuple[float, Address]] = []
        for address in self.order_replicas(shard.replicas):
            with self._note_replica_failure(address, problems, refusals):
                delay = self._check(address, shard, freshness, connect_seconds)
                if freshness is None or delay < freshness.limit_seconds:
                    return self._ask_replica(address, ask)
                stale.append((delay, address))
        if freshness is not None and stale and not freshness.may_be_stale:
            raise _make_all_stale_error(shard, freshness, stale, problems)
        for _, address in sorted(stale, key=lambda found: found[0]):
            with self._note_replica_failure(address, problems, refusals):
                return self._ask_replica(address, ask)
        if refusals and len(refusals) == len(problems):
            raise refusals[0]
        raise UnavailableError(
            "ALL_CONNECTION_TRIES_FAILED",
            f"All connection tries failed for shard {shard.number}. Log: {'; '.join(problems)}",
        )

    @contextmanager
    def _note_replica_failure(
        self, address: Address, problems: list[str], refusals: list[PandoError]
    ) -> Iterator[None]:
        """Records a failure that concerns this replica alone; other errors pass.

        A replica that answers that its rows are too old is among ``refusals``, too.
        """
        try:
            yield
        except PandoError as error:
            if error.name == "ALL_REPLICAS_ARE_STALE":
                refusals.append(error)
            elif _concerns_replica(error):
                self._note_failure(address)
            else:
                raise
            problems.append(f"{address}: {error}")

    def _ask_replica(self, address: Address, ask: Callable[[Address], Value]) -> Value:
        found = ask(address)
        self._failures.pop((address.host, address.port), None)
        return found

    def _check(self, address: Address, shard: Shard, freshness: Freshness | None, connect_seconds: float) -> float:
        """Returns the replica's delay in seconds. Raises 210 (NETWORK_ERROR) if it does not respond."""
        has_others = len(shard.replicas) > 1
        if freshness is not None and (has_others or not freshness.may_be_stale):
            is_known = self._get_known_delays(address) is not None
            delays = self._get_delays(address, freshness, connect_seconds)
            if is_known and has_others:
                self._check_alive(address, connect_seconds)
            return freshness.delay(delays, address.default_database)
        if has_others:
            self._check_alive(address, connect_seconds)
        return 0.0

    def forget_delays(self) -> None:
        """Forgets the known delays, so that the next queries ask again."""
        self._delays.clear()

    def _get_known_delays(self, address: Address) -> Delays | None:
        told_at, delays = self._delays.get((address.host, address.port), (-_DELAYS_SECONDS, {}))
        return delays if self._monotonic() - told_at < _DELAYS_SECONDS else None

    def _get_delays(self, address: Address, freshness: Freshness, connect_seconds: float) -> Delays:
        """Returns the delays, known or asked for; the request also shows that the server is alive."""
        delays = self._get_known_delays(address)
        if delays is None:
            asked_at = self._monotonic()
            delays = freshness.here() if self.is_local(address) else self._request_delays(address, connect_seconds)
            self._delays[address.host, address.port] = asked_at, delays
        return delays

    def _request_delays(self, address: Address, connect_seconds: float) -> Delays:
        url = f"http://{address}/replicas_status?delays=1"
        page = self._get_connections(address, connect_seconds).try_get(url, connect_seconds)
        if page is None:
            raise _make_no_answer_error(connect_seconds)
        return parse_delays(page.content)

    def kill(self, address: Address, query_id: str, user: str) -> None:
        """Kills a query that is no longer wanted; failures are ignored."""
        text = f"KILL QUERY WHERE query_id = {quote_string(query_id)}".encode()
        connections = self._get_connections(address, _KILL_SECONDS)
        with (
            suppress(PandoError),
            connections.post(
                f"http://{address}",
                "/",
                text,
                read_seconds=_KILL_SECONDS,
                authorization=self._make_authorization(address, user, {}, text),
            ) as answer,
        ):
            answer.read_beginning(1)

    def order_replicas(self, replicas: Sequence[Address]) -> list[Address]:
        """Sorts replicas: failed ones last, then this server first, then by priority; equal ones take turns."""
        turn = next(self._turns) % len(replicas)
        turned = [*replicas[turn:], *replicas[:turn]]
        return sorted(
            turned, key=lambda found: (self.count_failures(found)[0], not self.is_local(found), found.priority)
        )

    def close(self) -> None:
        """Closes all connections."""
        with self._lock:
            connections, self._connections = self._connections, {}
        for entry in connections.values():
            entry.close()

    def _check_alive(self, address: Address, connect_seconds: float) -> None:
        connections = self._get_connections(address, connect_seconds)
        if not self.is_local(address) and not connections.is_alive(f"http://{address}", connect_seconds):
            raise _make_no_answer_error(connect_seconds)

    def _note_failure(self, address: Address) -> None:
        with self._lock:
            found = self._failures.setdefault((address.host, address.port), ReplicaFailures())
            found.count += 1
            found.until = self._monotonic() + _REMEMBERED_SECONDS

    def _get_connections(self, address: Address, connect_seconds: float) -> Connections:
        from engine.http_client.connections import Connections  # imports httpx, which most servers never need

        key = (address.user, address.password, bool(address.secret), connect_seconds)
        with self._lock:
            if key not in self._connections:
                self._connections[key] = Connections(
                    user="" if address.secret else address.user,
                    password="" if address.secret else address.password,
                    timeout_seconds=_ANSWER_SECONDS,
                    connect_seconds=connect_seconds,
                    names_servers=True,
                )
            return self._connections[key]


def open_response_file(answer: StreamedResponse, check: Callable[[], None]) -> BinaryIO:
    """Returns the response as a readable file; ``check`` raises to stop reading."""
    from engine.http_client.response_file import ResponseFile

    return io.BufferedReader(ResponseFile(answer, check))


def make_bad_answer_error(address: Address, problem: object) -> RefusedError:
    """Returns the error for a response that no Pando server sends, or that is broken."""
    return RefusedError(
        "NETWORK_ERROR", f"{address} did not answer as a server does: {str(problem)[:_SHOWN_CHARACTERS]}"
    )


def _concerns_replica(error: PandoError) -> bool:
    return isinstance(error, RefusedError | UnknownOutcomeError) or error.name in _TRY_ANOTHER


def _make_no_answer_error(seconds: float) -> RefusedError:
    return RefusedError("NETWORK_ERROR", f"There is no answer within {seconds:g} s")


def _make_all_stale_error(
    shard: Shard, freshness: Freshness, stale: Sequence[tuple[float, Address]], problems: Sequence[str]
) -> UnavailableError:
    shown = ", ".join(
        f"{address} {'has not read its log yet' if delay == inf else f'is {delay:.0f} s behind'}"
        for delay, address in stale
    )
    return UnavailableError(
        "ALL_REPLICAS_ARE_STALE",
        f"No replica of shard {shard.number} is less than {freshness.limit_seconds} s behind: "
        f"{'; '.join([shown, *problems])}. Raise max_replica_delay_for_distributed_queries, or set "
        "fallback_to_stale_replicas_for_distributed_queries = 1",
    )
