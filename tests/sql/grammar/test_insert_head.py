"""Splitting a streamed INSERT into its head and its data."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parts.common.errors import UserError
from sql.grammar.clause_types import (
    TableRef,
)
from sql.grammar.statement_parser import parse_insert_head
from sql.grammar.statements import insert
from sql.grammar.statements.insert import MAX_HEAD_BYTES
from sql.grammar.statements.statement import (
    Insert,
)

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


@pytest.mark.parametrize(
    "head",
    [
        "INSERT INTO t VALUES ", "insert into db.t values", "INSERT INTO t (a, b) VALUES", "INSERT INTO t(a)VALUES  ",
        "INSERT INTO values VALUES", "INSERT INTO function VALUES", "INSERT INTO TABLE VALUES",
        "INSERT INTO t (a a) VALUES", "INSERT INTO t (,) VALUES", "INSERT INTO 1t VALUES",
        "INSERT INTO db.1 VALUES", "INSERT INTO t (a, a) VALUES",
        "INSERT INTO FORMAT VALUES", "INSERT INTO t () VALUES", "INSERT INTO select.values VALUES",
    ],
)  # fmt: skip
@pytest.mark.parametrize("rows", ["(1, 'a')", "(", "(1),(2); SELECT 1", "(settings = 1", "((1))", "('\u00e4')"])
def test_a_plain_head_is_read_as_any_other(head: str, rows: str) -> None:
    """What is kept of the head of a former statement is what reading the whole gives."""

    def read(parse: Callable[..., object], data: bytes) -> object:
        try:
            return parse(data, complete=True)
        except UserError as error:
            return error.code, error.message

    data = (head + rows).encode()
    assert read(insert.parse_insert_head, data) == read(insert._parse_head, data)


def test_data_on_the_next_line_may_begin_with_a_semicolon() -> None:
    """Of RowBinary it is a byte like any other; right behind the format's name it is a mistake."""
    head = b"INSERT INTO t FORMAT RowBinary\n"
    found = parse_insert_head(head + b";" + bytes(600), complete=True)
    assert found is not None
    assert found[1] == len(head)
    with pytest.raises(UserError, match="excessive ';'"):
        parse_insert_head(b"INSERT INTO t FORMAT RowBinary;" + bytes(600), complete=True)
