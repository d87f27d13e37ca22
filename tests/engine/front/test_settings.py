"""Session settings: types, refusals."""

from __future__ import annotations

import pytest

from parts.common.errors import UserError
from sql.settings.session_settings import (
    make_settings,
    parse_setting,
)
from sql.settings.supported_settings import (
    DEFAULT_SETTINGS,
    SUPPORTED_SETTINGS,
)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("insert_quorum", "auto", "auto"),
        ("insert_quorum", "2", 2),
        ("insert_quorum", 3, 3),
        ("insert_quorum_parallel", "0", False),
        ("insert_deduplicate", "true", True),
        ("max_execution_time", "0.5", 0.5),
        ("max_threads", 4.0, 4),
        ("format_csv_delimiter", ";", ";"),
        ("format_csv_delimiter", "\\t", "\t"),
        ("insert_deduplication_token", 17, "17"),
        ("http_zlib_compression_level", "-1", -1),
    ],
)
def test_value(name: str, text: object, value: object) -> None:
    parsed = parse_setting(name, text)
    assert parsed == value
    assert type(parsed) is type(value)


@pytest.mark.parametrize(
    ("name", "text", "code"),
    [
        ("no_such_setting", "1", 115),
        ("max_threads", "many", 72),
        ("max_threads", "-1", 69),
        ("max_insert_block_size", "0", 36),
        ("max_block_size", "0", 36),
        ("insert_deduplicate", "maybe", 467),
        ("max_execution_time", "soon", 72),
        ("format_csv_delimiter", "ab", 36),
    ],
)
def test_refusal_names_setting_and_value(name: str, text: str, code: int) -> None:
    with pytest.raises(UserError) as caught:
        parse_setting(name, text)
    assert caught.value.code == code
    assert name in caught.value.message
    assert code == 115 or text in caught.value.message


def test_unknown_setting_names_near_ones() -> None:
    with pytest.raises(UserError, match="Maybe you meant insert_quorum"):
        parse_setting("insert_qorum", 1)


def test_every_default_is_a_valid_value() -> None:
    for name, setting in SUPPORTED_SETTINGS.items():
        assert parse_setting(name, setting.default) == setting.default, name
    assert make_settings({}) == DEFAULT_SETTINGS
