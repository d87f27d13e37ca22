"""Texts and comparisons of positions, and what a vector covers, joins and keeps."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordination.links.positions import MAX_ZXID, Epoch, Origin, Position
from coordination.links.version_vector import MAX_VECTOR_BYTES, VectorEntry, VersionVector
from parts.common.errors import ConflictError, CorruptionError, UserError
from tests.links.source_model import make_origin

WEST, EAST = make_origin(1), make_origin(2)
TEXT = "11111111-0000-4000-8000-000000000000.101.1-0000000000000abd:77"

_ORIGINS = st.builds(
    Origin,
    st.uuids().map(str),
    st.integers(0, MAX_ZXID),
    st.builds(Epoch, st.integers(0, MAX_ZXID), st.integers(0, 2**64 - 1)),
)
_POSITIONS = st.builds(Position, _ORIGINS, st.integers(0, MAX_ZXID))


def test_the_text_of_a_position() -> None:
    assert str(Position(WEST, 77)) == TEXT
    assert Position.parse(TEXT.upper()) == Position(WEST, 77)


@given(_POSITIONS)
def test_a_position_is_read_back(position: Position) -> None:
    assert Position.parse(str(position)) == position


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "no colon"),
        (TEXT.partition(":")[0], "no colon"),
        (f"{TEXT}x", "is no zxid"),
        (f"{TEXT.partition(':')[0]}:", "is no zxid"),
        (f"{TEXT.partition(':')[0]}:-1", "is no zxid"),
        (f"{TEXT.partition(':')[0]}:٣", "is no zxid"),
        (f"{TEXT.partition(':')[0]}:{MAX_ZXID + 1}", "is no zxid"),
        ("west.101.1-0000000000000abd:77", "<cluster UUID>"),
        (TEXT.replace("abd", "bd"), "<cluster UUID>"),
        (TEXT.replace(".101.", f".{MAX_ZXID + 1}."), "<cluster UUID>"),
    ],
)
def test_a_text_that_is_no_position_is_refused(text: str, told: str) -> None:
    with pytest.raises(UserError, match="Cannot read") as raised:
        Position.parse(text)
    assert raised.value.code == 36
    assert told in raised.value.message


@pytest.mark.parametrize(
    ("other", "told"),
    [
        (EAST, "cluster 22222222"),
        (replace(WEST, table=7), "the table was made anew"),
        (replace(WEST, epoch=Epoch(2, 5)), "a promotion lies between"),
        (replace(WEST, epoch=Epoch(1, 5)), "epoch 1-0000000000000005"),
    ],
)
def test_positions_of_two_origins_are_not_compared(other: Origin, told: str) -> None:
    for compare in (Position.__lt__, Position.__le__, Position.__gt__, Position.__ge__):
        with pytest.raises(UserError) as raised:
            compare(Position(WEST, 1), Position(other, 2))
        assert "cannot be compared" in raised.value.message
    with pytest.raises(UserError) as raised:
        Position(other, 2).require_origin(WEST)
    assert told in raised.value.message


def test_positions_of_one_origin_are_ordered_by_zxid() -> None:
    assert Position(WEST, 1) < Position(WEST, 2) <= Position(WEST, 2)
    assert Position(WEST, 3) > Position(WEST, 2) >= Position(WEST, 2)


def test_a_vector_covers_what_is_at_or_below_it() -> None:
    vector = VersionVector().advance(Position(WEST, 5))
    assert vector.covers(Position(WEST, 5))
    assert not vector.covers(Position(WEST, 6))
    assert not vector.covers(Position(EAST, 0))
    assert vector.applied(EAST) == 0
    assert list(vector.advance(Position(EAST, 2))) == [Position(WEST, 5), Position(EAST, 2)]


def test_a_vector_never_goes_back() -> None:
    vector = VersionVector().advance(Position(WEST, 5))
    assert vector.advance(Position(WEST, 5)) == vector
    with pytest.raises(ConflictError, match="would go back"):
        vector.advance(Position(WEST, 4))
    with pytest.raises(ConflictError, match="cannot begin"):
        vector.begin_at(Position(WEST, 9))


def test_a_vector_knows_the_last_change_of_an_origin() -> None:
    vector = VersionVector().apply(Position(WEST, 5)).pass_idle(Position(WEST, 9)).pass_idle(Position(WEST, 12))
    assert (vector.applied(WEST), vector.last_change(WEST)) == (12, 5)
    again = VersionVector.parse(vector.to_bytes())
    assert again.last_change(WEST) == 5
    assert again.advance(Position(WEST, 12)).last_change(WEST) == 5
    assert again.apply(Position(WEST, 14)).last_change(WEST) == 14
    assert again.advance(Position(WEST, 14)).last_change(WEST) == 14  # nobody knows what lies between
    assert again.join(VersionVector().advance(Position(WEST, 12))).last_change(WEST) == 5
    assert again.join(VersionVector().advance(Position(WEST, 13))).last_change(WEST) == 13
    assert VersionVector().begin_with(again).last_change(WEST) == 5
    with pytest.raises(ConflictError, match="would go back"):
        again.pass_idle(Position(WEST, 11))


def test_an_older_server_that_moves_a_vector_leaves_no_wrong_last_change() -> None:
    vector = VersionVector().apply(Position(WEST, 5)).pass_idle(Position(WEST, 12))
    document = json.loads(vector.to_bytes())
    document["origins"][str(WEST)]["applied"] = 20  # it keeps "idle", which it does not know
    assert VersionVector.parse(json.dumps(document).encode()).last_change(WEST) == 20


def test_a_bootstrap_must_cover_every_origin_of_the_target() -> None:
    target = VersionVector().advance(Position(WEST, 5)).advance(Position(EAST, 3))
    given_ = VersionVector().advance(Position(WEST, 9)).advance(Position(EAST, 2))
    assert not given_.covers_vector(target)
    assert given_.missing_from(target) == [Position(EAST, 3)]
    assert given_.advance(Position(EAST, 3)).covers_vector(target)


def test_a_forgotten_origin_covers_whatever_still_comes() -> None:
    vector = VersionVector().advance(Position(WEST, 5)).forget(WEST)
    assert vector.covers(Position(WEST, 1_000))
    assert vector.applied(WEST) == 5
    assert VersionVector.parse(vector.to_bytes()) == vector
    assert VersionVector().advance(Position(WEST, 9)).join(vector).covers(Position(WEST, 1_000))


def test_a_link_that_begins_now_begins_in_every_origin_of_the_source() -> None:
    source = VersionVector().advance(Position(WEST, 9)).advance(Position(EAST, 4))
    vector = VersionVector().advance(Position(WEST, 3)).begin_with(source)
    assert vector.entries == {WEST: VectorEntry(3), EAST: VectorEntry(4, begin=4)}


def test_two_vectors_with_other_beginnings_differ() -> None:
    late = VersionVector().begin_at(Position(WEST, 4)).advance(Position(WEST, 9))
    assert late != VersionVector().advance(Position(WEST, 9))
    assert late.covers(Position(WEST, 9))
    assert VersionVector.parse(late.to_bytes()).entries[WEST] == VectorEntry(9, begin=4)


@pytest.mark.parametrize(
    ("one", "other", "joined"),
    [
        (VectorEntry(9, 4), VectorEntry(6, 0), VectorEntry(9, 0)),
        (VectorEntry(9, 4), VectorEntry(4, 0), VectorEntry(9, 0)),
        (VectorEntry(9, 4), VectorEntry(3, 0), VectorEntry(9, 4)),
        (VectorEntry(9, 0), VectorEntry(6, 4), VectorEntry(9, 0)),
    ],
)
def test_beginnings_join_if_there_is_no_hole(one: VectorEntry, other: VectorEntry, joined: VectorEntry) -> None:
    for left, right in ((one, other), (other, one)):
        assert VersionVector({WEST: left}).join(VersionVector({WEST: right})).entries == {WEST: joined}


_VECTORS = st.dictionaries(st.sampled_from([WEST, EAST, make_origin(3)]), st.integers(0, 9)).map(
    lambda entries: VersionVector({origin: VectorEntry(zxid) for origin, zxid in entries.items()})
)


@given(_VECTORS, _VECTORS, _VECTORS)
def test_join_is_the_least_vector_that_covers_both(a: VersionVector, b: VersionVector, c: VersionVector) -> None:
    joined = a.join(b)
    assert joined.covers_vector(a)
    assert joined.covers_vector(b)
    assert joined == b.join(a)
    assert joined.join(a) == joined
    assert joined.join(c) == a.join(b.join(c))
    assert not (c.covers_vector(a) and c.covers_vector(b)) or c.covers_vector(joined)


@given(st.dictionaries(_ORIGINS, st.tuples(st.integers(0, MAX_ZXID), st.integers(0, MAX_ZXID), st.booleans())))
def test_a_vector_is_read_back(entries: dict[Origin, tuple[int, int, bool]]) -> None:
    vector = VersionVector({origin: VectorEntry(*entry) for origin, entry in entries.items()})
    assert VersionVector.parse(vector.to_bytes()) == vector


def test_the_text_of_a_vector() -> None:
    vector = VersionVector().begin_at(Position(WEST, 7)).advance(Position(WEST, 120)).forget(EAST)
    origins = {str(WEST): {"applied": 120, "begin": 7}, str(EAST): {"applied": 0, "forgotten": True}}
    assert json.loads(vector.to_bytes()) == {"version": 1, "origins": origins}
    assert VersionVector.parse(b"") == VersionVector()


def test_keys_of_a_later_version_are_kept() -> None:
    told = {"version": 1, "origins": {str(WEST): {"applied": 3, "hint": [1]}}, "lineage": {"a": 1}}
    vector = VersionVector.parse(json.dumps(told).encode())
    moved = vector.advance(Position(WEST, 4)).advance(Position(EAST, 1)).join(VersionVector())
    kept = json.loads(moved.to_bytes())
    assert kept["lineage"] == {"a": 1}
    assert kept["origins"][str(WEST)] == {"applied": 4, "hint": [1]}


@pytest.mark.parametrize(
    "data",
    [
        b"{",
        b"[]",
        b"{}",
        b'{"version":2,"origins":{}}',
        b'{"version":1,"origins":{"west":{"applied":1}}}',
        b'{"version":1,"origins":[]}',
        *(
            json.dumps({"version": 1, "origins": {str(WEST): entry}}).encode()
            for entry in ({}, {"applied": -1}, {"applied": "1"}, {"applied": True}, {"applied": 1, "forgotten": 1}, 3)
        ),
    ],
)
def test_a_damaged_vector_is_refused(data: bytes) -> None:
    with pytest.raises(CorruptionError, match="Cannot read the vector"):
        VersionVector.parse(data)


def test_a_vector_is_bounded() -> None:
    many = {Origin(WEST.cluster, table, WEST.epoch): VectorEntry(MAX_ZXID) for table in range(2_000)}
    with pytest.raises(UserError, match=f"at most {MAX_VECTOR_BYTES}") as raised:
        VersionVector(many).to_bytes()
    assert raised.value.name == "LIMIT_EXCEEDED"
