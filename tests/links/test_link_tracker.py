"""The tracker at work: a source's tables in ZooKeeper, targets that ask or are silent, and the modes that follow."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from coordination.links.sync import sync_states
from coordination.links.sync.mode_changes import GateChange, move_gates
from coordination.links.tracker.tracker_nodes import LEADER_PATH, TABLES_PATH, read_decisions
from coordination.nodes.gate import Gate
from coordination.nodes.gate_link import LinkMode, SyncState
from coordination.nodes.paths import TablePaths
from engine.interserver.replication import Replication
from engine.links.sync.link_modes import ModeRequest, request_modes
from engine.links.tracker.link_tracker import LinkTracker
from engine.remote.linked_clusters import LinkedClusters
from engine.server.config import Config
from engine.simulator.simulated_servers import SimulatedServer
from engine.tables.capabilities.table_links import OutgoingLink
from engine.tables.replicated.links.source.link_source import ReplicaLinkSource
from engine.tables.replicated.replicated_table import ReplicatedTable
from engine.tables.services import TableServices
from parts.common.errors import PandoError
from tests.links.linked_source import INSERT, Asker, linked_table, name_cluster

DELAY = 5
TARGETS = ("east", "north", "west")
ENABLE = "ALTER TABLE costs MODIFY SETTING enable_replicated_table_tracker = 1"


def make_link(cluster: str, *, is_tracked: bool = True) -> OutgoingLink:
    number = TARGETS.index(cluster) + 3
    uuid = f"{number}{number}222222-0000-4000-8000-000000000000"
    return OutgoingLink(f"{cluster}/l", f"uuid of {cluster}", uuid, cluster, is_tracked=is_tracked)


@dataclass
class TrackingServer:
    """What a tracker needs of a server."""

    services: TableServices
    replication: Replication
    linked_clusters: LinkedClusters
    uuid: str


def make_tracker(server: SimulatedServer, path: Path) -> LinkTracker:
    config = Config.model_validate({"path": path, "tracker_period": 1, "tracker_delay": DELAY, "tracker_max_lag": 4})
    engine = server.engine
    return LinkTracker(TrackingServer(engine.services, engine.replication, LinkedClusters(config), engine.uuid))


class TrackedSource:
    """A source of two replicas with a link to each target. Its modes' states are moved as its servers move them."""

    def __init__(self, asker: Asker, path: Path) -> None:
        self.table = asker.table
        self.askers = {name: Asker(self.table, make_link(name)) for name in TARGETS}
        for each in self.askers.values():
            each.begin()
        self.path = path
        self.trackers = [make_tracker(server, path) for server in self.table.servers.servers]
        self.keys = 0
        self.modes: list[tuple[str, ...]] = []
        self.sql(INSERT.format(1, 0))

    @property
    def keeper(self):
        return self.table.servers.ensemble.connect()

    @property
    def paths(self) -> TablePaths:
        assert self.table.table.replication is not None
        return self.table.table.replication.paths

    def sql(self, text: str) -> list[tuple[object, ...]]:
        return list(self.table.first.sql(text)[1])

    def gate(self) -> Gate:
        return Gate.parse(self.keeper.get(self.paths.gate)[0])

    def sync_links(self, *states: SyncState) -> tuple[str, ...]:
        return tuple(link.peer_name for link in self.gate().sync_links if not states or link.state in states)

    def second(self, *, silent: Collection[str] = (), server: int = 0, carry: bool = True) -> None:
        """A second goes by: targets ask, one server's tracker looks, and states move on."""
        self.table.servers.now += 1
        self.table.settle()
        for name, each in self.askers.items():
            if name not in silent:
                each.take()
                with self.table.first.acting():
                    each.source()._progress._noted.clear()  # so that what is taken is told in the same second
                each.ask()
        with self.table.servers.servers[server].acting():
            self.trackers[server].run_once()
        if carry:
            self.carry(silent)
        self.modes.append(self.sync_links(SyncState.ENABLED))

    def seconds(self, number: int, *, silent: Collection[str] = (), server: int = 0) -> None:
        for _ in range(number):
            self.second(silent=silent, server=server)

    def carry(self, silent: Collection[str] = ()) -> None:
        for link in self.gate().sync_links:
            if link.state is SyncState.ENABLING and link.peer_name not in silent:
                self._move(link.name, sync_states.shut_for_enabling)
                self._move(link.name, sync_states.finish_enabling)
        for link in self.gate().links:
            if link.state is SyncState.DISABLING:
                self._move(link.name, sync_states.finish_disabling)

    def _move(self, name: str, step) -> None:
        def change(gate: Gate) -> Gate:
            link = gate.find_link(name)
            assert link is not None
            return step(gate, link)

        move_gates(self.keeper, [GateChange(self.paths, change)])

    def shown(self, columns: str) -> list[tuple[object, ...]]:
        return self.sql(f"SELECT {columns} FROM system.link_collocations ORDER BY cluster")


