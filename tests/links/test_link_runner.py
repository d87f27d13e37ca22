"""A link between real servers of two clusters, with a stream that the test writes and a target that keeps it."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from coordination.links.bootstrap_plan import bootstrap_bar_owner
from coordination.links.link_definition import LinkDefinition
from coordination.links.link_nodes import change_link, create_link, drop_link
from coordination.links.positions import Position
from coordination.links.version_vector import VersionVector
from coordination.nodes.gate import Bar, Gate, KeptOut
from coordination.nodes.gate_link import LinkMode, SyncState
from coordination.nodes.table_gate import move_gate
from engine.links.bootstrap.link_copy import copy_table
from engine.links.link_beginning import begin_at_registration
from engine.tables.capabilities.link_status import LinkProgress, UpstreamStatus
from engine.tables.capabilities.sync_answer import SyncAnswer
from engine.tables.capabilities.table_links import ChangesAnswer, ChangesRequest, UncoveredSchema
from parts.common.errors import PandoError, UnavailableError, UserError
from parts.common.query_status import QueryStatus
from tests.links.changes import EAST, NORTH, WEST, make_block, make_change
from tests.links.link_ends import KeptTarget, StreamSource, replace_ends
from tests.links.linked_servers import LinkedServer, create_table, linked_servers

_SECONDS = 30.0


class Pair:
    """A link ``l`` from table ``t`` of west to table ``t`` of east."""

    def __init__(self, west: list[LinkedServer], east: list[LinkedServer]) -> None:
        self.west, self.east = west, east
        self.source, self.target = StreamSource(WEST, newest=10**5), KeptTarget(EAST)
        for server in west:
            replace_ends(server.table(), self.source, KeptTarget(WEST))
        for server in east:
            replace_ends(server.table(), StreamSource(EAST), self.target)

    def create(self, *, begins: bool = True, **settings: object) -> None:
        settings = {"replication_timeout": 0.2, **settings}
        definition = LinkDefinition("l", str(uuid.uuid4()), "west", "default", "t", "default", "t", settings)
        peer = self.west[0].links._get_own().uuid
        create_link(self.keeper, self.paths, definition, peer)
        for server in self.east:
            server.links.wake()
        if begins:
            self.wait(
                lambda: LinkDefinition.parse(self.keeper.get(self.paths.linked.incoming_link("l"))[0]).is_begun,
                "the beginning",
            )

    @property
    def keeper(self):  # type: ignore[no-untyped-def]
        return self.east[0].engine.replication.require_keeper()

    @property
    def paths(self):  # type: ignore[no-untyped-def]
        replica = self.east[0].table().replication
        assert replica is not None
        return replica.paths

    def progress(self) -> LinkProgress:
        found = [each for server in self.east if (each := server.links.find_progress("l")) is not None]
        return found[0] if found else LinkProgress()

    def wait(self, condition: Callable[[], object], what: str) -> None:
        deadline = time.monotonic() + _SECONDS
        while not condition():
            assert time.monotonic() < deadline, (what, self.progress(), self.target)
            time.sleep(0.01)

    def wait_applied(self, count: int) -> None:
        self.wait(lambda: len(self.target.applied) >= count, f"{count} changes")

    def wait_status(self, status: UpstreamStatus, told: str = "") -> LinkProgress:
        self.wait(
            lambda: (found := self.progress()).upstream_status is status and told in found.message, f"{status} {told}"
        )
        return self.progress()

    def drop(self) -> None:
        drop_link(self.keeper, "l")
        for server in self.east:
            server.links.wake()
        self.wait(lambda: not any(server.links._runners for server in self.east), "the end of the runners")


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, list[LinkedServer]]]:
    with linked_servers(tmp_path_factory.mktemp("servers"), west=2, east=2) as found:
        for servers in found.values():
            create_table(servers)
        yield found


@pytest.fixture
def pair(clusters: dict[str, list[LinkedServer]]) -> Iterator[Pair]:
    pair = Pair(clusters["west"], clusters["east"])
    yield pair
    pair.drop()


def test_what_is_committed_after_the_link_was_made_is_brought_once(pair: Pair) -> None:
    pair.source.add(make_change(5, make_block(1)))
    pair.create(start_position="now")
    for zxid in range(10**6, 10**6 + 5):
        pair.source.add(make_change(zxid, make_block(zxid), previous=zxid - 1 if zxid > 10**6 else 0))
    pair.wait_applied(5)
    assert [change.position.zxid for change in pair.target.applied] == list(range(10**6, 10**6 + 5))
    progress = pair.wait_status(UpstreamStatus.FOLLOW)
    pair.wait(lambda: pair.progress().lag == 0, "no lag")
    assert (progress.rows_applied, progress.errors, progress.leader) == (5, 0, progress.leader)
    assert progress.applied_position == str(Position(WEST, 10**6 + 4))


def test_one_server_leads_and_another_takes_over(pair: Pair) -> None:
    pair.create(start_position="now")
    pair.wait_status(UpstreamStatus.FOLLOW)
    leaders = [server for server in pair.east if server.links._count_running()]
    assert len(leaders) == 1
    ((runner, _),) = leaders[0].links._runners.values()
    pair.keeper.delete(pair.paths.linked.leader("l"))  # as when its session ends; it does not know yet
    other = next(server for server in pair.east if server is not leaders[0])
    pair.wait(other.links._count_running, "the other leader")
    runner._leader.is_leader = False
    pair.source.add(make_change(10**6, make_block(1)))
    pair.wait_applied(1)


@pytest.mark.long
def test_a_server_that_does_not_lead_may_ask_for_lost_parts(pair: Pair) -> None:
    """The leader's replica may have all its parts, and the other one lack some that nobody has."""
    pair.create(start_position="now")
    pair.wait_status(UpstreamStatus.FOLLOW)
    other = next(server for server in pair.east if not server.links._count_running())
    ((runner, _),) = other.links._runners.values()
    runner._target = target = KeptTarget(EAST)
    pair.wait(lambda: target.refetch is not None, "the source of lost parts")
    runner.stop()
    runner.resign()
    assert target.refetch is None


