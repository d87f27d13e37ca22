"""Giving memory back, and leaving the collector little to look at."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref
from pathlib import Path
from typing import Any

import pytest

from engine.catalog.catalog import Catalog
from engine.engine import Engine
from engine.server.config import Config
from parts.common.process_memory import release_memory, without_collections


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
from engine.server.config import Config

def look():
    while not gc.get_freeze_count():
        time.sleep(0.01)
    print("left:", len(gc.get_objects()) * 10 < gc.get_freeze_count())
    os.kill(os.getpid(), signal.SIGTERM)

threading.Thread(target=look, daemon=True).start()
run_server(Config(path=Path(sys.argv[1]), http_port=0, interserver_http_port=0))
"""


@pytest.mark.long
def test_a_server_freezes_what_it_starts_with(tmp_path: Path) -> None:
    """Collecting it would hold the interpreter, and so ``/ping``, for some 60 ms."""
    try:
        done = subprocess.run(
            [sys.executable, "-c", _SERVER, str(tmp_path)], capture_output=True, text=True, timeout=60
        )
    except subprocess.TimeoutExpired:
        pytest.fail("nothing was frozen")
    assert "left: True" in done.stdout, done.stderr


def test_nothing_is_collected_within_and_everything_as_before_afterwards() -> None:
    with without_collections(), without_collections():
        assert not gc.isenabled()
    assert gc.isenabled()
    with pytest.raises(ValueError, match="it"), without_collections():
        raise ValueError("it")
    assert gc.isenabled()
    gc.disable()
    try:
        with without_collections():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_tables_are_read_from_disk_without_collections(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    collects: list[bool] = []
    load = Catalog.load

    def look(catalog: Catalog) -> None:
        collects.append(gc.isenabled())
        load(catalog)

    monkeypatch.setattr(Catalog, "load", look)
    engine = Engine(Config.local(tmp_path))
    engine.start()
    engine.stop()
    assert collects == [False]
    assert gc.isenabled()
