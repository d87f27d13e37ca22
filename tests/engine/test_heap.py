"""Giving memory back, and leaving the collector little to look at."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref
from pathlib import Path
from typing import Any

import pytest

from parts.memory import release_memory


class _Link:
    def __init__(self) -> None:
        self.other: _Link = self


def test_a_release_collects_what_failed_lately_but_not_the_whole_heap() -> None:
    generations: list[int] = []

    def note(phase: str, info: dict[str, Any]) -> None:
        if phase == "stop":
            generations.append(info["generation"])

    lost = weakref.ref(_Link())
    gc.callbacks.append(note)
    try:
        release_memory()
    finally:
        gc.callbacks.remove(note)
    assert lost() is None
    assert set(generations) == {1}


_SERVER = """
import gc, os, signal, sys, threading, time
from pathlib import Path
from engine.commands.server import run_server
from engine.config import Config

def look():
    while not gc.get_freeze_count():
        time.sleep(0.01)
    print("left:", len(gc.get_objects()) * 10 < gc.get_freeze_count())
    os.kill(os.getpid(), signal.SIGTERM)

threading.Thread(target=look, daemon=True).start()
run_server(Config(path=Path(sys.argv[1]), http_port=0, interserver_http_port=0))
"""


def test_a_server_freezes_what_it_starts_with(tmp_path: Path) -> None:
    """Collecting it would hold the interpreter, and so ``/ping``, for some 60 ms."""
    try:
        done = subprocess.run(
            [sys.executable, "-c", _SERVER, str(tmp_path)], capture_output=True, text=True, timeout=60
        )
    except subprocess.TimeoutExpired:
        pytest.fail("nothing was frozen")
    assert "left: True" in done.stdout, done.stderr
