"""Splitting a streamed INSERT into its head and its data."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parts.errors import UserError
from sql.grammar.insert import MAX_HEAD_BYTES
from sql.grammar.parser import parse_insert_head
from sql.grammar.statements import Insert, TableRef

HEADS = [
    b"INSERT INTO t FORMAT CSV\n",
    b"insert into d.t (a, `b)`) values ",
    b" -- INSERT\n/* x */ INSERT INTO t (* EXCEPT a) SETTINGS a = 'VALUES' FORMAT JSONEachRow ",
    b"INSERT INTO t FORMAT TSV SETTINGS a = 1\n",
]


@pytest.mark.parametrize("head", HEADS)
@settings(deadline=None)
@given(cut=st.integers(0, 200))
def test_a_prefix_is_never_misread(head: bytes, cut: int) -> None:
    """However the body is cut, the answer is "more, please" or the right one."""
    body = head + b"1\xff,2\n" * 200
    complete = parse_insert_head(body, complete=True)
    assert complete is not None
    statement, offset = complete
    assert isinstance(statement, Insert)
    answer = parse_insert_head(body[: cut * 2])
    assert answer is None or answer == (statement, offset)


def test_offset_is_in_bytes() -> None:
    text = "INSERT INTO `таблица` VALUES (1)".encode()
    answer = parse_insert_head(text)
    assert answer == (Insert(TableRef(None, "таблица"), format="Values"), text.index(b" (1)"))


@pytest.mark.parametrize(
    "text", [b"SELECT 1", b"INSERT INTO t SELECT 1 ", b"INSERT INTO t WITH 1 AS x SELECT x ", b"CREATE"]
)
def test_everything_else_is_for_the_whole_parser(text: bytes) -> None:
    assert parse_insert_head(text, complete=True) == (None, 0)


def test_errors_of_a_complete_text() -> None:
    with pytest.raises(UserError, match="Syntax error"):
        parse_insert_head(b"INSERT INTO t (a", complete=True)
    assert parse_insert_head(b"INSERT INTO t (a") is None


@pytest.mark.parametrize("data", [b'"', b"'", b"`", b"/*", b'("'])
def test_data_are_no_tokens(data: bytes) -> None:
    """A field that is longer than what is looked at for the head."""
    body = b"INSERT INTO t FORMAT CSV\n" + data + b"0" * MAX_HEAD_BYTES
    answer = parse_insert_head(body[:MAX_HEAD_BYTES])
    assert answer == (Insert(TableRef(None, "t"), format="CSV"), body.index(data))