@contextmanager
def tracked_source(path: Path) -> Iterator[TrackedSource]:
    with linked_table(path) as asker:
        yield TrackedSource(asker, path)


@pytest.fixture
def source(tmp_path: Path) -> Iterator[TrackedSource]:
    with tracked_source(tmp_path) as found:
        yield found


def test_it_is_off_until_a_table_wants_it(source: TrackedSource) -> None:
    source.seconds(DELAY + 2)
    assert source.sync_links() == ()
    assert source.shown("cluster") == []
    assert source.keeper.exists(LEADER_PATH) is None
    source.sql(ENABLE)
    source.seconds(DELAY)
    assert source.sync_links() == ()
    source.second()
    assert source.sync_links() == ("east",)
    shown = source.shown("tables, cluster, is_chosen, mode, min_sync_replica_count, max_sync_replica_count, reason")
    assert [row[1:6] for row in shown[1:]] == [("north", 0, "async", 1, 1), ("west", 0, "async", 1, 1)]
    source.second()
    first, *others = source.shown("tables, cluster, is_chosen, mode, state, reason")
    assert first == (["default.costs"], "east", 1, "sync", "enabled", "synchronous: healthy for 5 seconds")
    assert {row[-1] for row in others} == {"asynchronous: healthy for 5 seconds; there are enough others"}


def test_a_silent_target_is_replaced_once_and_the_table_is_never_without_one(source: TrackedSource) -> None:
    source.sql(ENABLE)
    source.seconds(DELAY + 2)
    del source.modes[:]
    source.seconds(4, silent=["east"])
    source.seconds(6)
    assert set(source.modes) == {("east",)}
    source.seconds(2 * DELAY + 3, silent=["east"])
    source.seconds(2 * DELAY)
    found = [modes for modes, former in zip(source.modes, [(), *source.modes], strict=False) if modes != former]
    assert found == [("east",), ("east", "north"), ("north",)]


def test_a_preferred_cluster_comes_back_when_it_was_healthy_for_the_delay(source: TrackedSource) -> None:
    source.sql(f"{ENABLE}, preferred_sync_clusters = 'west'")
    source.seconds(DELAY + 2)
    assert source.sync_links() == ("west",)
    source.seconds(2 * DELAY + 4, silent=["west"])
    assert source.sync_links() == ("east",)
    source.seconds(DELAY)
    assert source.sync_links() == ("east",)
    source.seconds(4)
    assert source.sync_links() == ("west",)


def test_a_target_that_is_behind_or_paused_is_not_healthy(source: TrackedSource) -> None:
    source.sql(ENABLE)
    request_modes(source.keeper, [ModeRequest(source.paths, "east/l", None, is_paused=True)])
    north = source.askers["north"]
    for second in range(2 * DELAY + 2):
        vector = north.vector
        insert = INSERT.replace("VALUES", "SETTINGS require_sync_replica = 0 VALUES")
        source.sql(insert.format(1, second + 1))
        source.second(carry=False)  # nobody here stages the INSERTs of a link that is enabled
        north.vector = vector  # it asks, and takes nothing
        note = north.source()._progress
        note._noted.clear()
    assert source.sync_links() in (("north",), ("west",))
    reasons = dict(source.shown("cluster, reason"))
    assert "the target has disabled link east/l" in str(reasons["east"])


def test_a_link_with_enable_tracker_0_is_left_alone(source: TrackedSource) -> None:
    with source.table.first.acting():
        source.askers["east"].source().register(make_link("east", is_tracked=False))
    request_modes(source.keeper, [ModeRequest(source.paths, "east/l", LinkMode.SYNC)])
    source.sql(ENABLE)
    source.seconds(DELAY + 2)
    assert source.sync_links() == ("east", "north")
    assert [row[0] for row in source.shown("cluster")] == ["north", "west"]
    shown = "SELECT name, enable_tracker FROM system.replication_links WHERE direction = 'out' ORDER BY name"
    assert source.sql(shown) == [("east/l", 0), ("north/l", 1), ("west/l", 1)]


