"""What parts know of the times of their rows: of many parts together it is what one part with all rows would know."""

from __future__ import annotations

import json
import pathlib
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parts.common.errors import CorruptionError
from parts.read.part_reader import open_part
from parts.table.ttl_rules import NEVER, PartTtl, RuleKind, RuleTimes, TableTtl, TtlCollector, TtlRule
from parts.write.part_writer import write_part
from tests.parts.generated import WIDE, block_of, description_of

TIMES = st.lists(st.one_of(st.integers(-5, 60), st.just(NEVER)), max_size=8)


def rule(kind: RuleKind, text: str = "t", codec: str = "") -> TtlRule:
    column = "k" if kind is RuleKind.COLUMN else ""
    return TtlRule(kind, text, text, ("k",), lambda block: block.column("k").to_numpy(), column=column, codec=codec)


def facts(ttl: TableTtl, *blocks: list[int], applied_at: int | None = None) -> PartTtl:
    collector = TtlCollector(ttl, applied_at)
    for block in blocks:
        collector.update(pa.table({"k": pa.array(block, pa.int64())}))
    return collector.to_part_ttl()


@given(st.lists(TIMES, min_size=1, max_size=4), st.integers(1, 60))
def test_together_is_as_one(parts: list[list[int]], now: int) -> None:
    for kind in (RuleKind.ROWS, RuleKind.GROUP_BY, RuleKind.COLUMN):
        ttl = TableTtl((rule(kind),))
        whole = facts(ttl, [time for part in parts for time in part])
        assert ttl.combine_parts([facts(ttl, part) for part in parts]) == whole == facts(ttl, *parts)
        real = [time for part in parts for time in part if time not in (0, NEVER)]
        rows = [time for part in parts for time in part]
        assert ttl.may_have_expired(whole, now) == any(time <= now for time in real)
        is_all = bool(rows) and len(real) == len(rows) and all(time <= now for time in real)
        assert ttl.has_every_row_expired(whole, now) == (is_all and kind is RuleKind.ROWS)
        assert ttl.get_due_time(whole) == min(real, default=None)
        assert PartTtl.decode(whole.encode()) == whole


@given(TIMES, st.integers(1, 60))
def test_what_was_applied_is_not_due_again(times: list[int], now: int) -> None:
    left = [time for time in times if time in (0, NEVER) or time > now]
    for kind, rows in ((RuleKind.ROWS, left), (RuleKind.GROUP_BY, times), (RuleKind.COLUMN, times)):
        ttl = TableTtl((rule(kind),))
        after = facts(ttl, rows, applied_at=now)
        due = ttl.get_due_time(after)
        assert due is None or due > now
        assert due == min((time for time in rows if time not in (0, NEVER) and time > now), default=None)


def test_of_an_unknown_rule_nothing_is_said() -> None:
    known, other = rule(RuleKind.ROWS), rule(RuleKind.ROWS_WHERE, "other")
    ttl = TableTtl((known, other))
    part = PartTtl({"t": RuleTimes(5, 9, True, 5)})
    assert ttl.may_have_expired(part, 1)
    assert not TableTtl((known,)).may_have_expired(part, 1)
    assert not ttl.knows(part)
    assert ttl.get_due_time(part) == 5
    assert ttl.has_every_row_expired(part, 9)
    assert not ttl.has_every_row_expired(part, 8)
    assert ttl.combine_parts([part, PartTtl()]).rules == {}


def test_the_codec_is_that_of_the_last_that_has_come() -> None:
    first, second = rule(RuleKind.RECOMPRESS, "a", "ZSTD(3)"), rule(RuleKind.RECOMPRESS, "b", "ZSTD(9)")
    ttl = TableTtl((first, second))
    part = PartTtl({"a": RuleTimes(1, 10), "b": RuleTimes(1, 20)})
    assert [ttl.choose_codec(part, now) for now in (9, 10, 19, 20)] == ["", "ZSTD(3)", "ZSTD(3)", "ZSTD(9)"]
    assert not ttl.may_have_expired(part, 99)


@pytest.mark.parametrize("content", [b"", b"[]", b'{"rules": 3}', b'{"rules": {"t": [1, 2]}, "codec": ""}', b"\xff"])
def test_damaged_facts_are_found_when_the_part_is_opened(tmp_path: pathlib.Path, content: bytes) -> None:
    description = replace(description_of([("k", "Int64")], ("k",), **WIDE), ttl=TableTtl((rule(RuleKind.ROWS),)))
    write_part(tmp_path / "all_1_1_0", block_of(description, [(1,), (7,)]), description, ())
    part = open_part(tmp_path / "all_1_1_0")
    assert part.checksums.version == (1, 2)
    assert part.ttl == PartTtl({"t": RuleTimes(1, 7, True, 1)})
    assert json.loads((tmp_path / "all_1_1_0" / "ttl").read_bytes())["rules"] == {"t": [1, 7, True, 1]}
    (tmp_path / "all_1_1_0" / "ttl").write_bytes(content)
    with pytest.raises(CorruptionError):
        open_part(tmp_path / "all_1_1_0")
    with pytest.raises((ValueError, KeyError, TypeError, AttributeError)):
        PartTtl.decode(content)


def test_a_rule_of_a_column_that_a_part_has_otherwise() -> None:
    ttl = TableTtl((rule(RuleKind.ROWS),))
    part = PartTtl({"t": RuleTimes(1, 7, True, 1)}, "ZSTD(3)")
    assert ttl.limit_to_columns(["k"]).select_known(part) == part
    assert ttl.limit_to_columns(["v"]).select_known(part) == ttl.keep_unchanged(part, ["k"]) == PartTtl({}, "ZSTD(3)")
    assert np.array_equal(rule(RuleKind.ROWS).compute_times(pa.table({"k": [0, 3]})), [NEVER, 3])
