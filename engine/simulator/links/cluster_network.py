"""The network between clusters: routes for requests and answers, which may be slow or cut.

A route leads from one cluster to another, one way. So a request may arrive whose answer is lost: the asker sees no
difference between that and a request that never arrived.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import urlsplit

from engine.simulator.simulated_servers import SimulatedServer, SimulatedServers
from engine.simulator.step_pool import Crash
from parts.common.errors import UnavailableError

T = TypeVar("T")
_SLOW_SECONDS = (0.05, 0.5, 3.0, 12.0)
"""From another continent to a route that only just works: longer than a request's time-out."""


@dataclass
class Route:
    """One direction between two clusters."""

    is_cut: bool = False
    delay_seconds: float = 0.0


class ClusterNetwork:
    """All routes between clusters. A server that is in the middle of a statement does not answer."""

    def __init__(self, rng: random.Random, count: Callable[[str], None]) -> None:
        self._random = rng
        self._count = count
        self.clusters: Mapping[str, SimulatedServers] = {}
        self.loss_rate = 0.0
        """The share of requests and of answers that are lost on a route that works."""
        self._routes: dict[tuple[str, str], Route] = {}

    def route(self, source: str, target: str) -> Route:
        """Returns the route from one cluster to another."""
        return self._routes.setdefault((source, target), Route())

    def cut(self, one: str, other: str, *, is_one_way: bool = False) -> None:
        """Cuts the route from one cluster to another; also the way back, unless ``is_one_way``."""
        self.route(one, other).is_cut = True
        if not is_one_way:
            self.route(other, one).is_cut = True

    def slow(self, one: str, other: str) -> None:
        """Makes one direction slow."""
        self.route(one, other).delay_seconds = self._random.choice(_SLOW_SECONDS)

    def mend(self) -> None:
        """Makes all routes work."""
        self._routes.clear()
        self.loss_rate = 0.0

    def name_of(self, server: SimulatedServer) -> str:
        """Returns the name of a server's cluster."""
        return next(name for name, cluster in self.clusters.items() if cluster is server.cluster)

    def call(
        self,
        home: str,
        asker: SimulatedServer,
        url: str,
        action: Callable[[SimulatedServer], T],
        read_seconds: float | None = None,
    ) -> T:
        """Runs an action on the server at ``url`` as a request of ``asker`` of the cluster ``home``.

        A way back that takes longer than ``read_seconds`` is one on which the answer is lost.

        Raises 210 (NETWORK_ERROR) if the request or the answer is lost, and what the action raises.
        """
        there = urlsplit(url).hostname or ""
        self._travel(asker, home, there, f"the request to {url}", read_seconds)
        server = self._find(there, urlsplit(url).port or 0)
        if server is None or not server.is_up:
            raise UnavailableError("NETWORK_ERROR", f"Nobody answers at {url}")
        if server in server.cluster.stack:
            self._count("a server was busy")
            raise UnavailableError("NETWORK_ERROR", f"{url} did not answer in time")
        try:
            with server.acting():
                answer = action(server)
        except Crash:
            assert not server.is_up
            self._require_up(asker)
            self._count("a server crashed while it answered")
            raise UnavailableError("NETWORK_ERROR", f"{url} closed the connection") from None
        self._require_up(asker)
        self._travel(asker, there, home, f"the answer of {url}", read_seconds)
        return answer

    def _find(self, cluster: str, port: int) -> SimulatedServer | None:
        found = self.clusters[cluster].nodes.get(f"r{port}") if cluster in self.clusters else None
        assert found is None or isinstance(found, SimulatedServer)
        return found

    def _travel(self, asker: SimulatedServer, source: str, target: str, what: str, most_seconds: float | None) -> None:
        route = self.route(source, target)
        is_too_slow = most_seconds is not None and route.delay_seconds > most_seconds
        if route.delay_seconds:
            self._count("a route was slow")
            asker.cluster.wait(threading.Event(), route.delay_seconds)
        if route.is_cut:
            self._count("a route was cut" if self.route(target, source).is_cut else "a route was cut one way")
        elif self._random.random() < self.loss_rate:
            self._count("a message was lost")
        elif not is_too_slow:
            return
        asker.cluster.wait(threading.Event(), self._random.uniform(0.1, 2.0))  # until the asker gives up
        raise UnavailableError("NETWORK_ERROR", f"{what} from {source} to {target} was lost")

    @staticmethod
    def _require_up(asker: SimulatedServer) -> None:
        if not asker.is_up:
            raise Crash(asker.name)
