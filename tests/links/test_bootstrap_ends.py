"""What ends a copy that is not committed: statements, other servers and links, a source that lacks something."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from coordination.links.positions import Origin, Position
from coordination.links.version_vector import VersionVector
from coordination.log.log_entry import LogEntry
from coordination.log.part_set import PartSet
from coordination.merges_mutations.mutation_set import MutationEntry
from coordination.nodes.table_gate import move_gate
from engine.tables.replicated.links.bootstrap.own_changes import find_last_own_change
from parts.common.errors import ConflictError, UnavailableError
from parts.common.part_name import PartName
from tests.links.bootstrap_tables import (
    CLUSTER,
    TARGET,
    BootstrapTables,
    DirectSource,
    bootstrap_tables,
)
from tests.links.changes import NORTH


@pytest.fixture
def tables(tmp_path: Path) -> Iterator[BootstrapTables]:
    with bootstrap_tables(tmp_path) as made:
        yield made


@pytest.mark.parametrize("how", ["disabled", "dropped"])
@pytest.mark.parametrize("round_", [0, 1])
def test_a_link_that_is_disabled_or_dropped_is_not_copied(tables: BootstrapTables, how: str, round_: int) -> None:
    tables.insert(1)
    source = DirectSource(tables)

    def end(now: int) -> None:
        if now == round_:
            if how == "disabled":
                tables.change_link(is_enabled=False)
            else:
                tables.keeper.delete(TARGET.linked.incoming_link("l"))

    source.before_hold = end
    with pytest.raises((UnavailableError, ConflictError)) as ended:
        tables.run(source)
    assert ended.value.name == "ABORTED"
    tables.must_be([])
    assert not tables.gate().bars
    assert not tables.vector().entries
    assert not tables.source().links.bootstrap.giver._holds
    if how == "dropped":
        tables.table.servers.now += 700
        tables.table.work_until(lambda: not tables.staged())


def test_whoever_was_overtaken_commits_nothing(tables: BootstrapTables) -> None:
    """Another server is elected, opens the table, and a client writes."""
    tables.insert(1)
    tables.settle()
    source = DirectSource(tables)

    def take_over(round_: int) -> None:
        if round_ == 1:
            (bar,) = tables.gate().bars
            tables.clean_up(0)
            tables.insert(5, table="costs")
            move_gate(tables.keeper, TARGET, lambda gate: gate.with_bar(bar))  # it closes the table for its own copy

    source.before_hold = take_over
    with pytest.raises(ConflictError) as ended:
        tables.run(source)
    assert ended.value.name == "ABORTED"
    tables.must_be([(1, 5, 5)])


def test_another_link_that_moves_the_vector_is_not_undone(tables: BootstrapTables) -> None:
    tables.insert(1)
    tables.settle()
    source = DirectSource(tables)

    def move(round_: int) -> None:
        if round_ == 1:
            tables.keeper.set(TARGET.linked.vector, VersionVector().advance(Position(NORTH, 5)).to_bytes())

    source.before_hold = move
    with pytest.raises(ConflictError, match="not committed"):
        tables.run(source)
    assert tables.vector().applied(NORTH) == 5


def test_a_source_that_lacks_what_the_target_has_is_refused(tables: BootstrapTables) -> None:
    tables.insert(1)
    tables.settle()
    tables.keeper.create_parents(TARGET.linked.vector)
    tables.keeper.set(TARGET.linked.vector, VersionVector().advance(Position(NORTH, 5)).to_bytes())
    with pytest.raises(ConflictError, match=f"lacks changes up to {Position(NORTH, 5)}") as refused:
        tables.run()
    assert refused.value.name == "INCORRECT_DATA"
    assert not tables.gate().bars
    source = DirectSource(tables)
    source.change = lambda held: replace(held, vector=held.vector.advance(Position(NORTH, 6)))
    tables.run(source)
    assert tables.vector().applied(NORTH) == 6


def test_own_changes_of_a_two_way_target_must_be_in_the_source(tables: BootstrapTables) -> None:
    tables.change_link(settings={"two_way": True})
    tables.insert(1)
    tables.insert(7, table="costs")
    tables.settle()
    with pytest.raises(ConflictError, match="lacks changes up to"):
        tables.run(replaces=True)
    tables.must_be([(1, 7, 7)])
    ids = tables.keeper.children(TARGET.blocks)
    written = tables.keeper.get(TARGET.log_entry(0))[1].created_zxid
    own = Origin.parse(f"{CLUSTER}.{tables.keeper.get(TARGET.root)[1].created_zxid}.{tables.gate().epoch}")
    source = DirectSource(tables)
    source.change = lambda held: replace(held, vector=held.vector.advance(Position(own, written)))
    tables.run(source, replaces=True)
    tables.must_be_equal()
    assert own not in tables.vector().entries
    assert ids
    assert set(ids) <= set(tables.keeper.children(TARGET.blocks)), "a client may repeat an INSERT whose rows came back"


def test_an_own_insert_whose_quorum_failed_is_not_waited_for(tables: BootstrapTables) -> None:
    """It is no change, so no source ever has it."""
    tables.change_link(settings={"two_way": True})
    tables.insert(1)
    tables.insert(7, table="costs")
    tables.settle()
    last = tables.keeper.get(TARGET.log_entry(0))[1].created_zxid
    parts = PartSet([PartName("1", 0, 0, 0)])
    assert find_last_own_change(tables.keeper, TARGET, parts, is_written=True) == last
    failed = LogEntry.parse(tables.keeper.get(TARGET.log_entry(0))[0])
    failed = replace(failed, new_part=PartName("1", 1, 1, 0))
    tables.keeper.create(TARGET.log_prefix, failed.to_bytes(), sequential=True)
    assert find_last_own_change(tables.keeper, TARGET, parts, is_written=True) == last


def test_a_relay_whose_log_was_trimmed_is_copied(tables: BootstrapTables) -> None:
    """Links alone write to it, so what its log does not show any more came by them too."""
    tables.insert(1)
    tables.settle()
    tables.run()
    tables.settle()
    assert find_last_own_change(tables.keeper, TARGET, PartSet(), is_written=False) == 0
    tables.keeper.create(TARGET.log_prefix, tables.keeper.get(TARGET.log_entry(0))[0], sequential=True)
    tables.keeper.delete(TARGET.log_entry(0))
    first = tables.keeper.get(TARGET.log_entry(1))[1].created_zxid
    assert find_last_own_change(tables.keeper, TARGET, PartSet(), is_written=False) == 0
    assert find_last_own_change(tables.keeper, TARGET, PartSet(), is_written=True) == first - 1
    data = tables.keeper.get(TARGET.log_entry(1))[0]
    mutation = MutationEntry("", 0, "r1", "UPDATE v = 1 WHERE 1", {"1": 1}, 0).to_bytes()
    tables.keeper.create(TARGET.mutation_prefix, mutation, sequential=True)  # of a batch that is not shown any more
    tables.keeper.create(TARGET.log_prefix, data, sequential=True)
    tables.keeper.delete(TARGET.log_entry(1))
    assert find_last_own_change(tables.keeper, TARGET, PartSet(), is_written=False) == 0
    own = tables.keeper.create(TARGET.mutation_prefix, mutation, sequential=True)
    assert (
        find_last_own_change(tables.keeper, TARGET, PartSet(), is_written=False)
        == tables.keeper.get(own)[1].created_zxid
    )