def test_a_link_from_an_empty_table_begins_at_once(pair: Pair) -> None:
    pair.create()
    pair.wait_status(UpstreamStatus.FOLLOW)
    pair.source.add(make_change(10**6, make_block(1)))
    pair.wait_applied(1)


def test_a_link_says_where_it_is_and_acknowledges(pair: Pair) -> None:
    pair.create(start_position="now")
    pair.source.add(make_change(10**6, make_block(1)))
    pair.wait_applied(1)
    pair.wait(lambda: pair.source.requests[-1].trim == 10**6, "the acknowledgement")
    pair.wait(
        lambda: LinkProgress.parse(pair.keeper.get(pair.paths.linked.status("l"))[0]).rows_applied == 1, "the status"
    )


def test_a_position_of_another_origin_stops_the_link(pair: Pair) -> None:
    pair.create(begins=False, start_position=str(Position(NORTH, 5)))
    pair.wait_status(UpstreamStatus.STOPPED, "cannot be compared")


def test_a_link_that_begins_at_the_vector_needs_one(pair: Pair) -> None:
    pair.create(begins=False, start_position="vector")
    pair.wait_status(UpstreamStatus.STOPPED, "it has none")
    pair.target.vector = VersionVector().begin_at(Position(WEST, 4))
    pair.source.add(make_change(5, make_block(1), previous=4))
    pair.wait_applied(1)


def test_a_gap_stops_the_link_and_names_the_hole(pair: Pair) -> None:
    pair.create(start_position="now")
    pair.source.add(make_change(10**6, make_block(1)))
    pair.source.add(make_change(10**6 + 9, make_block(2), previous=10**6 + 5))
    progress = pair.wait_status(UpstreamStatus.STOPPED, "missing changes 1000001 to 1000005")
    assert "SYSTEM BOOTSTRAP REPLICATION LINK l" in progress.message
    assert len(pair.target.applied) == 1


def test_a_table_made_anew_stops_the_link(pair: Pair) -> None:
    pair.create(start_position="now")
    pair.wait_status(UpstreamStatus.FOLLOW)
    pair.source.origin = NORTH
    pair.wait_status(UpstreamStatus.STOPPED, "cluster")
    pair.source.origin = WEST
    pair.wait_status(UpstreamStatus.FOLLOW)


def test_a_source_that_lost_its_past_stops_the_link(pair: Pair) -> None:
    pair.create(start_position="now")
    pair.source.add(make_change(10**6, make_block(1)))
    pair.wait_applied(1)
    pair.source.newest = 5
    pair.wait_status(UpstreamStatus.STOPPED, "lost its past")


