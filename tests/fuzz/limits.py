"""What holds for a case whatever its kind: the memory that it may take, and what must not be in the server's log."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_SELF = Path("/proc/self")
_SLACK_BYTES = 768 << 20
"""What allocators keep, libraries load at their first use, and a watchdog sees one look too late."""


@contextmanager
def bounded_memory(limit_bytes: int) -> Iterator[None]:
    """Raises ``AssertionError`` when the process grew in between by more than the limit and some slack."""
    (_SELF / "clear_refs").write_text("5")  # the high-water mark is now what is held now
    before = _status_bytes("VmRSS")
    try:
        yield
    finally:
        grown = _status_bytes("VmHWM") - before
        assert grown <= limit_bytes + _SLACK_BYTES, f"{grown >> 20} MiB were taken, {limit_bytes >> 20} MiB are allowed"


def _status_bytes(name: str) -> int:
    line = next(line for line in (_SELF / "status").read_text().splitlines() if line.startswith(name))
    return int(line.split()[1]) << 10


class Faults(logging.Handler):
    """What a server must never write into its log."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.records: list[logging.LogRecord] = []

    @classmethod
    @contextmanager
    def watched(cls) -> Iterator[Faults]:
        faults = cls()
        logging.getLogger().addHandler(faults)
        try:
            yield faults
        finally:
            logging.getLogger().removeHandler(faults)

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info or record.levelno >= logging.ERROR:
            self.records.append(record)

    def check(self) -> None:
        """Raises ``AssertionError`` with what was logged since the last check."""
        texts = [logging.Formatter().format(record) for record in self.records]
        self.records.clear()
        assert not texts, "in the log: " + "\n".join(texts)
