"""A table that is written at two clusters takes no commands: each cluster would apply them to other rows."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from coordination.nodes.gate import CommitKind, Gate
from coordination.nodes.gate_link import GateLink, LinkDirection
from engine.simulator.statement_costs import CountedTable
from parts.common.errors import PandoError
from tests.links.gated_table import STATEMENTS, move, prepare, shown

COMMANDS = (
    "drop_partition", "detach_partition", "replace_partition", "move_partition", "truncate", "update", "delete",
    "overwrite",
)  # fmt: skip
TAKEN = ("insert", "attach_partition", "attach_partition_from", "commit", "add_column")


def link(direction: LinkDirection, *, is_two_way: bool) -> Callable[[Gate], Gate]:
    name = "east/l" if direction is LinkDirection.OUT else "l"
    return lambda gate: gate.with_link(GateLink(name, direction, "u", "p", "east", is_two_way))


@pytest.mark.parametrize("name", COMMANDS)
def test_commands_are_refused_and_change_nothing(table: CountedTable, name: str) -> None:
    prepare(table, name)
    move(table, link(LinkDirection.OUT, is_two_way=True))
    before = shown(table.first)
    with pytest.raises(PandoError, match=r"both ends of replication link east/l .* last_writer_wins = 1") as caught:
        table.first.sql(STATEMENTS[name])
    assert caught.value.code == 242
    table.settle()
    assert shown(table.first) == before


@pytest.mark.parametrize("name", TAKEN)
def test_what_brings_rows_and_alters_are_taken(table: CountedTable, name: str) -> None:
    move(table, link(LinkDirection.OUT, is_two_way=True))
    before = shown(table.first)
    table.first.sql(STATEMENTS[name])
    table.settle()
    assert shown(table.first) != before


def test_other_links_let_commands_pass() -> None:
    """A one-way source, and a table that collects rows and sends none back."""
    source = GateLink("east/l", LinkDirection.OUT, "u", "p", "east")
    collector = GateLink("l", LinkDirection.IN, "u", "p", "east", is_two_way=True, is_collecting=True)
    for each in (source, collector):
        gate = Gate("1-0").with_link(each)
        assert Gate.parse(gate.to_bytes()) == gate
        assert gate.find_bar(CommitKind.OTHER) is None


@pytest.mark.parametrize("direction", LinkDirection)
def test_one_link_of_two_ways_is_enough(direction: LinkDirection) -> None:
    """The other one may be made later, or be gone: it can be made anew, and go on where it was."""
    gate = link(direction, is_two_way=True)(Gate("1-0"))
    assert [kind for kind in CommitKind if gate.find_bar(kind) is not None] == [CommitKind.OTHER]
