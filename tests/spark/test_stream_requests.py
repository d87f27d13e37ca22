"""What a stream asks of a server, and what a server makes of it, without either."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from pyspark.sql.types import LongType, StructField, StructType

from engine.front.http.scan_parameters import parse_stream_start, parse_wanted_blocks
from parts.common.errors import PandoError
from parts.common.part_name import PartName
from spark_connector.python_source.stream_reader import PandoStreamReader, StreamOffset
from spark_connector.shared.options import Options, parse_options

SCHEMA = StructType([StructField("k", LongType(), False)])


class Answering(PandoStreamReader):
    """Asks a server that always says the same."""

    def __init__(self, answer: dict[str, Any], **more: str) -> None:
        self.asked: dict[str, Any] = {}
        self._answer = answer
        super().__init__(lambda: options(**more), SCHEMA)

    def _ask(self, request: Any) -> dict[str, Any]:
        self.asked = dict(request)
        return self._answer


ANSWER = {"identity": "7f", "available": {"b": 4, "a": 9}, "end": {"a": 5, "b": 4}, "dropped": {"c": 3}}


def options(**more: str) -> Options:
    return parse_options({"url": "http://127.0.0.1:1", "table": "t", **more})


def code(function: Any, *arguments: Any) -> int:
    with pytest.raises(PandoError) as raised:
        function(*arguments)
    return raised.value.code


@pytest.mark.parametrize(
    "wrong", ["first", "{", "[1]", '{"a": 1.5}', '{"a": -2}', '{"a": true}', '{"blocks": 1}', '{"a": "1"}']
)
def test_starting_offsets_that_are_none(wrong: str) -> None:
    with pytest.raises(PandoError, match="startingOffsets"):
        options(startingOffsets=wrong)


def test_options_of_streams() -> None:
    assert options(maxRowsPerTrigger="5", failOnDataLoss="false").max_rows_per_trigger == 5
    assert not options(failOnDataLoss="false").fail_on_data_loss
    assert options().fail_on_data_loss
    for name, value in (("maxRowsPerTrigger", "0"), ("failOnDataLoss", "maybe")):
        with pytest.raises(PandoError, match=name.lower()):
            options(**{name: value})


@pytest.mark.parametrize(
    ("starting", "blocks"),
    [
        ("earliest", {"c": 3}),
        ("latest", {"a": 9, "b": 4, "c": 3}),
        ('{"a": 2, "c": 1}', {"a": 2, "c": 1}),
        ('{"a": 2}', {"a": 2, "c": 3}),
    ],
)
def test_where_a_stream_begins(starting: str, blocks: dict[str, int]) -> None:
    first = Answering(ANSWER, startingOffsets=starting).initialOffset()
    assert StreamOffset.from_json(first) == StreamOffset("7f", blocks)


def test_an_offset_of_another_query_is_a_beginning() -> None:
    given = StreamOffset("6e", {"a": 2}).to_json()
    assert Answering(ANSWER, startingOffsets=json.dumps(given)).initialOffset() == given
    assert code(Answering(ANSWER).latestOffset, {"offset": 1}, ReadAllAvailable()) == 36


def test_limits_and_targets_are_passed_on() -> None:
    reader = Answering(ANSWER, maxRowsPerTrigger="100")
    assert reader.getDefaultReadLimit() == ReadMaxRows(100)
    assert Answering(ANSWER).getDefaultReadLimit() == ReadAllAvailable()
    start = StreamOffset("7f", {"a": 1})
    end = reader.latestOffset(start.to_json(), ReadMaxRows(7))
    assert json.dumps(end) == json.dumps(StreamOffset("7f", {"b": 4, "a": 5}).to_json()), "Spark compares the texts"
    assert reader.asked == {"start": {"identity": "7f", "blocks": {"a": 1}}, "until": None, "max_rows": 7}
    assert reader.reportLatestOffset() == StreamOffset("7f", {"a": 9, "b": 4}).to_json()
    reader.prepareForTriggerAvailableNow()
    reader.latestOffset(start.to_json(), ReadAllAvailable())
    assert (reader.asked["until"], reader.asked["max_rows"]) == (ANSWER["available"], None)
    assert reader.partitions(start.to_json(), start.to_json()) == []


def test_what_a_request_says() -> None:
    start = parse_stream_start(
        {"start": {"identity": "7f", "blocks": {"a": 1}}, "until": {"a": 4}, "may_lack_rows": True}
    )
    assert start.limited({"a": 9, "b": 2}) == {"a": 4}
    assert parse_stream_start({}).limited({"a": 9}) == {"a": 9}
    wanted = parse_wanted_blocks({"blocks": {"identity": "7f", "ranges": {"a": [3, 5]}}})
    assert wanted is not None
    overlapping = {name: wanted.overlaps(PartName.parse(name)) for name in ("a_0_3_1", "a_4_4_0", "a_0_9_2", "b_0_9_1")}
    assert overlapping == {"a_0_3_1": False, "a_4_4_0": True, "a_0_9_2": True, "b_0_9_1": False}
    assert parse_wanted_blocks({}) is None


@pytest.mark.parametrize(
    "body",
    [
        {"start": 1}, {"start": {"identity": 2}}, {"start": {"blocks": [1]}}, {"start": {"blocks": {"a": "1"}}},
        {"start": {"blocks": {"a": -2}}}, {"until": [1]}, {"until": {"a": None}}, {"may_lack_rows": 1},
    ],
)  # fmt: skip
def test_a_wrong_start_is_refused(body: dict[str, Any]) -> None:
    assert code(parse_stream_start, body) == 36


@pytest.mark.parametrize(
    "blocks",
    [
        [1], {"ranges": {"a": [1, 2]}}, {"identity": "7f", "ranges": {"a": 1}},
        {"identity": "7f", "ranges": {"a": [1]}}, {"identity": "7f", "ranges": {"a": [1, 1 << 70]}},
        {"identity": "7f", "ranges": [1]},
        {"identity": "7f", "ranges": {}, "may_lack_rows": "no"},
    ],
)  # fmt: skip
def test_wrong_blocks_are_refused(blocks: Any) -> None:
    assert code(parse_wanted_blocks, {"blocks": blocks}) == 36
