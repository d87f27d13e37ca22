"""The links that found nothing new: one request to their source's cluster waits for news of all.

So a server with hundreds of idle links needs one thread and a few requests a second for each linked cluster.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable
from dataclasses import dataclass

from engine.links.exchange.cluster_client import ClusterClient
from engine.server.background_pool import BackgroundTask
from parts.common.errors import PandoError

logger = logging.getLogger(__name__)

_WAIT_SECONDS = 0.25
"""A link that begins to rest while a request waits is in the next one, so requests are short while links come."""
_QUIET_SECONDS = 3.0
"""After so long without another link requests wait for the links' ``replication_timeout``."""
_NOBODY_SECONDS = 1.0
_FAILED_SECONDS = 0.5
_RESTING_SECONDS, _RESTING_AGAIN_SECONDS = 25.0, 55.0


@dataclass(frozen=True, slots=True)
class RestingLink:
    """A link that waits for news."""

    table: tuple[str, str]
    """Database and table at the source."""
    mark: str
    """The mark of the last answer."""
    timeout_seconds: float
    """The link's ``replication_timeout``."""
    is_again: bool
    """The link rested before, and nothing came since."""
    note_heartbeat: Callable[[], None]
    """Called when the source answered that there is nothing new."""
    wake: Callable[[], None]
    """Called when there is something new, or the source does not answer: the link asks by itself."""

    @property
    def rest_seconds(self) -> float:
        """The time after which the link asks by itself without news, which its source counts as a heartbeat."""
        return _RESTING_AGAIN_SECONDS if self.is_again else _RESTING_SECONDS


class RestingLinks:
    """The resting links of one linked cluster. ``rest`` and ``wake`` may be called from any thread."""

    def __init__(self, client: ClusterClient, monotonic: Callable[[], float], max_poll_seconds: float) -> None:
        self._client = client
        self._monotonic = monotonic
        self._max_poll_seconds = max_poll_seconds
        self._rested_at = -math.inf
        self._links: dict[str, RestingLink] = {}
        self._lock = threading.Lock()
        self.task = BackgroundTask(f"news of cluster {client.name}", self._step)

    def rest(self, name: str, link: RestingLink) -> None:
        """Adds a link until it is woken."""
        with self._lock:
            self._links[name] = link
            is_first = len(self._links) == 1
            if not link.is_again:
                self._rested_at = self._monotonic()
        if is_first:
            self.task.wake()

    def forget(self, name: str) -> None:
        """Removes a link that ends or asks by itself."""
        with self._lock:
            self._links.pop(name, None)

    def _step(self) -> float:
        with self._lock:
            asked = list(self._links.items())
        if not asked:
            return _NOBODY_SECONDS
        links = [link for _, link in asked]
        is_quiet = self._monotonic() - self._rested_at > _QUIET_SECONDS
        wait = min(link.timeout_seconds for link in links) if is_quiet else _WAIT_SECONDS
        there = min(wait, self._max_poll_seconds)
        try:
            found = self._client.find_news(
                [(link.table, link.mark) for link in links], there, silence_seconds=max(4 * wait, wait + 1.0)
            )
        except PandoError as error:
            logger.info("cluster %s tells no news: %s", self._client.name, error.message)
            self._wake(asked)
            return _FAILED_SECONDS
        news = set(found)
        self._wake([each for at, each in enumerate(asked) if at in news])
        for at, (_, link) in enumerate(asked):
            if at not in news:
                link.note_heartbeat()
        return 0.0 if there else wait

    def _wake(self, links: list[tuple[str, RestingLink]]) -> None:
        with self._lock:
            for name, link in links:
                if self._links.get(name) is link:
                    del self._links[name]
        for _, link in links:
            link.wake()
