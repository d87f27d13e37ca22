"""A server that applies a batch crashes, or its answers from ZooKeeper are lost: the rows are there once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from coordination.keeper.memory_keeper import Fault
from engine.simulator.simulated_disk import Tree
from engine.simulator.simulated_node import Crash, SimulatedNode
from engine.tables.replicated.replica_state import LINK_STAGING_PREFIX
from parts.common.errors import PandoError
from parts.store.staged_parts import STAGED
from tests.links.linked_tables import LinkedTables, linked_tables

FAILPOINTS = (
    "link.after_block",
    "link.after_stage",
    "link.before_commit",
    "link.after_commit",
    "exchange.before",
    "exchange.after",
)


@pytest.fixture
def tables(tmp_path: Path) -> Iterator[LinkedTables]:
    with linked_tables(tmp_path) as made:
        made.table.servers.power_cut_rate = 1.0
        made.create_source()
        made.begin()
        for statement in (
            "INSERT INTO source VALUES (1, 1, 0), (2, 2, 0)",
            "ALTER TABLE source DROP PARTITION 2",
            "INSERT INTO source VALUES (1, 3, 0), (2, 4, 0)",
            "ALTER TABLE source UPDATE v = 7 WHERE k < 4",
        ):
            made.first.sql(statement, mutations_sync=0)
        yield made


def repeat_until_applied(tables: LinkedTables) -> None:
    """As the server that runs the link does: it reads the target's state anew, and goes on from there."""
    errors: list[str] = []
    for _ in range(20):
        try:
            if tables.apply(replica=1).is_applied:
                return
        except PandoError as error:
            errors.append(str(error))
            tables.heal()
    raise AssertionError(f"it is never applied: {errors}")


def without_staged(tree: Tree) -> Tree:
    found: Tree = {}
    for name, content in tree.items():
        if name != STAGED:
            found[name] = without_staged(content) if isinstance(content, dict) else content
    return found


def nothing_is_left(tables: LinkedTables) -> bool:
    stores = [tables.table.of(server).store for server in tables.servers]
    return not any(n.startswith(LINK_STAGING_PREFIX) for store in stores for n in store.staged.list_transactions())


def must_end_well(tables: LinkedTables) -> None:
    tables.heal()
    repeat_until_applied(tables)
    tables.must_be_equal()
    assert sorted(tables.rows()) == [(1, 1, 7), (1, 3, 7), (2, 4, 0)]
    assert tables.apply(replica=1).rows == 0
    tables.table.work_until(lambda: nothing_is_left(tables))
    for partition in ("1", "2"):
        locks = tables.keeper.children(f"{tables.table.table.replication.paths.block_numbers}/{partition}")
        assert locks == []


@pytest.mark.parametrize("place", FAILPOINTS)
@pytest.mark.parametrize("is_lost", [False, True])
def test_a_crash(tables: LinkedTables, place: str, is_lost: bool) -> None:
    """At any step, with the power of the server; what was staged may be lost."""
    second = tables.servers[1]
    hits = 0

    def on_failpoint(node: SimulatedNode, name: str) -> None:
        nonlocal hits
        if node is second and name == place:
            hits += 1
            if hits == 1:
                node.crash_here()

    tables.table.servers.on_failpoint = on_failpoint
    with suppress(Crash):
        tables.apply(replica=1)
        tables.table.work_until(lambda: not second.is_up)
    assert hits == 1
    if is_lost:
        second.found = without_staged(second.found or {})
        tables.target(0).set_refetch("l", tables.fetch)
    must_end_well(tables)


@pytest.mark.long
@pytest.mark.parametrize("fault", [Fault.LOSE_ANSWER, Fault.LOSE_REQUEST, Fault.EXPIRE, Fault.EXPIRE_AFTER])
def test_a_lost_answer(tables: LinkedTables, fault: Fault) -> None:
    """Of each write that the apply makes."""
    second = tables.servers[1]
    for place in range(1, 30):
        count = 0

        def on_request(node: SimulatedNode, kind: str, path: str) -> Fault | None:
            nonlocal count
            if node is second and kind in ("multi", "delete", "sync"):
                count += 1
                if count == place:  # noqa: B023
                    return fault
            return None

        tables.first.sql(f"INSERT INTO source VALUES (3, {100 + place}, 0)")
        tables.table.servers.on_request = on_request
        with suppress(PandoError):
            tables.apply(replica=1)
        tables.heal()
        repeat_until_applied(tables)
        if count < place:
            break
    tables.must_be_equal()
