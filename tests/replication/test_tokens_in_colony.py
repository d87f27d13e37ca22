"""Tokens that answer for their rows, on real tables of several replicas."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest

from coordination.memory_keeper import Fault
from engine.simulator.colony import Colony, Node
from parts.errors import PandoError, UnavailableError

MakeColony = Callable[..., Colony]


def token_options(check: str = "x") -> dict[str, object]:
    return {"deduplication_token": "load", "token_check": check}


def test_a_token_that_is_checked_stands_for_its_rows(make_colony: MakeColony) -> None:
    """In whatever order they come, on whichever replica; a token that is not checked stands for anything."""
    colony = make_colony(2)
    one, two = colony
    assert one.insert([1, 1, 2], [1, 2, 3], **token_options()) == 3
    assert two.insert([2, 1, 1], [3, 2, 1], **token_options()) == 0
    for partitions, keys, check in [
        ([1, 1, 2], [1, 2, 4], "x"),
        ([1, 1], [1, 2], "x"),
        ([1, 1, 2, 3], [1, 2, 3, 4], "x"),
        ([3], [9], "x"),
        ([1, 1, 2], [1, 2, 3], "other"),
    ]:
        with pytest.raises(PandoError) as caught:
            two.insert(partitions, keys, **token_options(check))
        assert caught.value.code == 389
    assert two.insert([1, 2], [7, 8], deduplication_token="load") == 0
    colony.settle()
    assert one.keys() == two.keys() == [1, 2, 3]
    two.call(lambda table: table.truncate())
    colony.settle()
    assert two.insert([3], [9], **token_options()) == 1


def test_a_job_that_is_closed_while_another_block_commits(make_colony: MakeColony) -> None:
    """A task of an earlier run that nobody knows of any more comes too late, or is counted."""
    colony = make_colony(2)
    one, two = colony
    job = {"token_check": "x", "token_job": "load"}
    assert one.insert([1], [1], deduplication_token="load:0", **job) == 1

    def at(node: Node, name: str) -> None:
        if node is one and name == "insert.before_commit":
            colony.on_failpoint = lambda *_: None
            assert two.insert([], [], token_job="load", token_job_size=1) == 0

    colony.on_failpoint = at
    with pytest.raises(PandoError, match="closed before, with 1 token and not this one") as caught:
        one.insert([2], [2], deduplication_token="load:1", **job)
    assert caught.value.code == 389
    two.call(lambda table: table.truncate())
    for token in ("load:0", "load:1"):
        assert one.insert([1], [3], deduplication_token=token, **job) == 1
    with pytest.raises(PandoError, match="The job has 1 token, and 2 of it were claimed"):
        two.insert([], [], token_job="load", token_job_size=1)
    colony.settle()
    colony.check_equal()


@pytest.mark.parametrize("fault", [Fault.LOSE_REQUEST, Fault.LOSE_ANSWER])
def test_a_job_is_closed_though_the_connection_breaks(make_colony: MakeColony, fault: Fault) -> None:
    colony = make_colony(1)
    one = next(iter(colony))
    faults = [fault]
    colony.on_request = lambda node, kind, path: faults.pop() if kind == "multi" and faults else None
    colony.on_wait = one.keeper.reconnect
    for _ in range(2):
        with contextlib.suppress(UnavailableError):
            one.insert([], [], token_job="load", token_job_size=1)
        one.keeper.reconnect()
        colony.settle()
    assert not faults
    with pytest.raises(PandoError, match="not this one"):
        one.insert([1], [1], deduplication_token="load:0", token_check="x", token_job="load")


def test_two_blocks_that_claim_a_token_at_once(make_colony: MakeColony) -> None:
    """The second finds the claim only when it commits."""
    colony = make_colony(2)
    one, two = colony

    def at(node: Node, name: str) -> None:
        if node is one and name == "insert.before_commit":
            colony.on_failpoint = lambda *_: None
            assert two.insert([2], [2], **token_options()) == 1

    colony.on_failpoint = at
    with pytest.raises(PandoError) as caught:
        one.insert([1], [1], **token_options())
    assert caught.value.code == 389
    colony.settle()
    colony.check_equal()
    assert one.keys() == [2]


def test_a_block_that_is_known_and_not_claimed(make_colony: MakeColony) -> None:
    """It was not checked when it was inserted, or the window has passed: nothing tells which rows it has."""
    one, two = make_colony(2)
    assert one.insert([1], [1], deduplication_token="load") == 1
    with pytest.raises(PandoError, match="nothing tells any more whether they are these") as caught:
        two.insert([1], [2], **token_options())
    assert caught.value.code == 389
    assert two.insert([2], [2], **token_options()) == 1
