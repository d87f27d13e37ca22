"""Reads that were fetched ahead are told in their order, once, and only until something else is asked."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from coordination.keeper.interface import Children, Get, NoNode
from coordination.keeper.memory_keeper import MemoryEnsemble, MemoryKeeper
from coordination.keeper.read_ahead import ReadAhead


@pytest.fixture
def ensemble() -> MemoryEnsemble:
    return MemoryEnsemble(time.time)


@pytest.fixture
def keeper(ensemble: MemoryEnsemble) -> MemoryKeeper:
    keeper = ensemble.connect()
    for path in ("/a", "/b", "/a/x"):
        keeper.create(path, path.encode())
    return keeper


def test_what_is_fetched_is_not_asked_again(ensemble: MemoryEnsemble, keeper: MemoryKeeper) -> None:
    ahead = ReadAhead(keeper)
    ahead.fetch([Get("/a"), Get("/none"), Children("/a"), Children("/none"), Get("/b"), Get("/a")])
    requests = ensemble.requests
    assert ahead.get("/a") == keeper.get("/a")
    requests += 1
    assert ahead.exists("/none") is None
    assert ahead.children_many(["/a", "/none"]) == [["x"], None]
    assert ahead.exists_many(["/b", "/a"]) == [answer[1] for answer in map(keeper.get, ("/b", "/a"))]
    requests += 2
    assert ensemble.requests == requests
    assert ahead.get("/a") == keeper.get("/a")
    assert ensemble.requests == requests + 2


def test_missing_nodes_are_errors_as_ever(keeper: MemoryKeeper) -> None:
    ahead = ReadAhead(keeper)
    ahead.fetch([Get("/none"), Children("/none")])
    with pytest.raises(NoNode, match="/none"):
        ahead.get("/none")
    with pytest.raises(NoNode, match="/none"):
        ahead.children("/none")


@pytest.mark.parametrize(
    "act",
    [
        lambda ahead: ahead.set("/b", b"mine"),
        lambda ahead: ahead.multi([]),
        lambda ahead: ahead.create("/c"),
        lambda ahead: ahead.create_parents("/c/d"),
        lambda ahead: ahead.delete("/a/x"),
        lambda ahead: ahead.delete_tree("/a/x"),
        lambda ahead: ahead.sync("/"),
        lambda ahead: ahead.get("/b", lambda _: None),
        lambda ahead: ahead.exists("/b", lambda _: None),
        lambda ahead: ahead.children("/b", lambda _: None),
        lambda ahead: ahead.get("/b"),
        lambda ahead: ahead.exists("/b"),
        lambda ahead: ahead.children("/b"),
        lambda ahead: ahead.read_many([Get("/a/x"), Get("/b")]),
    ],
)
def test_nothing_is_told_after_something_else(
    ensemble: MemoryEnsemble, keeper: MemoryKeeper, act: Callable[[ReadAhead], object]
) -> None:
    ahead = ReadAhead(keeper)
    ahead.fetch([Get("/a/x"), Get("/a")])
    other = ensemble.connect()
    other.set("/a", b"new")
    act(ahead)
    assert ahead.get("/a")[0] == b"new"


def test_what_was_passed_over_is_read_anew(ensemble: MemoryEnsemble, keeper: MemoryKeeper) -> None:
    """Who reads /b before /a must not see an /a that is older than his /b."""
    ahead = ReadAhead(keeper)
    ahead.fetch([Get("/a"), Get("/b")])
    ensemble.connect().set("/a", b"new")
    assert ahead.get("/b")[0] == b"/b"
    assert ahead.get("/a")[0] == b"new"


def test_a_second_fetch_forgets_the_first(ensemble: MemoryEnsemble, keeper: MemoryKeeper) -> None:
    ahead = ReadAhead(keeper)
    ahead.fetch([Get("/a")])
    ensemble.connect().set("/a", b"new")
    ahead.fetch([Get("/b")])
    assert ahead.get("/a")[0] == b"new"
