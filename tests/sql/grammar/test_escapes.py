"""Backslash escapes of whole columns, against one regular expression a value."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from parts.common.errors import UserError
from sql.grammar.text_escapes import _QUOTED_SEQUENCE, _SEQUENCE, _resolve_match, unescape_bytes, unescape_quoted

TEXTS = st.lists(st.sampled_from([*"\\'nqNxé0a\n", "\\x41", "\\xff", "''"]), max_size=8).map("".join)


@settings(deadline=None)
@given(st.lists(TEXTS | st.none(), max_size=5))
@example(["it''s", "'''", "\\''", None, "\\q''"])
def test_quoted_texts(texts: list[str | None]) -> None:
    expected = [text and _QUOTED_SEQUENCE.sub(_resolve_match, text.encode()) for text in texts]
    array = pa.array(texts, pa.string())
    if not all(_is_utf8(value) for value in expected if isinstance(value, bytes)):
        with pytest.raises(UserError, match="invalid UTF-8"):
            unescape_quoted(array)
    else:
        assert unescape_quoted(array).cast(pa.binary()).to_pylist() == [
            value.encode() if isinstance(value, str) else value for value in expected
        ]


def _is_utf8(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


@settings(deadline=None)
@given(st.lists(TEXTS.map(str.encode) | st.sampled_from([b"\xff\\0", None]), max_size=5))
@example([b"1\\0\\0", b"\\\\0"])
def test_bytes(values: list[bytes | None]) -> None:
    expected = [value and _SEQUENCE.sub(_resolve_match, value) for value in values]
    assert unescape_bytes(pa.array(values, pa.binary())).to_pylist() == expected
