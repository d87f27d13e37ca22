"""Starts and ends an engine's process quickly, without needless imports."""

from __future__ import annotations

import atexit
import contextlib
import gc
import os
import sys
from collections.abc import Iterator, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from engine.engine import Engine


class _ImportBlocker(MetaPathFinder):
    """A finder that makes the import of one module fail."""

    def __init__(self, name: str) -> None:
        self._name = name

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Raises ``ModuleNotFoundError`` for the module that is left out."""
        if fullname == self._name:
            raise ModuleNotFoundError(f"{fullname} is left out of this process", name=fullname)
        return None


@contextlib.contextmanager
def pause_garbage_collection() -> Iterator[None]:
    """Turns off garbage collection during the block, and freezes what it has loaded.

    Loaded modules stay until the end; collections during a start would examine them again and again, for a tenth of its
    time. They are unfrozen at the end, because DuckDB's binding complains about leftover objects.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
        atexit.register(gc.unfreeze)


def block_pandas_import() -> None:
    """Keeps pyarrow from importing pandas, which takes 0.4 s and 40 MB.

    pyarrow imports it, if installed, only to see whether a list is a DataFrame.
    """
    _block_import("pandas")


def block_httpx_command_import() -> None:
    """Keeps httpx from importing its own command with rich and pygments: a third of its import time."""
    _block_import("httpx._main")


def _block_import(name: str) -> None:
    if name not in sys.modules:
        sys.meta_path.insert(0, _ImportBlocker(name))


def exit_now(code: int) -> NoReturn:
    """Ends the process at once, without freeing its objects, which would take longer than most statements.

    Nothing may be open any more.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def start_engine(engine: Engine, running: contextlib.ExitStack, *, in_background: bool = False) -> None:
    """Starts an engine and pushes its stop on ``running``; a failed start is stopped at once.

    ``in_background``: see :meth:`engine.engine.Engine.start`.
    """
    try:
        engine.start(in_background=in_background)
    except BaseException:
        with contextlib.suppress(Exception):
            engine.stop()
        raise
    running.callback(engine.stop)
