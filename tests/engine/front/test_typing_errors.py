"""A new user's typing errors: the message says what was meant, or where to look."""

from __future__ import annotations

import pytest

from engine.http_client.http_client import HttpClient
from parts.common.errors import PandoError
from tests.engine.front.conftest import RunningServer


@pytest.mark.parametrize(
    ("sql", "code", "hint"),
    [
        ("SELECT * FROM hitss", 60, "Table default.hitss does not exist. Maybe you meant: hits"),
        ("SELECT * FROM something", 60, "SHOW TABLES FROM default lists those of this server"),
        ("SELECT * FROM system.tabels", 60, "Maybe you meant: tables"),
        ("SELECT * FROM defualt.hits", 81, "Maybe you meant: default"),
        ("USE nowhere", 81, "SHOW DATABASES lists those of this server"),
        ("SELECT coutn() FROM hits", 46, "Maybe you meant: ['count'"),
        ("SELECT UserId FROM hits", 47, "UserID"),
        ("CREATE TABLE t (a Strng) ENGINE = Memory", 50, "Maybe you meant: String"),
        ("CREATE TABLE t (a UInt8) ENGINE = MergTree ORDER BY a", 56, "MergeTree"),
        ("SELECT 1 SETTINGS max_thread = 1", 115, "max_threads"),
        ("SELECT 1 FORMAT JSN", 73, "JSON"),
    ],
)
def test_the_message_tells_what_was_meant(client: HttpClient, sql: str, code: int, hint: str) -> None:
    client.execute("CREATE TABLE IF NOT EXISTS hits (UserID UInt64) ENGINE = Memory")
    with pytest.raises(PandoError) as caught:
        client.execute(sql)
    assert caught.value.code == code
    assert hint in caught.value.message
    client.execute("DROP TABLE hits")


def test_a_database_of_the_request(server: RunningServer) -> None:
    with (
        server.client(database="systen") as client,
        pytest.raises(PandoError, match="Maybe you meant: system") as caught,
    ):
        client.execute("SELECT 1")
    assert caught.value.code == 81
