"""A group that follows another source is made anew: its places are of another order of commits."""

from __future__ import annotations

from coordination.keeper.interface import SetData
from coordination.keeper.memory_keeper import MemoryEnsemble
from coordination.links.cluster_identity import ClusterIdentity
from coordination.links.groups.cut_mark import CutMark
from coordination.links.groups.group_switching import follow_source
from coordination.links.groups.link_group import GroupMember, LinkGroup, find_group, group_path
from coordination.links.groups.shown_cut import TableProgress
from coordination.nodes.gate import Gate
from coordination.nodes.paths import TablePaths
from engine.tables.shown_groups.shown_group import ShownGroup
from parts.store.part_states import Snapshot

_MEMBERS = tuple(GroupMember(name, f"uuid {name}", "d", name, f"/tables/{name}", joined=50) for name in "abc")
_OLD = LinkGroup("g", "old", "west", "uuid of west", _MEMBERS, place=68)
_NORTH = ClusterIdentity("north", "11111111-1111-4111-8111-111111111111")


def test_the_last_link_that_follows_moves_the_gates_of_the_others() -> None:
    """The replicas of the others would not look at the group's new places otherwise, and show nothing for good."""
    keeper = MemoryEnsemble(lambda: 0.0).connect()
    keeper.create_parents(group_path("g").rpartition("/")[0])
    keeper.create(group_path("g"), _OLD.to_bytes())
    gates = {}
    for member in _MEMBERS:
        gate = gates[member.link] = TablePaths(member.path).gate
        keeper.create_parents(gate.rpartition("/")[0])
        keeper.create(gate, Gate("1-0").to_bytes())
    assert not [
        op.path for op in follow_source(keeper, "g", "a", _NORTH, "north", "new", ["b"]) if op.path in gates.values()
    ]
    ops = follow_source(keeper, "g", "a", _NORTH, "north", "new", ["b", "c"])
    assert all(isinstance(op, SetData) for op in ops)
    assert {op.path for op in ops} == {group_path("g"), gates["b"], gates["c"]}
    keeper.multi(ops)
    found = find_group(keeper, "g")
    assert found is not None
    assert (found[0].uuid, found[0].place, {member.joined for member in found[0].members}) == ("new", 0, {0})
    assert keeper.get(gates["b"])[1].version == 1


class _Table:
    """A table that carries out what it may, and keeps what it is told of."""

    def __init__(self, name: str) -> None:
        self.root, self.name = f"/tables/{name}", name
        self.wake = lambda: None
        self.touched: dict[str, int] = {}

    def read_progress(self, group: str) -> TableProgress:
        place = self.touched.get(group, 0)
        return TableProgress(True, place, (), place, has_joined=place > 0)

    def note_touched(self, group: str, place: int) -> None:
        self.touched[group] = place

    def take_snapshot(self) -> Snapshot:
        return Snapshot([], lambda _: None)


def test_a_cut_of_a_group_that_is_not_known_yet_counts_when_it_is() -> None:
    group, tables = ShownGroup("g"), [_Table("a"), _Table("b")]
    for table in tables:
        group.add(table)
    group.set_definition(LinkGroup("g", "old", "west", "", _MEMBERS[:2], place=68))
    for table in tables:  # the first cut of the group as it is made anew
        assert group.admit(table, [CutMark(212, 0, "new", joins=True)])
    group.show_if_possible()
    assert group.shown_place == 0
    group.set_definition(LinkGroup("g", "new", "north", "", _MEMBERS[:2], place=0))
    group.show_if_possible()
    assert group.shown_place == 212
