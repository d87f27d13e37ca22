"""What links send is read back as it was, and what is malformed is refused by name."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordination.links.positions import MAX_ZXID, Epoch, Origin, Position
from coordination.links.stream.change import Block, Change, Definition, Drop, Mutation
from coordination.links.stream.gap_check import Fork
from coordination.links.version_vector import VectorEntry, VersionVector
from engine.links.exchange.fields import parse_document, to_bytes
from engine.links.exchange.protocol import (
    VERSION,
    agree_on_version,
    decode_answer,
    decode_outgoing,
    decode_request,
    decode_source,
    decode_versions,
    encode_answer,
    encode_outgoing,
    encode_request,
    encode_source,
)
from engine.tables.capabilities.table_links import ChangesAnswer, ChangesRequest, OutgoingLink, SourceTable
from parts.common.errors import UserError
from parts.common.part_name import PartName
from tests.links.changes import EAST, WEST

_ZXIDS = st.integers(0, MAX_ZXID)
_TEXTS = st.text(max_size=20)
_ORIGINS = st.builds(Origin, st.uuids().map(str), _ZXIDS, st.builds(Epoch, _ZXIDS, st.integers(0, 2**64 - 1)))
_NUMBERS = st.integers(0, 2**40)
_PARTITIONS = st.sampled_from(["p", "202001", "all"])
_PARTS = st.builds(lambda partition, number: PartName(partition, number, number, 0), _PARTITIONS, _NUMBERS)
_NUMBERED = st.lists(st.tuples(_PARTITIONS, _NUMBERS), max_size=3).map(tuple)
_CHANGES = st.builds(
    Change,
    st.builds(Position, st.sampled_from([WEST, EAST]), _ZXIDS),
    st.integers(1, 1000),
    _ZXIDS,
    _ZXIDS,
    st.lists(st.builds(Block, _PARTS, _TEXTS, _NUMBERS, _NUMBERS, _TEXTS, st.booleans()), max_size=3).map(tuple),
    st.lists(st.builds(Drop, _PARTITIONS, _NUMBERS), max_size=2).map(tuple),
    st.lists(st.builds(Mutation, _TEXTS, _NUMBERED), max_size=2).map(tuple),
    st.lists(st.builds(Definition, _NUMBERS, _TEXTS, _TEXTS), max_size=2).map(tuple),
)
_VECTORS = st.dictionaries(_ORIGINS, st.builds(VectorEntry, _ZXIDS, _ZXIDS, st.booleans()), max_size=3).map(
    VersionVector
)
_SOURCES = st.builds(
    SourceTable,
    _TEXTS, _TEXTS, _ORIGINS, _ZXIDS, _TEXTS, _NUMBERS, _TEXTS,
    st.lists(st.builds(Fork, _ORIGINS, _ZXIDS), max_size=2).map(tuple),
    _TEXTS, _VECTORS, st.booleans(),
)  # fmt: skip
SOURCE = SourceTable("db", "t", WEST, 7, "CREATE TABLE t …", 0, "f")


def over_the_wire(document: dict[str, Any]) -> Any:
    return parse_document(to_bytes(document), "message")


@given(_SOURCES, st.lists(_CHANGES, max_size=4), st.lists(_TEXTS, max_size=2))
def test_an_answer_is_read_back(source: SourceTable, changes: list[Change], waits: list[str]) -> None:
    answer = ChangesAnswer(source, tuple(changes), (5, 1000, 2000), 2000, tuple(waits), 3, 4, 5)
    assert decode_answer(over_the_wire(encode_answer(answer))) == answer


@given(_VECTORS, _ZXIDS)
def test_a_request_is_read_back(vector: VersionVector, trim: int) -> None:
    request = ChangesRequest("east/l", "u", vector, trim, 10, 20, 2.5)
    assert decode_request(over_the_wire(encode_request("db", "t", request))) == request


def test_a_registration_is_read_back() -> None:
    link = OutgoingLink("east/l", "u", EAST.cluster, "east", is_two_way=True, begin=5)
    assert decode_outgoing(over_the_wire(encode_outgoing(link))) == link


@pytest.mark.parametrize("versions", [None, [], [1], [1, 1, 1], ["1", 1], [-1, 1], 1])
def test_versions_are_two_numbers(versions: object) -> None:
    with pytest.raises(UserError) as raised:
        decode_versions({"versions": versions})
    assert raised.value.code == 36


@given(_SOURCES)
def test_what_a_newer_version_adds_is_ignored(source: SourceTable) -> None:
    assert decode_source(over_the_wire({**encode_source(source), "mood": "good"})) == source


def _spoilt(change: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    block = Block(PartName("p", 1, 1, 0), "h", 1, 2, "id")
    answer = ChangesAnswer(SOURCE, (Change(Position(WEST, 5), 5, 0, 0, (block,)),), (5,), 5, (), 3)
    document: dict[str, Any] = json.loads(to_bytes(encode_answer(answer)))
    change(document)
    return document


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda d: d.pop("source"), "'source' must be an object"),
        (lambda d: d["source"].update(origin="x"), "Cannot read the origin"),
        (lambda d: d["changes"][0].update(origin=7), "'origin' is 7"),
        (lambda d: d["changes"][0].update(zxid=-1), "'zxid' must be a number"),
        (lambda d: d["changes"][0].update(place=True), "'place' must be a number"),
        (lambda d: d["changes"][0].update(place=6), "beyond the last cut"),
        (lambda d: d["changes"][0]["blocks"].append([1]), "lists of six fields"),
        (lambda d: d["changes"][0]["blocks"][0].__setitem__(0, "../x"), "no part's name"),
        (lambda d: d["changes"][0]["blocks"][0].__setitem__(2, -3), "lists of six fields"),
        (lambda d: d["changes"][0].update(drops=[["p"]]), "pairs of a partition and a number"),
        (lambda d: d["changes"][0].update(mutations=[3]), "a list of objects"),
        (lambda d: d.update(cuts=[5, 4]), "must ascend"),
        (lambda d: d.update(cuts=[]), "beyond the last cut"),
        (lambda d: d.update(frontier="5"), "'frontier' must be a number"),
        (lambda d: d.update(waits=[1]), "a list of strings"),
    ],
)
def test_a_malformed_answer_is_refused_by_name(change: Callable[[dict[str, Any]], None], told: str) -> None:
    with pytest.raises(UserError) as raised:
        decode_answer(_spoilt(change))
    assert raised.value.code == 36
    assert told in raised.value.message


@pytest.mark.parametrize(
    "change",
    [
        {"max_rows": 10**13}, {"max_bytes": -1}, {"wait_seconds": "long"}, {"wait_seconds": -1},
        {"vector": {"version": 2, "origins": {}}}, {"vector": 3}, {"trim": 2**63}, {"link": None},
    ],
)  # fmt: skip
def test_a_malformed_request_is_refused(change: dict[str, Any]) -> None:
    document = encode_request("db", "t", ChangesRequest("east/l", "u", VersionVector(), 0, 1, 1))
    with pytest.raises(UserError) as raised:
        decode_request({**document, **change})
    assert raised.value.code == 36


def test_a_wait_is_bounded() -> None:
    document = encode_request("db", "t", ChangesRequest("east/l", "u", VersionVector(), 0, 1, 1, 1e9))
    assert decode_request(document).wait_seconds == 10.0


def test_the_smaller_version_counts() -> None:
    assert agree_on_version(1, 1, "west") == 1
    assert agree_on_version(1, 9, "west") == VERSION
    with pytest.raises(UserError, match="update the older side") as raised:
        agree_on_version(VERSION + 1, 9, "west")
    assert raised.value.code == 48
