"""Servers of a cluster with a secret ask one another in the name of the user, and nobody else may."""

from __future__ import annotations

import io
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest

from engine.server.cluster_secret import MOST_SECONDS, make_authorization
from parts.common.errors import PandoError
from tests.engine.distributed.replicas import Replicas
from tests.engine.front.conftest import started
from tests.portions import one_in

_SECRET = "what both know"
_USERS = {
    "default": {"password": "of default"},
    "ann": {"password": "of ann"},
    "reader": {"readonly": 1, "password": "r"},
}
_QUERY = b"SELECT currentUser() FORMAT TSV"


def _clusters(ports: list[int]) -> dict[str, object]:
    others = [{"replica": {"host": "127.0.0.1", "port": port}} for port in ports]
    return {
        "shared": {"secret": _SECRET, "shard": others},
        "other": {"shard": others},
    }


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Replicas]:
    running = Replicas(tmp_path, 2, _clusters, users=_USERS)
    running.on_all("CREATE TABLE t (k UInt64, s String) ENGINE = MergeTree ORDER BY k")
    yield running
    running.stop()


@pytest.mark.parametrize("user", ["ann", "default", "reader"])
def test_the_user_of_a_query_is_the_user_on_every_shard(servers: Replicas, user: str) -> None:
    text = "SELECT DISTINCT user FROM clusterAllReplicas('shared', system, processes)"
    assert servers.servers[0].run(text, user, max_threads=3) == [(user,)]


def test_inserts_into_shards(servers: Replicas) -> None:
    first, second = servers.servers
    first.run("CREATE TABLE d AS t ENGINE = Distributed(shared, default, t, k)")
    first.run("INSERT INTO d SELECT number, toString(number) FROM numbers(1000)", "ann")
    assert first.run("SELECT count(), uniqExact(k) FROM d", "reader") == [(1000, 1000)]
    assert second.run("SELECT count() FROM t") == [(500,)]


def test_without_the_secret_the_password_counts(servers: Replicas) -> None:
    with pytest.raises(PandoError) as refused:
        servers.servers[0].run("SELECT count() FROM cluster('other', default, t)", "ann")
    assert refused.value.code in (279, 516, 519)


def test_a_user_whom_the_other_server_does_not_know(servers: Replicas) -> None:
    with pytest.raises(PandoError) as refused:
        servers.servers[0].run("SELECT count() FROM cluster('shared', default, t)", "stranger")
    assert "stranger: Authentication failed" in str(refused.value)


def _header(
    secret: str = _SECRET,
    cluster: str = "shared",
    user: str = "ann",
    parameters: dict[str, str] | None = None,
    statement: bytes = _QUERY,
    seconds: float = 0.0,
    number: str = "1",
    has_rows: bool = False,
) -> str:
    now = time.time() + seconds
    return make_authorization(
        secret, cluster, user, parameters or {}, statement, has_rows=has_rows, now=now, number=number
    )


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    shards = {"shard": {"replica": {"host": "127.0.0.1"}}}
    clusters = {"shared": {"secret": _SECRET, **shards}, "open": shards, "empty": {"secret": "", **shards}}
    with started(tmp_path, users=_USERS, remote_servers=clusters) as server:
        yield f"http://127.0.0.1:{server.http.port}/"


def _asked(url: str, header: str, body: bytes = _QUERY, **parameters: str) -> httpx.Response:
    return httpx.post(url, params=parameters, content=body, headers={"Authorization": header}, trust_env=False)


def test_a_proof_counts_once(url: str) -> None:
    header = _header()
    assert _asked(url, header).text == "ann\n"
    again = _asked(url, header)
    assert again.status_code == 403
    assert "the request was made before" in again.text
    assert _asked(url, _header(number="2")).text == "ann\n"


