"""A password of ``remote`` is shown nowhere, and serves the table that it is part of."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from parts.common.errors import PandoError
from sql.grammar import password_hiding
from sql.grammar.password_hiding import hide_passwords
from tests.engine.front.conftest import started

_PASSWORD = "pa'ss\\word"
_LITERAL = "'pa\\'ss\\\\word'"


@pytest.mark.parametrize(
    "text",
    [
        "remote('h', db.t, 'u', {})",
        "remote('h', 'db.t', 'u', {})",
        "remote('h', db, t, 'u', {})",
        "remote('h', 'db', 'a.t', 'u', {})",
        "remote ( 'h:1,g:2' , numbers(1, 2), 'u' , {} , rand() )",
        "remoteSecure('h', view(SELECT 1, ')'), 'u', {}, intHash64(k))",
        "remote('h', view(SELECT * FROM remote('g', db, t, 'v', {})), 'u', {})",
        "remote('h', /* ' */ db, t, 'u', {})",
    ],
)
@pytest.mark.parametrize("literal", ["'secret'", _LITERAL, "'a''b,)('"])
def test_what_is_shown(text: str, literal: str) -> None:
    text = f"SELECT * FROM {text} WHERE s = 'kept'"
    assert hide_passwords(text.replace("{}", literal)) == text.replace("{}", "'[HIDDEN]'")


def test_what_is_cut_shows_no_beginning() -> None:
    assert (
        hide_passwords("SELECT * FROM remote('h', db, t, 'u', 'sec")
        == "SELECT * FROM remote('h', db, t, 'u', '[HIDDEN]'"
    )


@pytest.mark.parametrize(
    "text", ["", "SELECT remote", "SELECT 'x', remote(1)", "INSERT INTO t VALUES ('a', 'b', 'c', 'd')"]
)
def test_what_has_no_password_is_as_it_was(text: str) -> None:
    assert hide_passwords(text) == text


@pytest.mark.parametrize("unit", ["remote(", "remote(1,", "remote('", "'remote(", "(", "remote(a, b, c, d, 'e', "])
def test_every_character_is_looked_at_once(monkeypatch: pytest.MonkeyPatch, unit: str) -> None:
    looked_at = 0

    class Pieces:
        @staticmethod
        def finditer(text: str) -> Iterator[re.Match[str]]:
            nonlocal looked_at
            for piece in pieces.finditer(text):
                looked_at += len(piece.group())
                yield piece

    pieces = password_hiding._PIECE
    monkeypatch.setattr(password_hiding, "_PIECE", Pieces)
    text = unit * 20_000
    hide_passwords(text)
    assert looked_at <= len(text)


def test_everything_that_shows_statements(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    users = {"default": {}, "ann": {"password": _PASSWORD}}
    with started(tmp_path, users=users) as server, server.client() as client:
        remote = f"remote('127.0.0.1:{server.http.port}', numbers(3), 'ann', {_LITERAL})"
        client.execute(f"CREATE VIEW v AS SELECT * FROM {remote}")
        assert client.value("SELECT sum(number) FROM v") == 3, "the table has its password"
        shown = [
            client.rows("SHOW CREATE TABLE v"),
            client.rows("SELECT create_table_query, as_select, engine_full FROM system.tables WHERE name = 'v'"),
            client.rows("SELECT view_definition FROM information_schema.views"),
            client.rows(f"SELECT query FROM system.processes WHERE 1 IN (SELECT number FROM {remote})"),
            client.rows(f"EXPLAIN SYNTAX SELECT * FROM {remote}"),
            client.rows(f"EXPLAIN AST SELECT * FROM {remote}"),
        ]
        for number, rows in enumerate(shown):
            text = str(rows)
            assert "word" not in text, (number, text)
            assert number in (1, 2) or "[HIDDEN]" in text, (number, text)
        for mistake in (f"{remote} GROUP GROUP", f"{remote[:-1]} FROM", remote[:-2], f"{remote[:-2]} x"):
            with pytest.raises(PandoError) as raised:
                client.execute(f"SELECT * FROM {mistake}")
            assert raised.value.code == 62
            assert "word" not in str(raised.value)
    assert "word" not in caplog.text
