"""The second half of a statement: what it asked for is made, and what follows may still fail."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from parts.common.errors import ConflictError, UnavailableError, UnknownOutcomeError


@contextmanager
def report_as_unfinished(what: str) -> Iterator[None]:
    """``what`` is true already, so nobody may be told that it can be repeated: raises 341 (UNFINISHED) where the block
    finds ZooKeeper, or the time, gone, or a disk that fails."""
    try:
        yield
    except (UnavailableError, ConflictError, OSError) as error:
        raise UnknownOutcomeError("UNFINISHED", f"{what}, but what follows was not waited for: {error}") from error
