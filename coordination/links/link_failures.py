"""Decide what a link does after a failure: try again, pause, or stop.

*Retry*: the network, ZooKeeper, memory and disk recover by themselves; attempts come at growing intervals. *Pause*: the
schema, a constraint, or a change that failed the same way five times in a row; the link looks again now and then, and
goes on by itself when the cause is gone. *Stop*: a gap, an epoch, a fork, a source that lost its past; a person must
say what to do. A stopped link looks again too, since what the person does may end the cause.

Source: Tarantool's ``upstream.status``: ``disconnected`` heals by itself, ``stopped`` does not.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from parts.common.errors import (
    CancelledError,
    ConflictError,
    CorruptionError,
    PandoError,
    UnavailableError,
    UnknownOutcomeError,
)

MAX_ATTEMPTS = 5
"""The same change that failed so often in the same way pauses its link."""
_FIRST_PAUSE_SECONDS = 0.1
_LONGEST_RETRY_SECONDS = 10.0
_PAUSED_SECONDS = 2.0
_STOPPED_SECONDS = 5.0
_REFUSED_SECONDS = 15.0
_REFUSALS = frozenset({"AUTHENTICATION_FAILED", "READONLY"})
"""Each attempt with a wrong password makes the user's next log-ins wait."""
_RETRIED = frozenset(
    {
        "NETWORK_ERROR", "SOCKET_TIMEOUT", "TIMEOUT_EXCEEDED", "TOO_MANY_SIMULTANEOUS_QUERIES", "MEMORY_LIMIT_EXCEEDED",
        "NOT_ENOUGH_SPACE", "TOO_MANY_PARTS", "ABORTED", "KEEPER_EXCEPTION", "NO_ZOOKEEPER", "TABLE_IS_READ_ONLY",
    }
)  # fmt: skip
_PAUSED = frozenset(
    {
        "INCOMPATIBLE_COLUMNS", "TYPE_MISMATCH", "CANNOT_CONVERT_TYPE", "NO_SUCH_COLUMN_IN_TABLE", "THERE_IS_NO_COLUMN",
        "VIOLATED_CONSTRAINT", "NOT_IMPLEMENTED", "AUTHENTICATION_FAILED", "READONLY",
    }
)  # fmt: skip
_STOPPED = frozenset({"CANNOT_READ_ALL_DATA", "UNKNOWN_TABLE", "UNKNOWN_DATABASE"})
"""The source does not have any more what the target lacks, or is gone itself."""


class FailureKind(Enum):
    """The consequence of a failure."""

    RETRY = "retry"
    PAUSE = "pause"
    STOP = "stop"


class LinkStopped(Exception):
    """A link cannot go on until a person says what to do; ``message`` says why, and what helps."""

    def __init__(self, message: str, *, is_late: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.is_late = is_late
        """Changes that the target lacks are not sent any more: a copy of the source helps."""


class LinkPaused(Exception):
    """A link waits until a cause is gone; ``rows`` wait meanwhile, as far as they are known."""

    def __init__(self, message: str, rows: int = 0) -> None:
        super().__init__(message)
        self.message = message
        self.rows = rows


@dataclass(frozen=True, slots=True)
class LinkFailure:
    """The last failure of a link."""

    kind: FailureKind
    name: str
    """The error's name: the way in which it failed."""
    place: int
    """The place in the source's stream up to which the target had everything."""
    count: int = 1
    """Failures of this name at this place in a row."""

    @property
    def pause_seconds(self) -> float:
        """How long the next attempt waits."""
        if self.kind is FailureKind.STOP:
            return _STOPPED_SECONDS
        if self.kind is FailureKind.PAUSE:
            return _REFUSED_SECONDS if self.name in _REFUSALS else _PAUSED_SECONDS
        return float(min(_FIRST_PAUSE_SECONDS * 2 ** min(self.count - 1, 20), _LONGEST_RETRY_SECONDS))


def assess_failure(former: LinkFailure | None, error: Exception, place: int) -> LinkFailure:
    """Returns what a failure at ``place`` means, after the ``former`` one.

    A success in between leaves none.
    """
    name = error.name if isinstance(error, PandoError) else type(error).__name__
    is_repeated = former is not None and (former.name, former.place) == (name, place)
    count = former.count + 1 if former is not None and is_repeated else 1
    kind = _classify(error)
    if kind is FailureKind.RETRY and count >= MAX_ATTEMPTS and not _heals(error):
        kind = FailureKind.PAUSE
    return LinkFailure(kind, name, place, count)


def _classify(error: Exception) -> FailureKind:
    if isinstance(error, LinkStopped):
        return FailureKind.STOP
    if isinstance(error, LinkPaused):
        return FailureKind.PAUSE
    name = error.name if isinstance(error, PandoError) else ""
    if name in _STOPPED:
        return FailureKind.STOP
    return FailureKind.PAUSE if name in _PAUSED else FailureKind.RETRY


def _heals(error: Exception) -> bool:
    """Returns whether the failure says nothing about the change that failed."""
    if isinstance(error, CorruptionError):
        return False
    is_of_world = isinstance(error, UnavailableError | UnknownOutcomeError | ConflictError | CancelledError | OSError)
    return is_of_world or (isinstance(error, PandoError) and error.name in _RETRIED)


def is_late(error: Exception) -> bool:
    """Tells whether the target lacks changes that the source does not send any more."""
    if isinstance(error, LinkStopped):
        return error.is_late
    return isinstance(error, PandoError) and error.name == "CANNOT_READ_ALL_DATA"
