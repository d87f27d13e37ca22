"""Who may ask what at /links/…: strangers, readers, other clusters; oversized and malformed requests."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import httpx
import pytest
import zstandard

from coordination.links.positions import Position
from engine.links.exchange.compressed_answers import decompress_answer
from engine.links.exchange.protocol import LEAST_VERSION, VERSION
from parts.common.errors import UserError
from parts.common.part_name import PartName
from tests.links.changes import NORTH, WEST, make_block, make_change
from tests.links.link_ends import KeptTarget, StreamSource, replace_ends
from tests.links.linked_servers import PASSWORD, USER, LinkedServer, create_table, linked_servers

NORTH_UUID = NORTH.cluster
TABLE = {"database": "default", "table": "t"}


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[LinkedServer]]:
    with linked_servers(tmp_path_factory.mktemp("servers"), west=2) as found:
        create_table(found["west"])
        with found["west"][0].client() as client:
            client.execute("CREATE TABLE plain (k UInt64) ENGINE = MergeTree ORDER BY k")
        yield found["west"]


@pytest.fixture(autouse=True)
def source(servers: list[LinkedServer]) -> StreamSource:
    source = StreamSource(WEST)
    for server in servers:
        replace_ends(server.table(), source, KeptTarget(WEST))
    return source


def ask(
    server: LinkedServer, name: str, document: object, user: str = USER, password: str = PASSWORD
) -> httpx.Response:
    content = document if isinstance(document, bytes) else json.dumps(document).encode()
    headers = {"X-ClickHouse-User": user, "X-ClickHouse-Key": password}
    return httpx.post(f"{server.url}/links/{name}", content=content, headers=headers, trust_env=False)


def hello(cluster: str = "north", uuid: str = NORTH_UUID, versions: object = (1, 1)) -> dict[str, object]:
    return {"versions": versions, "cluster": cluster, "uuid": uuid}


def code(answer: httpx.Response) -> int:
    assert answer.status_code >= 400, answer.text
    return int(answer.headers["X-ClickHouse-Exception-Code"])


def link(name: str = "north/l", uuid: str = "u1") -> dict[str, object]:
    return {"name": name, "uuid": uuid, "target_cluster": NORTH_UUID, "target_cluster_name": "north"}


def test_hello_names_the_cluster(servers: list[LinkedServer]) -> None:
    found = [ask(server, "hello", hello()).json() for server in servers]
    assert found[0] == found[1]
    assert (found[0]["cluster"], found[0]["versions"]) == ("west", [LEAST_VERSION, VERSION])


def test_a_reader_may_ask_but_changes_nothing(servers: list[LinkedServer], source: StreamSource) -> None:
    assert ask(servers[0], "describe", TABLE, "reader").json()["origin"] == str(WEST)
    assert code(ask(servers[0], "register", {**TABLE, "link": link()}, "reader")) == 164
    assert code(ask(servers[0], "unregister", {**TABLE, "name": "north/l"}, "reader")) == 164
    assert source.links == {}


def test_a_reader_acknowledges_nothing(servers: list[LinkedServer], source: StreamSource) -> None:
    """What a request for changes says it has is trimmed at the source, so only who may link sends one."""
    ask(servers[0], "register", {**TABLE, "link": link()})
    request = {
        **TABLE, "link": "north/l", "uuid": "u1", "vector": {"version": 1, "origins": {}},
        "trim": 10**9, "max_rows": 10, "max_bytes": 10,
    }  # fmt: skip
    answer = ask(servers[0], "changes", request, "reader")
    assert (code(answer), "may_link" in answer.text) == (164, True)
    assert source.requests == []
    assert ask(servers[0], "changes", request).status_code == 200


@pytest.mark.parametrize(
    "wrong",
    [
        {"uuid": "u" * 65}, {"uuid": ""}, {"uuid": "a/b"}, {"target_cluster": "x" * 1000}, {"target_cluster": ""},
        {"target_cluster_name": "north/l", "name": "north/l/m"}, {"target_cluster_name": "", "name": "/l"},
        {"target_cluster_name": "..", "name": "../l"}, {"target_cluster_name": "n" * 65, "name": f"{'n' * 65}/l"},
        {"name": "north/"}, {"name": "north/.."}, {"name": "north/a/b"}, {"name": f"north/{'l' * 201}"},
        {"name": "south/l"},
    ],
)  # fmt: skip
def test_a_link_registers_under_a_name_that_links_have(
    servers: list[LinkedServer], source: StreamSource, wrong: dict[str, str]
) -> None:
    keeper = servers[0].engine.replication.require_keeper()
    met = keeper.children_many(["/pando/linked_clusters"])
    assert code(ask(servers[0], "register", {**TABLE, "link": {**link(), **wrong}})) == 36
    assert source.links == {}
    assert keeper.children_many(["/pando/linked_clusters"]) == met


def test_a_link_of_another_uuid_stays(servers: list[LinkedServer], source: StreamSource) -> None:
    ask(servers[0], "register", {**TABLE, "link": link()})
    ask(servers[0], "unregister", {**TABLE, "name": "north/l", "uuid": "u2"})
    assert list(source.links) == ["north/l"]
    ask(servers[0], "unregister", {**TABLE, "name": "north/l", "uuid": "u1"})
    assert source.links == {}


def test_a_wait_without_end_is_as_long_as_waits_may_be(servers: list[LinkedServer]) -> None:
    news = {"links": [{**TABLE, "mark": ""}], "wait_seconds": 10**400}
    assert ask(servers[0], "news", news).json() == {"news": [0]}


def test_half_a_character_is_refused(servers: list[LinkedServer]) -> None:
    document = b'{"database": "\\ud800", "table": "t"}'
    assert code(ask(servers[0], "describe", document)) == 36


@pytest.mark.parametrize(
    "document",
    [b"", b"[]", b"{", b"\xff", b"[" * 100_000, {"database": 1, "table": "t"}, {"table": "t"}, {}],
)
def test_a_malformed_request_is_refused(servers: list[LinkedServer], document: object) -> None:
    assert code(ask(servers[0], "describe", document)) == 36


def test_an_oversized_request_is_refused(servers: list[LinkedServer]) -> None:
    answer = ask(servers[0], "changes", {**TABLE, "link": "x" * (1 << 20)})
    assert code(answer) == 36
    assert "longer than" in answer.text


def test_other_methods_and_paths_are_refused(servers: list[LinkedServer]) -> None:
    headers = {"X-ClickHouse-User": USER, "X-ClickHouse-Key": PASSWORD}
    assert httpx.get(f"{servers[0].url}/links/hello", headers=headers, trust_env=False).status_code == 405
    answer = ask(servers[0], "nonsense/../x", {})
    assert code(answer) == 36


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ({"database": "default", "table": "missing"}, 60),
        ({"database": "missing", "table": "t"}, 81),
        ({"database": "default", "table": "plain"}, 48),
    ],
)
def test_a_table_that_links_cannot_take_is_refused_by_name(
    servers: list[LinkedServer], table: dict[str, str], expected: int
) -> None:
    answer = ask(servers[0], "describe", table)
    assert code(answer) == expected
    assert table["table" if table["database"] == "default" else "database"] in answer.text


def test_the_tables_of_a_database_are_listed_with_what_links_cannot_take(servers: list[LinkedServer]) -> None:
    found = ask(servers[0], "tables", {"database": "default"}).json()["tables"]
    assert [each["table"] for each in found] == ["plain", "t"]
    assert "is MergeTree" in found[0]["problem"]
    assert (found[1]["problem"], bool(found[1]["create_query"])) == ("", True)


def test_two_clusters_of_one_name_and_one_cluster_of_two_names_are_refused(servers: list[LinkedServer]) -> None:
    assert code(ask(servers[0], "hello", hello("west", NORTH_UUID))) == 36
    own = ask(servers[0], "hello", hello()).json()["uuid"]
    assert code(ask(servers[0], "hello", hello("north", own))) == 36
    assert ask(servers[0], "hello", hello("west", own)).status_code == 200  # a link inside one cluster
    ask(servers[0], "register", {**TABLE, "link": link()})
    other = NORTH_UUID.replace("3", "4")
    answer = ask(servers[1], "hello", hello("north", other))
    assert code(answer) == 36
    assert "two share a name" in answer.text
    assert code(ask(servers[1], "hello", hello("south", NORTH_UUID))) == 36
    assert code(ask(servers[0], "register", {**TABLE, "link": {**link(), "target_cluster": other}})) == 36


def test_a_version_that_is_too_new_is_refused(servers: list[LinkedServer]) -> None:
    answer = ask(servers[0], "hello", hello(versions=[7, 9]))
    assert code(answer) == 48
    assert "update the older side" in answer.text
    assert code(ask(servers[0], "hello", hello(versions=[7]))) == 36


def test_a_link_is_registered_under_its_cluster_alone(servers: list[LinkedServer], source: StreamSource) -> None:
    assert code(ask(servers[0], "register", {**TABLE, "link": link("south/l")})) == 36
    assert ask(servers[0], "register", {**TABLE, "link": link()}).json()["origin"] == str(WEST)
    assert list(source.links) == ["north/l"]
    ask(servers[0], "unregister", {**TABLE, "name": "north/l"})
    assert source.links == {}


def test_changes_wait_for_something_new_only_as_long_as_they_are_let(
    servers: list[LinkedServer], source: StreamSource
) -> None:
    source.add(make_change(5, make_block(1)))
    request = {
        **TABLE, "link": "north/l", "uuid": "u1", "vector": {"version": 1, "origins": {}},
        "trim": 0, "max_rows": 10, "max_bytes": 10, "wait_seconds": 5,
    }  # fmt: skip
    answer = ask(servers[0], "changes", request).json()
    assert (len(answer["changes"]), answer["cuts"], answer["frontier"]) == (1, [5], 5)
    vector = {"version": 1, "origins": {str(WEST): {"applied": 5}}}
    answer = ask(servers[0], "changes", {**request, "vector": vector, "wait_seconds": 0.01}).json()
    assert answer["changes"] == []


def test_long_answers_are_compressed_for_whoever_reads_that(servers: list[LinkedServer], source: StreamSource) -> None:
    """An old target says nothing, and an old source ignores what it is told."""
    ask(servers[0], "register", {**TABLE, "link": link()})
    for number in range(200):
        source.add(make_change(10 + number, make_block(number)))
    request = {
        **TABLE, "link": "north/l", "uuid": "u1", "vector": {"version": 1, "origins": {}},
        "trim": 0, "max_rows": 10**6, "max_bytes": 10**9,
    }  # fmt: skip
    plain = ask(servers[0], "changes", request)
    packed = ask(servers[0], "changes", {**request, "accept": ["zstd"]})
    assert ask(servers[0], "changes", {**request, "accept": "lz4"}).json()["changes"] == plain.json()["changes"]
    assert len(plain.json()["changes"]) == 200
    assert 4 * len(packed.content) < len(plain.content)
    assert json.loads(decompress_answer(packed.content, 10**7))["changes"] == plain.json()["changes"]
    assert ask(servers[0], "hello", {**hello(), "accept": ["zstd"]}).json()["cluster"] == "west"


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (zstandard.compress(bytes(10**6)), "more than 10000 bytes"),
        (zstandard.compress(bytes(10**6))[:-9], "more than 10000 bytes"),
        (zstandard.compress(b"{}")[:4] + b"\xff" * 20, "cannot be decompressed"),
    ],
)
def test_an_answer_that_swells_or_is_broken_is_refused(answer: bytes, message: str) -> None:
    with pytest.raises(UserError, match=message):
        decompress_answer(answer, 10_000)


def test_a_block_comes_from_the_server_that_has_it(servers: list[LinkedServer], source: StreamSource) -> None:
    with servers[0].client() as client:
        client.execute("INSERT INTO t VALUES (1, 'a')")
    part = servers[0].table().active_parts()[0].name
    source.open_files = servers[0].table().served_parts.pin_part  # type: ignore[attr-defined]
    elsewhere = StreamSource(WEST, holders=["http://127.0.0.1:9", servers[0].url])
    replace_ends(servers[1].table(), elsewhere, KeptTarget(WEST))
    request = {**TABLE, "position": str(Position(WEST, 7)), "part": str(part)}
    here, there = ask(servers[0], "block", request), ask(servers[1], "block", request)
    assert here.status_code == there.status_code == 200
    assert here.content == there.content
    assert source.opened == [part, part]
    missing = ask(servers[1], "block", {**request, "part": str(PartName("all", 77, 77, 0)), "is_forwarded": True})
    assert code(missing) == 232


def test_a_server_that_asks_on_is_asked_no_further(servers: list[LinkedServer], source: StreamSource) -> None:
    for server in servers:
        other = StreamSource(WEST, holders=[each.url for each in servers if each is not server])
        replace_ends(server.table(), other, KeptTarget(WEST))
    request = {**TABLE, "position": str(Position(WEST, 7)), "part": "all_1_1_0"}
    answer = ask(servers[0], "block", request)
    assert code(answer) == 232


@pytest.mark.parametrize("part", ["../../etc", "all_1_1_0/..", "", 7])
def test_a_part_is_named_as_parts_are(servers: list[LinkedServer], part: object) -> None:
    assert code(ask(servers[0], "block", {**TABLE, "position": str(Position(WEST, 7)), "part": part})) == 36


def test_a_request_is_one_line_of_the_log(servers: list[LinkedServer], caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        ask(servers[0], "x%0a2026-01-01T00:00:00.000Z <information> engine: forged", {})
    lines = [record.getMessage() for record in caplog.records if "forged" in record.getMessage()]
    assert lines
    assert not any("\n" in line for line in lines)


@pytest.mark.parametrize(("user", "password"), [(USER, "wrong"), (USER, ""), ("nobody", PASSWORD), ("default", "")])
@pytest.mark.parametrize("name", ["hello", "changes", "block", "register", "nonsense"])
def test_a_stranger_learns_nothing(  # the last test: failed log-ins make their users wait
    servers: list[LinkedServer], user: str, password: str, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        answer = ask(servers[0], name, TABLE, user, password)
    assert code(answer) == 516
    for secret in (PASSWORD, "wrong"):
        assert secret not in answer.text
        assert secret not in caplog.text
