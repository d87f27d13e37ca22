"""Log-ins that fail again and again, and pages that only users may see."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from engine.front.login_throttle import FailedLogins, LoginThrottle
from parts.common.errors import UserError
from tests.engine.front.asking import code_of
from tests.engine.front.conftest import RunningServer, started

USERS = {
    "default": {"password": "right"},
    "other": {"password": "other"},
    "second": {"password": "right"},
    "third": {"password": "right"},
}


class Attempts:
    def __init__(self) -> None:
        self.now = 1000.0
        self.failures = FailedLogins(b"secret", 3)
        self.throttles = [LoginThrottle(lambda: self.now, self.failures, number) for number in range(3)]
        self.throttle = self.throttles[0]

    def fail(self, times: int, user: str = "u", address: str = "a") -> None:
        for _ in range(times):
            self.throttle.count_failure(user, address)

    def waits(self, user: str = "u", address: str = "a") -> bool:
        try:
            self.throttle.check(user, address)
        except UserError:
            return True
        return False


def test_who_guesses_waits_longer_and_longer() -> None:
    attempts = Attempts()
    attempts.fail(9)
    assert not attempts.waits()
    pauses = []
    for _ in range(8):
        attempts.fail(1)
        began = attempts.now
        while attempts.waits():
            attempts.now += 0.25
        pauses.append(attempts.now - began)
    assert pauses == [0.5, 1.0, 2.0, 4.0, 8.0, 10.0, 10.0, 10.0]


def test_nobody_else_waits() -> None:
    attempts = Attempts()
    attempts.fail(20)
    assert attempts.waits()
    assert not attempts.waits("u", "b")
    assert not attempts.waits("v", "a")


def test_a_right_password_and_time_clear_the_count() -> None:
    attempts = Attempts()
    attempts.fail(9)
    attempts.throttle.forget_failures("u", "a")
    attempts.fail(9)
    assert not attempts.waits()
    attempts.now += 1000
    attempts.fail(9)
    assert not attempts.waits()


def test_memory_is_bounded() -> None:
    attempts = Attempts()
    for number in range(20_000):
        attempts.fail(1, f"user {number}")
    attempts.fail(10, "last")
    assert attempts.waits("last")
    assert attempts.failures.places.nbytes < 1 << 20


def test_failures_in_all_processes_are_one_count() -> None:
    attempts = Attempts()
    for number in range(9):
        attempts.throttles[number % 3].count_failure("u", "a")
    assert not attempts.waits()
    attempts.throttles[2].count_failure("u", "a")
    for throttle in attempts.throttles:
        with pytest.raises(UserError, match="too many failed attempts"):
            throttle.check("u", "a")
        throttle.check("v", "a")
    attempts.now += 1
    attempts.throttles[1].forget_failures("u", "a")  # a right password, given to another process
    attempts.fail(9)
    assert not attempts.waits()
    attempts.fail(1)
    assert attempts.waits()


def test_a_process_that_replaces_another_goes_on_counting() -> None:
    attempts = Attempts()
    attempts.fail(9)
    again = LoginThrottle(lambda: attempts.now, attempts.failures, 0)
    again.count_failure("u", "a")
    assert attempts.waits()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with started(tmp_path_factory.mktemp("logins") / "data", users=USERS, pages_need_user=True) as running:
        yield running


@pytest.fixture
def http(server: RunningServer) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=f"http://127.0.0.1:{server.http.port}") as client:
        yield client


def test_a_server_makes_who_guesses_wait(http: httpx.Client) -> None:
    ask = {"query": "SELECT 1"}
    answers = [http.get("/", params={**ask, "user": "default", "password": f"{n}"}) for n in range(40)]
    assert {(answer.status_code, code_of(answer)) for answer in answers} == {(403, 516)}
    assert "too many failed attempts from 127.0.0.1" in answers[-1].text
    assert "too many failed attempts" not in answers[5].text
    for unknown in range(40):
        refused = http.get("/", params={**ask, "user": "nobody", "password": f"{unknown}"})
    assert "too many failed attempts" in refused.text
    assert http.get("/", params={**ask, "user": "other", "password": "other"}).text == "1\n"


@pytest.mark.parametrize("page", ["/metrics", "/replicas_status?verbose=1"])
def test_pages_that_ask_for_a_user(http: httpx.Client, page: str) -> None:
    assert (http.get(page).status_code, code_of(http.get(page))) == (403, 516)
    basic = base64.b64encode(b"other:other").decode()
    for headers in ({"X-ClickHouse-User": "other", "X-ClickHouse-Key": "other"}, {"Authorization": f"Basic {basic}"}):
        assert http.get(page, headers=headers).status_code == 200
    assert http.get("/ping").text == http.get("/replicas_status").text == "Ok.\n"
    assert http.get("/ready").status_code == 200


def test_pages_are_open_unless_they_are_to_ask(tmp_path: Path) -> None:
    with started(tmp_path / "data", users=USERS) as server:
        assert httpx.get(f"http://127.0.0.1:{server.http.port}/metrics").status_code == 200


@pytest.mark.parametrize("door", ["/metrics", "/scan/plan"])
def test_failures_at_one_door_count_at_all(server: RunningServer, http: httpx.Client, door: str) -> None:
    """``second`` and ``third`` are asked for at no other door than these."""
    user = {"/metrics": "second", "/scan/plan": "third"}[door]
    wrong = {"X-ClickHouse-User": user, "X-ClickHouse-Key": "wrong"}
    for _ in range(12):
        http.request("POST" if door.startswith("/scan") else "GET", door, headers=wrong)
    refused = http.get("/", params={"query": "SELECT 1", "user": user, "password": "right"})
    assert "too many failed attempts" in refused.text
