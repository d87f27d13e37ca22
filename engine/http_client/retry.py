"""Retries over several servers; :mod:`engine.http_client.errors` says which failures may be repeated."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from engine.http_client.errors import RefusedError
from parts.common.errors import UnknownOutcomeError

Result = TypeVar("Result")

_FIRST_PAUSE_SECONDS = 0.2
_LONGEST_PAUSE_SECONDS = 10.0


def try_servers(
    urls: Sequence[str],
    function: Callable[[str], Result],
    *,
    retries: int,
    is_idempotent: bool = True,
    sleep: Callable[[float], None] = time.sleep,
) -> Result:
    """Calls the function for the servers in turn; returns its first success or raises the last failure.

    Pauses after each round, growing from 0.2 s to 10 s. Every server is asked once, however few ``retries`` there are.
    """
    last = max(retries + 1, len(urls)) - 1
    pause = _FIRST_PAUSE_SECONDS
    for attempt in range(last):
        try:
            return function(urls[attempt % len(urls)])
        except RefusedError:
            pass
        except UnknownOutcomeError:
            if not is_idempotent:
                raise
        if (attempt + 1) % len(urls) == 0:
            sleep(pause * random.uniform(0.5, 1.0))
            pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)
    return function(urls[last % len(urls)])
