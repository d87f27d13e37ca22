"""Starts an engine in a process that is kept light."""

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


class _LeftOut(MetaPathFinder):
    def __init__(self, name: str) -> None:
        self._name = name

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname == self._name:
            raise ModuleNotFoundError(f"{fullname} is left out of this process", name=fullname)
        return None


@contextlib.contextmanager
def pause_garbage_collection() -> Iterator[None]:
    """What is loaded stays until the end: collections would look at it again and again, for a tenth of the time of a
    start. The last one must: DuckDB's binding complains about what is left."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
        atexit.register(gc.unfreeze)


def block_pandas_import() -> None:
    """pyarrow imports pandas, if installed, to see whether a list is a DataFrame: 0.4 s and 40 MB for nothing."""
    _leave_out("pandas")


def block_httpx_command_import() -> None:
    """httpx imports its own command with rich and pygments, if installed: a third of the time of its import."""
    _leave_out("httpx._main")


def _leave_out(name: str) -> None:
    if name not in sys.modules:
        sys.meta_path.insert(0, _LeftOut(name))


def exit_now(code: int) -> NoReturn:
    """Ends the process, of which nothing is open any more: to take apart all that is loaded takes it longer than most
    statements."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def start_engine(engine: Engine, running: contextlib.ExitStack, *, in_background: bool = False) -> None:
    """Its end is pushed on ``running``; what a failed start began is ended at once. ``in_background``: see
    :meth:`engine.engine.Engine.start`."""
    try:
        engine.start(in_background=in_background)
    except BaseException:
        with contextlib.suppress(Exception):
            engine.stop()
        raise
    running.callback(engine.stop)
