"""SYSTEM FORGET LINK ORIGIN asks the tables that links join, however far, before it gives an origin up."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from coordination.links.origin_survey import Objection, OriginHolder, OriginSurvey, SurveyRequest, find_objections
from coordination.links.positions import Epoch, Origin, Position
from coordination.links.version_vector import VersionVector
from engine.http_client.transport import make_http_transport
from engine.links.exchange import cluster_client
from engine.links.exchange.survey_messages import (
    decode_survey,
    decode_survey_request,
    encode_survey,
    encode_survey_request,
)
from engine.links.origin_survey import OriginSurveys
from parts.common.errors import PandoError, UserError
from parts.common.query_status import QueryStatus
from tests.links.linked_servers import LinkedServer, create_table, linked_servers

GONE = Origin("6b1f0c2e-5f5d-4b57-9d0c-0f6f6f1f9a10", 17, Epoch(1, 7))
FORGET = f"SYSTEM FORGET LINK ORIGIN '{GONE}' ON t"


class Chain:
    """``east`` and ``north`` bring theirs to each other, and ``north`` to ``south``. All have changes of one origin."""

    def __init__(self, found: dict[str, list[LinkedServer]]) -> None:
        self.servers = {name: servers[0] for name, servers in found.items()}
        for server in self.servers.values():
            create_table([server])
        self.sql(
            "north", "CREATE REPLICATION LINK n ON t FROM CLUSTER east SETTINGS start_position = 'now', two_way = 1"
        )
        self.sql(
            "south", "CREATE REPLICATION LINK s ON t FROM CLUSTER north SETTINGS start_position = 'now', two_way = 1"
        )
        self.sql(
            "east", "CREATE REPLICATION LINK e ON t FROM CLUSTER north SETTINGS start_position = 'now', two_way = 1"
        )
        for name in self.servers:
            self.set_applied(name, 9)

    def sql(self, name: str, text: str) -> str:
        with self.servers[name].client() as client:
            return client.execute(text).text

    def fails(self, name: str, text: str) -> str:
        with pytest.raises(PandoError) as told:
            self.sql(name, text)
        return str(told.value)

    def set_applied(self, name: str, zxid: int) -> None:
        """Gives a cluster the origin's changes up to a zxid."""
        replica = self.servers[name].table().replication
        assert replica is not None
        keeper, path = replica.require_keeper(), replica.paths.linked.vector
        keeper.create_parents(path)
        vector = VersionVector.parse(keeper.get(path)[0])
        others = VersionVector({origin: entry for origin, entry in vector.entries.items() if origin != GONE})
        keeper.set(path, others.advance(Position(GONE, zxid)).to_bytes())

    def is_forgotten(self, name: str) -> bool:
        sql = f"SELECT is_forgotten FROM system.link_positions WHERE table = 't' AND origin = '{GONE}'"
        return self.sql(name, sql) == "1\n"


@pytest.fixture
def chain(tmp_path: Path) -> Iterator[Chain]:
    with linked_servers(tmp_path, east=1, north=1, south=1) as found:
        yield Chain(found)


def test_an_origin_is_forgotten_when_all_have_the_same_of_it(chain: Chain) -> None:
    """Every cluster asks its own neighbours, in both directions, and no table is asked twice."""
    surveys = OriginSurveys(chain.servers["east"].engine)
    found = surveys.survey(chain.servers["east"].table(), GONE, QueryStatus())
    assert [(holder.cluster, holder.applied) for holder in found.holders] == [("east", 9), ("north", 9), ("south", 9)]
    assert not found.silent
    chain.set_applied("south", 10)
    chain.set_applied("north", 8)
    told = chain.fails("east", FORGET)
    assert "table default.t of cluster south: it has changes up to 10, this table up to 9" in told
    assert "table default.t of cluster north: it has changes up to 8, this table up to 9" in told
    assert not chain.is_forgotten("east")
    for name in ("south", "north"):
        chain.set_applied(name, 9)
    for name in ("east", "north", "south"):
        assert chain.sql(name, FORGET) == ""
        assert chain.is_forgotten(name)
    assert chain.sql("east", FORGET) == ""


@pytest.mark.long
def test_a_cluster_that_does_not_answer_is_named_and_force_goes_on(
    chain: Chain, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in chain.servers:
        servers = chain.servers[name].engine.linked_clusters
        servers._clusters = {key: value for key, value in servers._clusters.items() if key != "south"}
        chain.servers[name].links._clients.clear()
    told = chain.fails("east", FORGET)
    assert "cluster south: north gets no answer" in told
    assert not chain.is_forgotten("east")
    told = chain.sql("east", f"{FORGET} FORCE")
    assert {line.split("\t")[0] for line in told.splitlines()} == {"south"}
    assert chain.is_forgotten("east")
    # a cluster whose servers are older does not know the question
    monkeypatch.setattr(cluster_client, "VERSION", 1)
    monkeypatch.setattr("engine.links.exchange.protocol.VERSION", 1)
    chain.servers["north"].links._clients.clear()
    assert "does not know /links/origin" in chain.fails("north", FORGET)


@pytest.mark.long
def test_users_that_only_read_may_ask_and_strangers_may_not(chain: Chain) -> None:
    """As of ``system.link_positions``, which shows the same."""
    body = json.dumps(encode_survey_request(SurveyRequest(GONE, "default", "t"))).encode()
    url, answers = chain.servers["east"].url, []
    for user in (("reader", "quiet"), ("reader", "wrong"), ("nobody", "")):
        transport = make_http_transport(*user, False)
        try:
            with transport.post(url, "/links/origin", body, read_seconds=10) as answer:
                answers.append(json.loads(b"".join(answer))["holders"][0]["applied"])
        except PandoError as error:
            answers.append(error.code)
        transport.close()
    assert answers == [9, 516, 516]


def test_who_objects() -> None:
    own = OriginHolder("east", "u", 1, "db.t", 9)
    silent = Objection("south", "", "north gets no answer")
    others = [
        OriginHolder("north", "v", 1, "db.t", 9),
        OriginHolder("north", "v", 2, "db.u", None),
        OriginHolder("west", "w", 1, "db.t", 9, is_own=True),
    ]
    survey = OriginSurvey([own, *others], [silent])
    assert list(map(str, find_objections(survey))) == [
        "table db.u of cluster north: it has no changes of it, this table up to 9",
        "table db.t of cluster west: it is the origin, and it answers",
        "cluster south: north gets no answer",
    ]
    assert decode_survey(encode_survey(survey)) == survey
    survey.add(OriginSurvey([own], [silent]))
    assert len(survey.holders) == 4


def test_the_question_is_read_back() -> None:
    for request in (
        SurveyRequest(GONE, "db", "t", seconds=3.0, most_links=4, seen=frozenset({("u", 1), ("v", 2)})),
        SurveyRequest(GONE, link="l", uuid="1-2"),
    ):
        assert decode_survey_request(encode_survey_request(request)) == request
    good = encode_survey_request(SurveyRequest(GONE, "db", "t"))
    for wrong in ({"origin": "x"}, {"seen": [["u"]]}, {"seen": 3}, {"most_links": 10**6}, {"seconds": "long"}):
        with pytest.raises(UserError):
            decode_survey_request({**good, **wrong})