def test_the_next_leader_goes_on_from_the_last_decision(source: TrackedSource) -> None:
    source.sql(ENABLE)
    source.seconds(DELAY + 2)
    source.seconds(2 * DELAY + 4, silent=["east"])
    assert source.sync_links() == ("north",)
    source.trackers[0] = make_tracker(source.table.first, source.path)
    source.keeper.delete(LEADER_PATH)
    request_modes(source.keeper, [ModeRequest(source.paths, "north/l", LinkMode.ASYNC)])
    source.seconds(DELAY, server=1)
    assert source.sync_links() == ("north",)  # the mode that a person set is set back
    source.seconds(2 * DELAY, server=1)
    assert source.sync_links() == ("north",)


def test_off_again_it_changes_nothing_and_a_dropped_table_is_forgotten(source: TrackedSource) -> None:
    source.sql(ENABLE)
    source.seconds(DELAY + 2)
    source.sql("ALTER TABLE costs MODIFY SETTING enable_replicated_table_tracker = 0, link_collocation = 'orders'")
    source.seconds(2 * DELAY + 4, silent=["east"])
    assert source.sync_links() == ("east",)
    shown = source.shown("collocation, enable_replicated_table_tracker, message")
    assert shown == [("orders", 0, "The tracker is off for these tables")]
    source.sql("ALTER TABLE costs RESET SETTING link_collocation")
    source.second()
    assert source.shown("cluster") == []
    assert source.keeper.children(TABLES_PATH) == []
    assert read_decisions(source.keeper) == {}


class SecondTable(Asker):
    """A target of the table ``more``."""

    def source(self, number: int = 0) -> ReplicaLinkSource:
        table = self.table.servers.servers[number].engine.catalog.table("default", "more")
        assert isinstance(table, ReplicatedTable)
        return table.links.source


def test_the_tables_of_a_collocation_change_together(source: TrackedSource) -> None:
    """To a cluster that both are linked to, and at one moment."""
    create = "CREATE TABLE more (k UInt8) ENGINE = ReplicatedMergeTree('/tables/more', '{}') ORDER BY k"
    for number, server in enumerate(source.table.servers.servers):
        server.sql(create.format(number))
        name_cluster(server)
    for name in ("north", "west"):
        link = make_link(name)
        source.askers[f"{name} more"] = asker = SecondTable(source.table, replace(link, name=f"{name}/m", uuid=name))
        asker.begin()
    source.sql(f"{ENABLE}, link_collocation = 'c'")
    source.sql(ENABLE.replace("costs", "more") + ", link_collocation = 'c'")
    source.sql("INSERT INTO more VALUES (1)")
    for second in range(DELAY + 1):
        source.second(carry=second < DELAY)
    more = TablePaths("/tables/more")
    stats = [source.keeper.get(paths.gate) for paths in (source.paths, more)]
    assert [[link.name for link in Gate.parse(data).sync_links] for data, _ in stats] == [["north/l"], ["north/m"]]
    assert stats[0][1].modified_zxid == stats[1][1].modified_zxid
    shown = source.shown("collocation, tables, cluster, links")
    tables = ["default.costs", "default.more"]
    assert [(row[0], sorted(row[1]), *row[2:]) for row in shown] == [
        ("c", tables, "north", ["north/l", "north/m"]),
        ("c", tables, "west", ["west/l", "west/m"]),
    ]
    source.seconds(2 * DELAY + 4, silent=["north more"])
    assert Gate.parse(source.keeper.get(more.gate)[0]).find_link("west/m").mode is LinkMode.SYNC
    assert "west" in source.sync_links()


def test_its_settings_are_refused_elsewhere(source: TrackedSource) -> None:
    source.sql("CREATE TABLE plain (k UInt8) ENGINE = MergeTree ORDER BY k")
    for text, code in (
        ("ALTER TABLE plain MODIFY SETTING enable_replicated_table_tracker = 1", 36),
        ("CREATE TABLE m (k UInt8) ENGINE = MergeTree ORDER BY k SETTINGS link_collocation = 'c'", 36),
        ("ALTER TABLE costs MODIFY SETTING min_sync_replica_count = 3, max_sync_replica_count = 2", 36),
        ("ALTER TABLE costs MODIFY SETTING max_sync_replica_count = 'many'", 72),
    ):
        with pytest.raises(PandoError) as caught:
            source.sql(text)
        assert caught.value.code == code, text
    assert "tracker" not in source.gate().others