@pytest.mark.parametrize(
    ("signed", "why"),
    one_in(
        3,
        [
            ({"secret": "guessed"}, "same secret"),
            ({"secret": "", "cluster": "open"}, "same secret"),
            ({"secret": "", "cluster": "empty"}, "same secret"),
            ({"secret": "", "cluster": "unknown"}, "same secret"),
            ({"seconds": -MOST_SECONDS - 60}, "clocks"),
            ({"seconds": MOST_SECONDS + 60}, "clocks"),
            ({"seconds": float("nan")}, "clocks"),
            ({"user": "nobody"}, "nobody: Authentication failed"),
            ({"statement": b"SELECT 1"}, "statement is not the one"),
            ({"statement": _QUERY + b" "}, "statement is not the one"),
            ({"parameters": {"max_threads": "2"}}, "parameters"),
        ],
    ),
)
def test_what_is_refused(url: str, signed: dict[str, Any], why: str) -> None:
    _check_refused(url, _header(**signed), why)


def test_headers_that_are_no_proof(url: str) -> None:
    _check_refused(url, _header() + "0", "same secret")
    for text in ("", " é.é", " e30=.00", " W10=.00"):
        _check_refused(url, f"Pando-Cluster{text}", "Cannot read")


def _check_refused(url: str, header: str, why: str) -> None:
    answer = httpx.post(url, content=_QUERY, headers={"Authorization": header.encode()}, trust_env=False)
    assert (answer.status_code, why in answer.text) == (403, True), answer.text
    assert answer.headers["x-clickhouse-exception-code"] == "516"


def test_parameters_are_signed(url: str) -> None:
    assert _asked(url, _header(parameters={"database": "default"}), database="default").text == "ann\n"
    refused = _asked(url, _header(parameters={"database": "default"}, number="2"), database="default", readonly="0")
    assert "parameters are not those" in refused.text


def test_only_what_is_behind_a_signed_insert_may_be_anything(url: str) -> None:
    create = b"CREATE TABLE t (k UInt64) ENGINE = MergeTree ORDER BY k"
    assert _asked(url, _header(statement=create), create).status_code == 200
    insert = b"INSERT INTO t FORMAT ArrowStream\n"
    sink = io.BytesIO()
    rows = pa.table({"k": pa.array([1, 2], pa.uint64())})
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    assert (
        _asked(url, _header(statement=insert, number="2", has_rows=True), insert + sink.getvalue()).status_code == 200
    )
    count = b"SELECT sum(k) FROM t"
    assert _asked(url, _header(statement=count, number="3"), count).text == "3\n"
    both = _asked(url, _header(statement=count, number="4"), count + b" WHERE k = 1")
    assert "statement is not the one that was signed" in both.text
    short = _asked(url, _header(statement=count, number="5"), count[:-1])
    assert "statement is not the one that was signed" in short.text


def test_scans_of_spark_take_no_proof(url: str) -> None:
    answer = httpx.post(f"{url}scan/plan", json={}, headers={"Authorization": _header()}, trust_env=False)
    assert (answer.status_code, answer.headers["x-clickhouse-exception-code"]) == (403, "516")


@pytest.mark.parametrize(("method", "path"), [("GET", "/metrics"), ("POST", "/scan/plan")])
def test_a_proof_opens_no_other_door(tmp_path: Path, method: str, path: str) -> None:
    """It signs a statement, which only the door of queries compares with the body."""
    clusters = {"shared": {"secret": _SECRET, "shard": [{"replica": {"host": "127.0.0.1", "port": 1}}]}}
    with started(tmp_path / "data", users=_USERS, pages_need_user=True, remote_servers=clusters) as server:
        proof = make_authorization(_SECRET, "shared", "ann", {}, b"", now=time.time(), number="1")
        url = f"http://127.0.0.1:{server.http.port}"
        assert httpx.post(url, headers={"Authorization": proof}).status_code == 400  # let in, with an empty query
        refused = httpx.request(method, url + path, headers={"Authorization": proof})
        assert (refused.status_code, refused.headers["X-ClickHouse-Exception-Code"]) == (403, "516")
        assert "password is incorrect" in refused.text
