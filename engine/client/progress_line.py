"""The progress line of a long query, on a terminal's standard error; cleared before output."""

from __future__ import annotations

import shutil
import sys
import time
from typing import TextIO

from engine.client.backends import QueryProgress
from engine.client.number_text import format_bytes, format_count

FIRST_SHOWN_AFTER_SECONDS = 0.5
"""Shorter queries show nothing."""
INTERVAL_SECONDS = 0.2
_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_BAR_WIDTH = 24


class ProgressLine:
    """A progress line. It draws nothing unless ``is_shown``."""

    def __init__(self, is_shown: bool, stream: TextIO = sys.stderr) -> None:
        self._is_shown = is_shown
        self._stream = stream
        self._started = time.monotonic()
        self._drawn_at = 0.0
        self._ticks = 0
        self._is_drawn = False

    @property
    def is_due(self) -> bool:
        """Whether the line is to be drawn again."""
        now = time.monotonic()
        return (
            self._is_shown
            and now - self._started > FIRST_SHOWN_AFTER_SECONDS
            and now - self._drawn_at > INTERVAL_SECONDS
        )

    def draw(self, progress: QueryProgress | None) -> None:
        """Draws the line."""
        self._drawn_at = time.monotonic()
        self._ticks += 1
        text = format_progress(progress or QueryProgress(), time.monotonic() - self._started, self._ticks)
        width = shutil.get_terminal_size().columns - 1
        self._stream.write(f"\r\x1b[2K{text[:width]}")
        self._stream.flush()
        self._is_drawn = True

    def clear(self) -> None:
        """Removes the line from the terminal."""
        if self._is_drawn:
            self._stream.write("\r\x1b[2K")
            self._stream.flush()
            self._is_drawn = False


def format_progress(progress: QueryProgress, seconds: float, ticks: int) -> str:
    """Returns the text of the line."""
    rows = progress.read_rows or progress.written_rows
    verb = "read" if progress.read_rows or not progress.written_rows else "written"
    parts = [f"{_SPINNER[ticks % len(_SPINNER)]} {seconds:.1f} s"]
    if progress.total_rows and rows:
        share = min(1.0, rows / progress.total_rows)
        filled = int(share * _BAR_WIDTH)
        parts.append(f"{'█' * filled}{'░' * (_BAR_WIDTH - filled)} {share:4.0%}")
    if rows:
        size = f", {format_bytes(progress.read_bytes)}" if progress.read_bytes else ""
        parts.append(f"{format_count(rows)} rows {verb}{size} ({format_count(rows / max(seconds, 1e-3))} rows/s)")
    return "  ".join(parts)