def test_a_narrow_schema_pauses_and_the_link_goes_on_by_itself(pair: Pair) -> None:
    pair.target.error = UncoveredSchema("Column v: String does not go into UInt8", 17)
    pair.create(start_position="now")
    pair.source.add(make_change(10**6, make_block(1)))
    progress = pair.wait_status(UpstreamStatus.PAUSED, "17 rows wait")
    assert progress.errors >= 1
    pair.target.error = None
    pair.wait_applied(1)
    assert not pair.wait_status(UpstreamStatus.FOLLOW).message


@pytest.mark.long
def test_a_change_that_fails_five_times_in_a_row_pauses(pair: Pair) -> None:
    pair.target.error = UserError("ILLEGAL_COLUMN", "no such thing")
    pair.create(start_position="now")
    pair.source.add(make_change(10**6, make_block(1)))
    progress = pair.wait_status(UpstreamStatus.PAUSED, "failed 5 times")
    assert "ALTER REPLICATION LINK l DISABLE" in progress.message
    pair.target.error = None
    pair.wait_applied(1)


def test_another_writer_of_the_vector_costs_a_repeat_alone(pair: Pair) -> None:
    pair.target.moves_first = 3
    pair.create(start_position="now")
    pair.source.add(make_change(10**6, make_block(1)))
    pair.wait_applied(1)
    pair.wait_status(UpstreamStatus.FOLLOW)
    assert len(pair.target.applied) == 1


def test_a_disabled_link_rests_and_keeps_its_place(pair: Pair) -> None:
    pair.create(start_position="now")
    pair.wait_status(UpstreamStatus.FOLLOW)
    enable(pair, False)
    pair.wait_status(UpstreamStatus.PAUSED, "ENABLE")
    pair.source.add(make_change(10**6, make_block(1)))
    enable(pair, True)
    pair.wait_applied(1)


def test_an_answer_under_way_does_not_take_a_new_mode_back(pair: Pair) -> None:
    """Whoever is promoted in that moment would make the link an asynchronous one for good."""
    pair.create(start_position="now")
    pair.wait_status(UpstreamStatus.FOLLOW)
    read, versions = pair.source.read_changes, list[int]()
    path = pair.paths.linked.incoming_link("l")

    def knows_mode() -> bool:
        runners = [runner for server in pair.east for runner, _ in server.links._runners.values()]
        return all(runner.definition.settings.get("mode") == "sync" for runner in runners)

    def read_changes(request: ChangesRequest, status: QueryStatus) -> ChangesAnswer:
        answer = read(request, status)
        if versions:
            versions.append(pair.keeper.get(path)[1].version)
            return replace(answer, sync=SyncAnswer(LinkMode.SYNC, SyncState.ENABLED, 6))
        change_link(pair.keeper, "l", lambda link: link.with_settings({"mode": "sync"}))
        for server in pair.east:
            server.links.wake()
        pair.wait(knows_mode, "the runners to know the mode")
        versions.append(pair.keeper.get(path)[1].version)
        return replace(answer, sync=SyncAnswer(LinkMode.ASYNC, SyncState.DISABLED, 5))

    pair.source.read_changes = read_changes  # type: ignore[method-assign]
    pair.wait(lambda: len(versions) > 3, "more answers")
    assert len(set(versions)) == 1, "the mode was set back, and again"


def enable(pair: Pair, is_enabled: bool) -> None:
    change_link(pair.keeper, "l", lambda link: replace(link, is_enabled=is_enabled))


def test_a_source_that_does_not_answer_is_disconnected_and_comes_back(pair: Pair) -> None:
    pair.create(start_position="now")
    pair.wait_status(UpstreamStatus.FOLLOW)
    pair.source.error = UnavailableError("KEEPER_EXCEPTION", "no ZooKeeper")
    progress = pair.wait_status(UpstreamStatus.DISCONNECTED, "no ZooKeeper")
    assert progress.lag > 0 or progress.idle < 1
    pair.source.error = None
    pair.wait_status(UpstreamStatus.FOLLOW)


def test_a_table_that_is_gone_from_the_source_is_told(pair: Pair) -> None:
    pair.create(start_position="now")
    pair.wait_status(UpstreamStatus.FOLLOW)
    pair.source.error = UserError("UNKNOWN_TABLE", "Table default.t does not exist")
    progress = pair.wait_status(UpstreamStatus.STOPPED, "does not exist")
    assert "DROP REPLICATION LINK l" in progress.message
    pair.source.error = None


