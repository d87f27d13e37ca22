"""Reports failures after a statement's decision, so that nobody repeats the statement."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from parts.common.errors import ConflictError, UnavailableError, UnknownOutcomeError


@contextmanager
def report_as_unfinished(what: str) -> Iterator[None]:
    """Raises 341 (UNFINISHED) if the block fails after the decision.

    ``what`` has already happened, so the error must not suggest a repeat. Covers loss of ZooKeeper, time-outs and disk
    errors.
    """
    try:
        yield
    except (UnavailableError, ConflictError, OSError) as error:
        raise UnknownOutcomeError("UNFINISHED", f"{what}, but what follows was not waited for: {error}") from error
