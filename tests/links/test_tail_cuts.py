"""Places at which the tails of a group's tables may end, as their siblings have them."""

from __future__ import annotations

from coordination.links.groups.group_frontier import find_group_cut
from coordination.links.groups.tail_cuts import TailCuts
from coordination.links.positions import Origin, Position
from coordination.links.stream.change import Change

SOURCE = Origin.parse("00000000-0000-0000-0000-0000000000aa.5.1-0000000000000001")
OTHER = Origin.parse("00000000-0000-0000-0000-0000000000bb.5.1-0000000000000001")


def _tail(reach: int, *zxids: int, cuts: tuple[int, ...], place: int = 0, origin: Origin = SOURCE) -> TailCuts:
    """Changes of these zxids; each has a place of its own at the sibling, 1, 2, …, or all have one."""
    changes = [Change(Position(origin, zxid), place or n, 0, 0) for n, zxid in enumerate(zxids, 1)]
    return TailCuts(SOURCE, 10, reach, changes, cuts)


def test_a_tail_ends_where_the_sibling_has_a_cut() -> None:
    tail = _tail(40, 20, 30, 40, cuts=(1, 3))
    assert tail.last_cut(40) == 40
    assert tail.last_cut(39) == 29, "between the second and the third change the sibling has no cut"
    assert tail.last_cut(25) == 25
    assert tail.last_cut(15) == 15
    assert [change.position.zxid for change in tail.select(25)] == [20]


def test_a_batch_of_the_sibling_is_not_parted() -> None:
    tail = _tail(40, 20, 30, 40, cuts=(7,), place=7)
    assert tail.last_cut(40) == 40
    assert tail.last_cut(39) == 19
    assert not tail.select(19)


def test_changes_of_other_origins_are_taken_whole_or_not() -> None:
    """Their places at the source are not known."""
    tail = _tail(40, 20, 30, cuts=(1, 2), origin=OTHER)
    assert tail.last_cut(40) == 40
    assert tail.last_cut(39) == 10
    assert len(tail.select(40)) == 2


def test_the_tails_of_all_tables_end_at_one_place() -> None:
    orders, lines = _tail(40, 20, 30, 40, cuts=(1, 2, 3)), _tail(33, 22, 33, cuts=(2,))
    assert find_group_cut([orders, lines], 33) == 33
    assert find_group_cut([orders, _tail(32, 22, 32, cuts=(2,))], 31) == 21
    assert find_group_cut([orders, _tail(10, cuts=())], 10) == 10
