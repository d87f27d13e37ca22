"""Counts how often functions run: what a statement costs, whatever else the machine does."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Callable
from types import FrameType


def calls_of(action: Callable[[], object]) -> Counter[str]:
    """How often each Python function ran while ``action`` did, by ``module.Class.function``: in this thread, and in
    threads of Python that begin meanwhile."""
    counts: Counter[str] = Counter()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            counts[f"{frame.f_globals.get('__name__')}.{frame.f_code.co_qualname}"] += 1

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        action()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return counts
