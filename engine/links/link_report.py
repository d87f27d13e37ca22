"""The state of a running link, told in memory and in its node.

The node is for the other servers of the target.

Written when something but the times changes, at most every two seconds, and now and then while nothing does.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import replace

from coordination.keeper.interface import Create, Keeper, KeeperConnectionLoss, KeeperError, MultiFailed, NoNode
from coordination.links.link_lag import LinkLag
from engine.tables.capabilities.link_status import LinkProgress, UpstreamStatus
from parts.common.errors import CorruptionError, PandoError

logger = logging.getLogger(__name__)

_WRITE_SECONDS = 2.0
_REPEAT_SECONDS = 30.0
_OF_THE_SOURCE = ("siblings", "source_position", "rows_behind", "bytes_behind", "sync_state")
"""What a leader that hears nothing of the source must still know."""


class LinkReport:
    """The progress of one link, as the server that runs it knows it.

    One thread reports, any thread reads.
    """

    def __init__(self, path: str, server: str, monotonic: Callable[[], float]) -> None:
        """``path`` is the node; ``server`` this server's name."""
        self._path = path
        self._monotonic = monotonic
        self._progress = LinkProgress(leader=server)
        self._lag = LinkLag(monotonic())
        self._written: LinkProgress | None = None
        self._written_at = 0.0
        self._is_taken_over = False

    @property
    def progress(self) -> LinkProgress:
        """The progress now."""
        progress, lag, now = self._progress, self._lag, self._monotonic()
        is_connected = progress.upstream_status is not UpstreamStatus.DISCONNECTED
        return replace(
            progress,
            idle=round(max(0.0, now - lag.answered_at), 3),
            lag=round(lag.measure(now, is_connected=is_connected), 3),
        )

    def take_over(self, keeper: Keeper, clock: float) -> None:
        """Takes over what the source told the server that ran the link before, once after each election.

        ``clock``: the time, in seconds since 1970.
        """
        if self._is_taken_over:
            return
        (found,) = keeper.get_many([self._path])
        self._is_taken_over = True
        if found is None:
            return
        try:
            told, stat = LinkProgress.parse(found[0]), found[1]
        except CorruptionError as error:
            logger.warning("the last state of a link is lost: %s", error)
            return
        self.change(**{name: getattr(told, name) for name in _OF_THE_SOURCE})
        since = told.idle + max(0.0, clock - stat.modified_ms / 1000)
        self._lag = LinkLag(self._monotonic() - since, max(0.0, told.lag - told.idle))

    def change(self, **values: object) -> None:
        """Changes some of the figures."""
        self._progress = replace(self._progress, **values)  # type: ignore[arg-type]

    def count_batch(self, rows: int, size_bytes: int, blocks: int, lost_rows: int) -> None:
        """Counts what a batch brought."""
        former = self._progress
        self.change(
            rows_applied=former.rows_applied + rows,
            bytes_applied=former.bytes_applied + size_bytes,
            blocks_applied=former.blocks_applied + blocks,
            lost_rows=former.lost_rows + lost_rows,
        )

    def count_error(self, text: str) -> None:
        """Counts a failed attempt."""
        self.change(errors=self._progress.errors + 1, last_exception=text)

    def note_answer(self, lag: LinkLag) -> None:
        """Records an answer of the source."""
        self._lag = lag

    def write(self, keeper: Keeper) -> float:
        """Writes the node if it is time to. Failures are left for the next time.

        Returns the seconds after which something waits to be written; infinity if nothing does.
        """
        now, progress = self._monotonic(), self.progress
        since = now - self._written_at
        still = replace(progress, idle=0.0, lag=0.0)
        is_new = self._written is None or still != self._written
        pause = _WRITE_SECONDS if is_new else _REPEAT_SECONDS
        if self._written is not None and since < pause:
            return pause - since if is_new else math.inf
        try:
            _set_or_create(keeper, self._path, progress.to_bytes())
        except (KeeperError, KeeperConnectionLoss, PandoError) as error:
            logger.debug("the state %s is written later: %s", self._path, error)
            return _WRITE_SECONDS
        self._written, self._written_at = still, now
        return math.inf

    def forget_written(self) -> None:
        """Forgets what the node holds, which another server writes now.

        When this one leads again it reads and writes the node.
        """
        self._written, self._is_taken_over = None, False


def _set_or_create(keeper: Keeper, path: str, data: bytes) -> None:
    try:
        keeper.set(path, data)
    except NoNode:
        try:
            keeper.multi([Create(path, data)])
        except MultiFailed as error:
            raise error.cause from error
