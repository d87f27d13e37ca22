"""Errors that Spark shows begin with the line that says what to do.

Spark's Python workers send the traceback of an error, and its text comes last. A traceback helps nobody whose table is
missing, so it is left out of Pando's own errors; of all others it stays.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

_Class = TypeVar("_Class", bound=type)
_IN_WORKER = ("PYTHON_WORKER_FACTORY_SECRET", "PYTHON_WORKER_FACTORY_SOCK_DIR")
"""Variables that Spark sets for its Python workers alone."""
_HIDE_TRACEBACK = "SPARK_HIDE_TRACEBACK"
"""PySpark looks at it when it sends an error; the worker ends then, so nothing else of the job is hidden by it."""


def without_tracebacks(source: _Class) -> _Class:
    """Decorates a class that Spark calls: Pando's errors leave its public methods without a traceback."""
    for name, method in list(vars(source).items()):
        if inspect.isfunction(method) and not name.startswith("_"):
            setattr(source, name, _wrap(method))
    return source


def _wrap(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        with _hiding_tracebacks():
            return method(*args, **kwargs)

    @functools.wraps(method)
    def generate(*args: Any, **kwargs: Any) -> Iterator[Any]:
        with _hiding_tracebacks():
            yield from method(*args, **kwargs)

    return generate if inspect.isgeneratorfunction(method) else call


@contextmanager
def _hiding_tracebacks() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        from parts.common.errors import PandoError

        if isinstance(error, PandoError) and any(name in os.environ for name in _IN_WORKER):
            os.environ[_HIDE_TRACEBACK] = "1"
        raise
