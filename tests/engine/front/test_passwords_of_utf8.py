"""Users and passwords with characters beyond ASCII."""

from __future__ import annotations

import base64
from collections.abc import Iterator

import httpx
import pytest

from engine.http_client.http_client import HttpClient
from parts.common.errors import PandoError
from tests.engine.front.conftest import RunningServer, started

PASSWORD, USER = "pä$$wörd–Ж密", "jürgen"
USERS = {USER: {"password": PASSWORD}, "plain": {"password": PASSWORD}, "blank": {"password": " b\t"}}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with started(tmp_path_factory.mktemp("passwords") / "data", users=USERS) as running:
        yield running


@pytest.mark.parametrize(("user", "password"), [(USER, PASSWORD), ("plain", PASSWORD), ("blank", " b\t")])
def test_the_client_logs_in(server: RunningServer, user: str, password: str) -> None:
    with HttpClient(port=server.http.port, user=user, password=password) as client:
        assert client.value("SELECT currentUser()") == user
    with (
        HttpClient(port=server.http.port, user=user, password=f"{password}x") as client,
        pytest.raises(PandoError) as error,
    ):
        client.execute("SELECT 1")
    assert error.value.code == 516
    assert password not in error.value.message


def test_every_way_to_send_a_password(server: RunningServer) -> None:
    basic = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
    ways = (
        {"headers": {b"X-ClickHouse-User": USER.encode(), b"X-ClickHouse-Key": PASSWORD.encode()}},
        {"headers": {"Authorization": f"Basic {basic}"}},
        {"params": {"user": USER, "password": PASSWORD}},
    )
    for way in ways:
        url = f"http://127.0.0.1:{server.http.port}/"
        answer = httpx.post(url, content="SELECT 1", **way)  # type: ignore[arg-type]
        assert (answer.status_code, answer.text) == (200, "1\n"), way


def test_a_header_that_is_not_utf8_is_a_wrong_password(server: RunningServer) -> None:
    headers = {b"X-ClickHouse-User": b"plain", b"X-ClickHouse-Key": "pä".encode("latin-1")}
    answer = httpx.post(f"http://127.0.0.1:{server.http.port}/", content="SELECT 1", headers=headers)
    assert (answer.status_code, answer.headers["X-ClickHouse-Exception-Code"]) == (403, "516")
