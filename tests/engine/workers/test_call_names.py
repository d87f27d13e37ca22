"""What one process calls by name, the other one answers: no type checker sees a name in a message."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from types import ModuleType

from engine.catalog.catalog import Catalog
from engine.front.http.status_pages import EngineStatusPages
from engine.workers import call_handlers, catalog_mirror, replica_client, worker, worker_pool
from engine.workers.call_handlers import WorkerCalls


def _called(module: ModuleType, *methods: str) -> Iterator[str]:
    """The names among the first two arguments of the calls of these methods in a module."""
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in methods:
            yield from [str(given.value) for given in node.args[:2] if isinstance(given, ast.Constant)][:1]


def test_the_replica_process_answers_whatever_a_worker_calls() -> None:
    called = {*_called(replica_client, "call", "begin")}
    assert {"insert", "execute"} < called
    assert not [name for name in called if not hasattr(WorkerCalls, f"_on_{name}")]


def test_a_worker_calls_whatever_is_answered() -> None:
    handlers = {name.removeprefix("_on_") for name in vars(WorkerCalls) if name.startswith("_on_")}
    assert handlers == {*_called(replica_client, "call", "begin")}


def test_a_worker_answers_whatever_the_replica_process_asks() -> None:
    handlers = {name for _, owner in inspect.getmembers(worker, inspect.isclass) for name in vars(owner)}
    asked = {*_called(worker_pool, "ask", "_ask")}
    assert "kill" in asked
    assert not [name for name in asked if f"_on_{name}" not in handlers]


def test_changes_of_the_catalog_are_methods_of_it() -> None:
    called = {*_called(catalog_mirror, "change_catalog")}
    assert called == set(call_handlers._CATALOG_CHANGES)
    assert not [name for name in called if not hasattr(Catalog, name)]


def test_pages_that_a_worker_asks_for_are_there() -> None:
    called = {*_called(worker, "page")}
    assert called
    assert not [name for name in called if not hasattr(EngineStatusPages, name)]
