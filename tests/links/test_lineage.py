"""Who may follow whom, where own epochs end, and what a gate says of a switch."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordination.keeper.interface import SetData
from coordination.links.positions import Epoch, Origin, Position
from coordination.links.stream.change import Change
from coordination.links.stream.change_stream import build_changes
from coordination.links.stream.own_origins import OwnOrigins, list_former
from coordination.links.switching.fork_commit import (
    ForkedTable,
    TableNow,
    add_former_own,
    fork_ops,
    make_fork,
    next_epoch,
)
from coordination.links.switching.lineage import EpochFork, Lineage, find_own_fork, find_surplus, list_ahead
from coordination.links.switching.stream_place import find_follower_place
from coordination.links.switching.switching_gate import (
    PROMISE,
    TICKET,
    begin_promotion,
    close_for_fork,
    close_for_switch,
    end_promise,
    end_promotion,
    meet_fork,
    open_after_switch,
    promise,
    read_fact,
    void_ticket,
)
from coordination.links.version_vector import VectorEntry, VersionVector
from coordination.nodes.gate import CommitKind, Gate
from coordination.nodes.paths import TablePaths
from parts.common.errors import CorruptionError, UserError
from tests.links.test_link_adversaries import insert

S = Origin("00000000-0000-0000-0000-00000000000a", 5, Epoch(1, 7))
A = Origin("00000000-0000-0000-0000-00000000000b", 6, Epoch(1, 8))
B = Origin("00000000-0000-0000-0000-00000000000c", 7, Epoch(1, 9))
A2, S2 = next_epoch(A, 99), next_epoch(S, 98)


def vector(**zxids: int) -> VersionVector:
    origins = {"s": S, "a": A, "a2": A2, "b": B, "s2": S2}
    return VersionVector({origins[name]: VectorEntry(zxid) for name, zxid in zxids.items()})


def fork(at: int = 10, by: Origin = A2, ended: Origin = S, **zxids: int) -> EpochFork:
    return EpochFork(Position(ended, at), by, "east", "d", "t", vector(s=at, **zxids), 17, "t1", "l", (("later", 1),))


def test_a_lineage_is_written_and_read() -> None:
    lineage = Lineage().follow(fork()).meet(fork(20, B)).end_epoch(Position(A, 40)).settle("x").settle("x")
    gate = lineage.write(Gate("1-00c0ffee00c0ffee", others={"other": 1}))
    again = Lineage.read(Gate.parse(gate.to_bytes()))
    assert again == lineage
    assert again.forks[0].extra == (("later", 1),)
    assert again.settled == ("x",)
    assert Gate.parse(gate.to_bytes()).others["other"] == 1
    assert Lineage.read(Gate("1-00c0ffee00c0ffee")) == Lineage()
    with pytest.raises(CorruptionError):
        Lineage.read(Gate("1-00c0ffee00c0ffee", others={"lineage": {"forks": [{"ended": "?"}]}}))


def test_who_is_at_or_below_a_fork_may_follow_it() -> None:
    known = [fork(10, b=3).vector]
    assert not find_surplus(vector(s=10), known, A2)
    assert not find_surplus(vector(s=9, b=3), known, A2)
    assert find_surplus(vector(s=11), known, A2) == [Position(S, 11)]
    assert find_surplus(vector(s=9, b=4), known, A2) == [Position(B, 4)]
    assert not find_surplus(vector(s=9, b=4), [*known, vector(b=4)], A2)  # the new source has got it meanwhile
    assert not find_surplus(vector(a=77), known, A2)  # of the new source's own former epoch, which its fork ended
    forgotten = VersionVector({B: VectorEntry(9, is_forgotten=True)})
    assert not find_surplus(forgotten, known, A2)


def test_two_forks_of_one_epoch_refuse_each_other() -> None:
    lineage = Lineage().follow(fork(10))
    assert not lineage.explain_conflict(fork(10))
    assert "another fork of the same epoch" in lineage.explain_conflict(fork(12, B))
    assert not lineage.explain_conflict(fork(12, B, A2))
    rejoined = lineage.meet(fork(12, B)).follow(fork(12, B))
    assert [each.by for each in rejoined.forks] == [B]
    assert not rejoined.met


def test_a_link_finds_the_fork_that_ended_its_source() -> None:
    promoted = Lineage().follow(fork(10))
    assert find_own_fork(S, S, Lineage()) is None
    assert find_own_fork(S, S, Lineage().meet(fork(10))) == fork(10)  # the old source was told
    assert find_own_fork(S, S2, promoted) == fork(10)  # it has turned
    assert find_own_fork(A, A2, promoted) == fork(10)  # the source was promoted itself
    assert find_own_fork(A2, A2, promoted) is None


def test_a_change_behind_a_fork_is_given_up() -> None:
    lineage = Lineage().follow(fork(10))
    assert lineage.has_given_up(Position(S, 11))
    assert not lineage.has_given_up(Position(S, 10))
    assert not lineage.has_given_up(Position(B, 11))
    assert not Lineage().meet(fork(10)).has_given_up(Position(S, 11))  # until it rejoins


def test_a_place_is_no_surplus_until_a_change_comes() -> None:
    at_place = vector(s=10).go_on_at(Position(B, 7))
    assert not find_surplus(at_place, [fork(10).vector], A2)
    assert not find_surplus(at_place.advance(Position(B, 9)), [fork(10).vector], A2)
    assert find_surplus(at_place.apply(Position(B, 9)), [fork(10).vector], A2) == [Position(B, 9)]
    assert VersionVector.parse(at_place.to_bytes()) == at_place
    assert at_place.go_on_at(Position(B, 5)) == at_place  # no position moves back


def test_where_an_origin_had_no_change_there_is_no_surplus() -> None:
    follower = vector(s=9).pass_idle(Position(S, 60))
    known = fork(10).vector
    assert not find_surplus(follower, [known], A2)
    assert find_surplus(follower, [vector(s=8)], A2) == [Position(S, 9)]
    assert find_surplus(follower.apply(Position(S, 61)), [known], A2) == [Position(S, 61)]
    assert list_ahead(follower, known, A2) == [S]
    lowered = follower.lower_to(known, [S])
    assert lowered == vector(s=10)
    assert lowered.last_change(S) == 9
    begun_at_nothing = VersionVector().begin_with(VersionVector().pass_idle(Position(B, 226)))
    assert not find_surplus(begun_at_nothing, [known], A2)
    held_before = VersionVector().begin_at(Position(B, 226))
    assert find_surplus(held_before, [known], A2) == [Position(B, 226)]


def test_a_fork_that_the_table_follows_is_not_met_again() -> None:
    followed = Lineage().follow(fork(10))
    assert followed.meet(fork(10)) == followed
    assert followed.meet(fork(12, B)).met == (fork(12, B),)


def test_own_changes_keep_the_epoch_in_which_they_were_made() -> None:
    own = list_former(A2, [Position(A, 20)])
    assert [own.find(zxid) for zxid in (5, 20, 21, 31)] == [A, A, A2, A2]
    assert own.has(A)
    assert own.has(A2)
    assert not own.has(S)
    assert OwnOrigins.of(S).find(1) == S


def test_each_epoch_is_a_stream_of_its_own() -> None:
    own = list_former(A2, [Position(A, 2)])
    changes = build_changes([insert(1, 1), insert(2, 2), insert(3, 3), insert(4, 4)], own)
    assert [(c.position.origin, c.position.zxid, c.previous) for c in changes] == [
        (A, 1, 0),
        (A, 2, 1),
        (A2, 3, 0),
        (A2, 4, 3),
    ]


def _change(origin: Origin, zxid: int, place: int, previous: int) -> Change:
    return Change(Position(origin, zxid), place, 0, previous)


def test_the_place_of_a_follower_is_the_last_that_it_has_reached() -> None:
    changes = [_change(S, 5, 100, 4), _change(S, 7, 110, 5), _change(A2, 120, 120, 0)]
    cuts, now = [100, 110, 120], vector(s=7)

    def place(follower: VersionVector) -> int | None:
        return find_follower_place(90, 130, changes, cuts, now, A2, follower)

    assert place(vector(s=7, a2=125)) == 130
    assert place(vector(s=7)) == 110
    assert place(vector(s=5)) == 100
    assert place(vector(s=4)) == 90
    assert place(vector(s=3)) is None  # change 4 is not kept
    assert find_follower_place(90, 90, [], [], now, A2, vector(s=6)) is None  # the journal began behind change 7
    assert find_follower_place(90, 90, [], [], now, A2, vector(s=7)) == 90
    idle = now.pass_idle(Position(S, 60))  # a group's cuts that brought this table nothing
    assert find_follower_place(90, 90, [], [], idle, A2, vector(s=7)) == 90
    assert find_follower_place(90, 90, [], [], idle, A2, vector(s=6)) is None


@given(st.lists(st.integers(1, 40), min_size=1, max_size=12, unique=True), st.integers(0, 40), st.integers(0, 45))
def test_a_follower_gets_every_change_once(zxids: list[int], trimmed: int, has: int) -> None:
    """Whatever the journal begins with: what follows the place is all that the follower lacks, or it is refused."""
    zxids.sort()
    stream = [_change(S, z, 100 + z, p) for p, z in zip([0, *zxids], zxids, strict=False)]
    begin = 100 + trimmed
    kept = [change for change in stream if change.place > begin]
    follower = vector(s=has) if has else VersionVector()
    found = find_follower_place(begin, 200, kept, [change.place for change in kept], vector(s=zxids[-1]), A2, follower)
    lacks = [z for z in zxids if z > has]
    if found is None:
        assert any(z <= trimmed for z in lacks)
    else:
        sent = [change.position.zxid for change in kept if change.place > found and change.position.zxid > has]
        assert sent == lacks


def test_a_fork_writes_the_former_own_origin_into_the_vector() -> None:
    now = TableNow(TablePaths("/t"), A, Gate(str(A.epoch)), 3, vector(s=10), 4, Position(A, 33), 50)
    made = make_fork(now, S, A2, ("east", "d", "t"), 1)
    assert made.ended == Position(S, 10)
    assert made.vector.applied(A) == 33
    assert add_former_own(vector(a=40), Position(A, 33)).applied(A) == 40  # no position moves back
    assert add_former_own(vector(s=1), None) == vector(s=1)
    assert A2.epoch.counter == 2
    assert A2.epoch != A.epoch


def test_a_fork_is_one_multi_that_moves_what_it_read() -> None:
    """So a batch under way fails, and whoever follows sees another epoch."""
    gate = close_for_fork(begin_promotion(Gate(str(A.epoch)), "l"), "l")
    now = TableNow(TablePaths("/t"), A, gate, 3, vector(s=10), 4, Position(A, 33), 50)
    made = make_fork(now, S, A2, ("east", "d", "t"), 1)
    telling = [{"cluster": "west", "link": "l", "of": made.name}]
    sets = {op.path: op for op in fork_ops([ForkedTable(now, made, "l", telling=telling)]) if isinstance(op, SetData)}
    assert {path: op.version for path, op in sets.items()} == {now.table.linked.vector: 4, now.table.gate: 3}
    assert VersionVector.parse(sets[now.table.linked.vector].data) == made.vector
    opened = Gate.parse(sets[now.table.gate].data)
    assert (opened.epoch, opened.bars) == (str(A2.epoch), ())
    assert read_fact(opened, "telling") == telling
    lineage = Lineage.read(opened)
    assert [fork.name for fork in lineage.forks] == [made.name]
    assert lineage.epochs == (Position(A, 50),)


OPEN = Gate("1-00c0ffee00c0ffee")


def test_a_promise_keeps_everything_out_until_it_ends() -> None:
    promised = promise(OPEN, "l", "east", "u1", 5)
    assert all(promised.find_bar(kind) is not None for kind in CommitKind)
    assert promise(promised, "l", "east", "u1", 5) == promised
    with pytest.raises(UserError, match="has promised cluster east"):
        promise(promised, "l", "north", "u2", 6)
    with pytest.raises(UserError, match="has promised cluster east"):
        begin_promotion(promised, "l")
    assert end_promise(promised, "u2") == promised
    assert end_promise(promised, "u1") == end_promise(promised) == OPEN


def test_who_is_being_promoted_promises_nothing() -> None:
    promoting = close_for_fork(begin_promotion(OPEN, "l"), "l")
    with pytest.raises(UserError, match="being promoted itself"):
        promise(promoting, "l", "east", "u1", 5)
    assert end_promotion(promoting) == OPEN


def test_a_ticket_closes_the_source_for_one_switch() -> None:
    closed = close_for_switch(OPEN, "t1", "east/l", "east")
    assert closed.find_bar(CommitKind.ROWS) is not None
    assert closed.find_bar(CommitKind.UPKEEP) is not None
    assert close_for_switch(closed, "t1", "east/l", "east") == closed
    with pytest.raises(UserError, match="is being switched over to cluster east already"):
        close_for_switch(closed, "t2", "north/l", "north")
    assert open_after_switch(closed, "t2") == closed
    assert open_after_switch(closed, "t1") == OPEN
    assert read_fact(closed, TICKET)["link"] == "east/l"
    assert read_fact(void_ticket(OPEN, "t1"), "voided") == ["t1"]


def test_a_fork_that_is_met_shuts_the_gate_and_is_named() -> None:
    shut = meet_fork(OPEN, Lineage(), fork(10), "east/l")
    bar = shut.find_bar(CommitKind.ROWS)
    assert bar is not None
    assert "SYSTEM REJOIN REPLICATION LINK l FROM CLUSTER east" in bar.reason
    assert str(Position(S, 10)) in bar.reason
    assert Lineage.read(shut).met == (fork(10),)
    assert read_fact(shut, PROMISE) is None


def test_a_table_that_has_rejoined_since_somebody_looked_stays_open() -> None:
    """A link's step that began before the REJOIN would else shut the table again, and nothing would open it."""
    rejoined = Lineage().meet(fork(10)).follow(fork(10))
    gate = rejoined.write(OPEN)
    assert meet_fork(gate, rejoined, fork(10), "east/l") == gate
