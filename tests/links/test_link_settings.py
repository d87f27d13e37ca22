"""Settings of links: their values, and the errors for those that are not allowed."""

from __future__ import annotations

import pytest

from coordination.links.link_settings import (
    ANY_UPSTREAM,
    DEFAULTS,
    RANGES,
    LinkSettings,
    changes_with_alter,
    format_link_setting,
    parse_link_setting,
)
from parts.common.errors import CODES, UserError

POSITION = "6b1f0c2e-5f5d-4b57-9d0c-0f6f6f1f9a10.4294967298.1-00c0ffee00c0ffee:17"


def test_what_is_not_given_has_its_default() -> None:
    assert LinkSettings.parse({}) == LinkSettings()
    settings = LinkSettings.parse({"link_max_batch_rows": "10", "two_way": 1, "replication_timeout": "0.5"})
    assert (settings.link_max_batch_rows, settings.two_way, settings.replication_timeout) == (10, True, 0.5)


@pytest.mark.parametrize("name", DEFAULTS)
def test_a_default_is_a_value_that_is_allowed(name: str) -> None:
    value = parse_link_setting(name, format_link_setting(DEFAULTS[name]))
    assert value == DEFAULTS[name]
    assert type(value) is type(DEFAULTS[name])


@pytest.mark.parametrize("name", RANGES)
def test_numbers_have_their_range(name: str) -> None:
    least, most = RANGES[name]
    assert parse_link_setting(name, least) == least
    assert parse_link_setting(name, most) == most
    for value in (least - 1, most + 1):
        assert _fails("ARGUMENT_OUT_OF_BOUND", {name: value}).startswith(f"Value {value} of setting {name}")


@pytest.mark.parametrize(
    ("values", "code", "message"),
    [
        ({"link_max_batch_row": 1}, "UNKNOWN_SETTING", "Maybe you meant link_max_batch_rows"),
        ({"colour": 1}, "UNKNOWN_SETTING", "there are mode, enabled"),
        ({"conflict_order": "x"}, "UNKNOWN_SETTING", "it is a setting of the table"),
        ({"two_way": "maybe"}, "CANNOT_PARSE_BOOL", "'maybe'"),
        ({"link_quorum": "many"}, "CANNOT_PARSE_NUMBER", "'many'"),
        ({"link_quorum": 1.5}, "CANNOT_PARSE_NUMBER", "'1.5'"),
        ({"replication_timeout": "nan"}, "ARGUMENT_OUT_OF_BOUND", "nan"),
        ({"mode": "fast"}, "BAD_ARGUMENTS", "'fast'"),
        ({"mode": "slow"}, "BAD_ARGUMENTS", "'sync' or 'async'"),
        ({"enable_tracker": "maybe"}, "CANNOT_PARSE_BOOL", "'maybe'"),
        ({"preferred_sync_clusters": "west"}, "UNKNOWN_SETTING", "it is a setting of the table"),
        ({"start_position": "yesterday"}, "BAD_ARGUMENTS", "'yesterday'"),
        ({"upstream_replica_id": "west"}, "BAD_ARGUMENTS", "'west'"),
        ({"two_way": 1, "auto_bootstrap": 1}, "BAD_ARGUMENTS", "exclude each other"),
    ],
)
def test_a_wrong_value_is_refused_by_name(values: dict[str, object], code: str, message: str) -> None:
    assert message in _fails(code, values)


def test_a_start_is_a_word_or_a_position() -> None:
    for text in ("", "now", "vector", POSITION):
        assert LinkSettings.parse({"start_position": text}).start_position == text


def test_settings_say_who_may_write() -> None:
    assert not LinkSettings.parse({}).allows_writes
    assert LinkSettings.parse({"two_way": 1}).allows_writes
    assert LinkSettings.parse({"preserve_timestamps": 0}).allows_writes
    assert LinkSettings.parse({"upstream_replica_id": "0"}).upstream_replica_id == ANY_UPSTREAM
    assert LinkSettings.parse({"upstream_replica_id": ANY_UPSTREAM}).allows_writes


def test_what_decides_the_rows_of_a_target_is_fixed() -> None:
    assert [name for name in DEFAULTS if not changes_with_alter(name)] == ["start_position", "preserve_timestamps"]


def _fails(code: str, values: dict[str, object]) -> str:
    with pytest.raises(UserError) as error:
        LinkSettings.parse(values)
    assert error.value.code == CODES[code]
    return error.value.message