@pytest.mark.long
def test_a_link_that_was_dropped_at_its_source_says_what_helps(pair: Pair) -> None:
    pair.create(start_position="now")
    pair.wait_status(UpstreamStatus.FOLLOW)
    pair.source.error = UserError("BAD_ARGUMENTS", "Link east/l is not registered at table default.t")
    progress = pair.wait_status(UpstreamStatus.STOPPED, "is not registered")
    assert "SYSTEM BOOTSTRAP REPLICATION LINK l" in progress.message
    assert "DROP REPLICATION LINK l" in progress.message
    pair.source.error = None
    pair.wait_status(UpstreamStatus.FOLLOW)


@pytest.mark.long
def test_an_error_of_a_megabyte_fits_into_the_link_s_node(pair: Pair) -> None:
    """ZooKeeper would cut the connection of the whole server."""
    pair.create(start_position="now")
    pair.wait_status(UpstreamStatus.FOLLOW)
    pair.source.error = UnavailableError("KEEPER_EXCEPTION", "no ZooKeeper " + "x" * 500_000)
    pair.wait_status(UpstreamStatus.DISCONNECTED, "no ZooKeeper")
    node = pair.paths.linked.status("l")
    pair.wait(lambda: LinkProgress.parse(pair.keeper.get(node)[0]).errors, "the node")
    assert len(pair.keeper.get(node)[0]) < 20_000
    pair.source.error = None
    pair.wait_status(UpstreamStatus.FOLLOW)
    assert LinkProgress(message="half \ud800").to_bytes()


@pytest.mark.long
def test_a_source_that_answers_at_once_is_not_asked_all_the_time(pair: Pair) -> None:
    """A source at which too many wait already answers at once."""
    pair.create(start_position="now", replication_timeout=5)
    pair.wait_status(UpstreamStatus.FOLLOW)
    pair.source.is_hasty = True
    pair.source.add(make_change(10**6, make_block(1)))
    pair.wait_applied(1)
    asked, until = len(pair.source.requests), time.monotonic() + 1.0
    pair.wait(lambda: time.monotonic() >= until, "a second")
    assert len(pair.source.requests) - asked < 25


def test_a_copy_waits_for_its_turn_and_ends_when_the_link_is_disabled(pair: Pair) -> None:
    begun, ended = threading.Event(), threading.Event()

    def copy(link: object, table: object, upstream: object, status: QueryStatus, tell: object) -> None:
        begun.set()
        try:
            while True:
                status.check()
                time.sleep(0.01)
        finally:
            ended.set()

    for server in pair.east:
        server.links.bootstrap = copy
        server.links._copies = threading.BoundedSemaphore(1)
        server.links._copies.acquire()
    try:
        pair.create(begins=False)
        change_link(pair.keeper, "l", lambda link: replace(link, wants_copy=True, is_begun=False))
        assert not pair.wait_status(UpstreamStatus.BOOTSTRAP, "this one waits").errors
        for server in pair.east:
            server.links._copies.release()
        assert begun.wait(_SECONDS)
        enable(pair, False)
        assert ended.wait(_SECONDS)
        pair.wait_status(UpstreamStatus.PAUSED, "ENABLE")
        begun.clear()
        enable(pair, True)
        assert begun.wait(_SECONDS)
    finally:
        for server in pair.east:
            server.links.bootstrap = copy_table


@pytest.mark.parametrize("user", ["linker", "nobody"])
def test_a_wrong_password_is_told_without_it(
    clusters: dict[str, list[LinkedServer]], user: str, tmp_path: Path
) -> None:
    east = clusters["east"][0]
    former = east.engine.linked_clusters._clusters
    config = former["west"].model_copy(update={"user": user, "password": "hunter2"})
    east.engine.linked_clusters._clusters = {**former, "west": config}
    try:
        with pytest.raises(PandoError) as raised:
            east.links.connect("west").describe("default", "t")
        assert raised.value.code == 516
        assert "hunter2" not in str(raised.value)
    finally:
        east.engine.linked_clusters._clusters = former


def test_a_server_under_another_cluster_name_is_refused(clusters: dict[str, list[LinkedServer]]) -> None:
    east = clusters["east"][0]
    former = east.engine.linked_clusters._clusters
    east.engine.linked_clusters._clusters = {**former, "south": former["west"]}
    try:
        with pytest.raises(UserError, match="belongs to cluster 'west'"):
            east.links.connect("south").describe("default", "t")
        with pytest.raises(UserError, match="not among linked_clusters"):
            east.links.connect("nowhere")
    finally:
        east.engine.linked_clusters._clusters = former


