"""Every call that a worker makes has a handler in the replica process, and every question one in the worker."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Collection
from types import ModuleType

import pytest

from engine.workers import replica_client, worker, worker_pool
from engine.workers.call_handlers import WorkerCalls


def _names_sent(module: ModuleType, methods: Collection[str]) -> set[str]:
    """The literal first arguments of calls of these methods."""
    found = set()
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in methods):
            continue
        for argument in node.args[:2]:
            if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                found.add(argument.value)
    return found


@pytest.mark.parametrize("name", sorted(_names_sent(replica_client, ("call", "begin"))))
def test_a_call_has_a_handler(name: str) -> None:
    assert hasattr(WorkerCalls, f"_on_{name}")


@pytest.mark.parametrize("name", sorted(_names_sent(worker_pool, ("ask", "_ask"))))
def test_a_question_has_a_handler(name: str) -> None:
    handlers = {handler for each in vars(worker).values() if inspect.isclass(each) for handler in dir(each)}
    assert f"_on_{name}" in handlers