def test_a_server_that_is_down_is_passed_over(clusters: dict[str, list[LinkedServer]]) -> None:
    east, west = clusters["east"][1], clusters["west"]
    former = east.engine.linked_clusters._clusters
    config = former["west"].model_copy(update={"urls": ["http://127.0.0.1:9", west[1].url]})
    east.engine.linked_clusters._clusters = {**former, "west": config}
    try:
        assert east.links.connect("west").get_identity().name == "west"
        assert east.links.connect("west")._ring.order()[0] != "http://127.0.0.1:9"
    finally:
        east.engine.linked_clusters._clusters = former


def test_two_servers_that_begin_a_link_give_it_one_place(pair: Pair) -> None:
    """Its statement and the leader begin a link at the same time, and the source goes on in between."""
    pair.create(start_position="now")
    path = pair.paths.linked.incoming_link("l")
    begun = LinkDefinition.parse(pair.keeper.get(path)[0])
    late = replace(begun, is_begun=False, source_origin="", beginning="")
    pair.source.add(make_change(10**6, make_block(1)))
    later = replace(pair.source.describe(), newest=10**6)
    again = begin_at_registration(pair.east[0].table(), late, later)
    assert again == begun
    pair.wait_applied(1)


@pytest.mark.long
def test_a_leader_that_keeps_failing_lets_another_server_try(pair: Pair) -> None:
    pair.create(start_position="now")
    pair.wait_status(UpstreamStatus.FOLLOW)
    leader = next(server for server in pair.east if server.links._count_running())
    broken = KeptTarget(EAST, pair.target.vector, error=UnavailableError("TABLE_IS_READ_ONLY", "a broken disk"))
    ((runner, _),) = leader.links._runners.values()
    runner._target = broken
    pair.source.add(make_change(10**6, make_block(1)))
    pair.wait_applied(1)
    assert not leader.links._count_running()


def test_a_table_that_was_left_closed_opens_though_its_link_is_disabled(pair: Pair) -> None:
    """A server died during SYSTEM BOOTSTRAP, and the link was disabled then."""
    pair.create(start_position="now")
    enable(pair, is_enabled=False)
    pair.wait_status(UpstreamStatus.PAUSED)
    link = LinkDefinition.parse(pair.keeper.get(pair.paths.linked.incoming_link("l"))[0])
    bar = Bar(bootstrap_bar_owner(link.uuid), KeptOut.ALL)
    move_gate(pair.keeper, pair.paths, lambda gate: gate.with_bar(bar))
    change_link(pair.keeper, "l", lambda link: replace(link, wants_copy=True))
    pair.wait(lambda: not Gate.parse(pair.keeper.get(pair.paths.gate)[0]).bars, "the open table")


def test_answers_name_more_servers(clusters: dict[str, list[LinkedServer]]) -> None:
    """Only one server is configured; when it fails, the ones that it named are asked."""
    east, west = clusters["east"][1], clusters["west"]
    former = east.engine.linked_clusters._clusters
    config = former["west"].model_copy(update={"urls": [west[1].url]})
    east.engine.linked_clusters._clusters = {**former, "west": config}
    try:
        cluster = east.links.connect("west")
        cluster.describe("default", "t")
        assert {west[0].url, west[1].url} <= set(cluster._ring.order())
    finally:
        east.engine.linked_clusters._clusters = former


class SilentSource(StreamSource):
    """A source that answers nothing about changes before ``is_over``."""

    is_over = threading.Event()

    def read_changes(self, request: ChangesRequest, status: QueryStatus) -> ChangesAnswer:
        self.requests.append(request)
        self.is_over.wait(_SECONDS)
        return super().read_changes(request, status)


@pytest.mark.long
def test_a_silent_server_is_given_up_for_another(pair: Pair) -> None:
    pair.create(start_position="now")
    pair.wait_status(UpstreamStatus.FOLLOW)
    leader = next(server for server in pair.east if server.links._count_running())
    silent = SilentSource(WEST, newest=10**5)
    asked = leader.links.connect("west")._ring.order()[0]
    replace_ends(next(server for server in pair.west if server.url == asked).table(), silent, KeptTarget(WEST))
    try:
        pair.wait(lambda: silent.requests, "a request to the silent server")
        pair.source.add(make_change(10**6, make_block(1)))
        pair.wait_applied(1)
        pair.wait_status(UpstreamStatus.FOLLOW)
    finally:
        silent.is_over.set()
