"""Random work on the source of a transactional group, faults everywhere, and readers at its target."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from coordination.keeper.interface import Create, Op, SetData
from coordination.links.groups.link_group import LinkGroup, group_path
from engine.simulator.links.groups.cut_history import Read, find_contradiction
from engine.simulator.links.groups.grouped_tables import (
    GROUP,
    create_tables,
    read_group,
    render_group,
    render_insert,
    render_link,
)
from engine.simulator.links.groups.reign import PARTITIONS, Reign
from engine.simulator.links.groups.source_record import SentRows, SourceRecord
from engine.simulator.links.groups.world_faults import FaultRates, WorldFaults
from engine.simulator.links.linked_cluster import LinkedCluster
from engine.simulator.links.linked_world import LinkedWorld
from engine.simulator.simulated_node import SimulatedNode
from engine.simulator.simulated_servers import SimulatedServer
from engine.simulator.step_pool import Crash
from engine.tables.capabilities.link_status import LinkProgress, UpstreamStatus
from parts.common.errors import CancelledError, PandoError, UnknownOutcomeError

_WEIGHTS = {
    "insert": 8,
    "transaction": 2,
    "drop": 0.8,
    "delete": 2,
    "optimize": 1,
    "look": 8,
    "step": 8,
    "work": 20,
    "crash": 0.3,
    "restart": 1.5,
    "pause": 0.4,
    "resume": 0.8,
    "end_sessions": 0.6,
    "network": 0.8,
    "link": 0.3,
}
_AWAY_WEIGHTS = {**_WEIGHTS, "crash": 0.8, "restart": 0.5, "end_sessions": 2}
"""Servers are away for longer: with a short log they are lost, and cloned."""
_BRIEF = {"receive_timeout": 1}
"""Nobody waits long for other replicas: it costs time, and changes nothing."""
_ATTEMPTS = 60
_MUTATIONS = 3
"""The most that are under way at a time."""
_SQL_SHARE = 0.2
"""Of the reads, how many are SELECTs."""


class GroupedWork:
    """The work on two clusters: the first is the source, the second the target."""

    def __init__(
        self,
        world: LinkedWorld,
        tables: tuple[str, ...],
        counts: Counter[str],
        rates: FaultRates,
        target_settings: Mapping[str, object],
    ) -> None:
        """``target_settings`` are of the tables of the target."""
        self.world = world
        self._target_settings = target_settings
        self.tables = tables
        self.counts = counts
        self.random = world.random
        self.source, self.target = world.clusters.values()
        self.faults = WorldFaults(world, rates, counts, self._beside)
        self._keys = itertools.count(1)
        self._drops = 0
        """How many drops were begun."""
        self._stopped: list[str] = []
        """What links said that stopped."""
        self._last_reads: dict[tuple[Reign, str], Read] = {}

    def _count(self, what: str) -> None:
        self.counts[what] += 1

    # -- running ------------------------------------------------------------------------------------------------------

    def run(self, rounds: int, steps: int) -> None:
        """Makes the group, then runs rounds of random actions, each followed by healing and checks."""
        self.begin()
        for _ in range(rounds):
            self.faults.begin()
            for _ in range(steps):
                self._act()
                self._check_statuses()
            self.heal()
            self.check()

    def begin(self) -> None:
        """Makes the tables, their links and the group, and waits until its first cut is shown."""
        self.world.calm()
        for cluster in self.world.clusters.values():
            create_tables(cluster, self.tables)
        for server, table in itertools.product(self.target.servers, self.tables):
            for name, value in self._target_settings.items():
                server.sql(f"ALTER TABLE {table} MODIFY SETTING {name} = {value}")
        ensembles = {name: cluster.ensemble for name, cluster in self.world.clusters.items()}
        self.record = SourceRecord(ensembles, self.tables, self._count)
        self._watch_target()
        for table in self.tables:
            self._insist(render_link(table, self.source.name))
        self._insist(render_group(self.tables))
        self.world.settle(self._is_shown, self._explain)

    def _watch_target(self) -> None:
        """Takes note of lost replicas, and of links that stop, which need a person: here none has a reason to."""
        ensemble = self.target.ensemble
        run = ensemble.run

        def watched(session: int, ops: Sequence[Op]) -> list[Any]:
            results = run(session, ops)
            for op in ops:
                if isinstance(op, Create | SetData) and op.path.endswith("/status") and "/links/in/" in op.path:
                    progress = LinkProgress.parse(op.data)
                    self._count(f"a link was {progress.upstream_status.value}")
                    if progress.upstream_status is UpstreamStatus.STOPPED:
                        self._stopped.append(progress.message)
                elif isinstance(op, SetData) and op.path.endswith("/is_lost") and op.data == b"1":
                    self._count("a replica was lost")
            return results

        ensemble.run = watched  # type: ignore[method-assign]

    def _check_statuses(self) -> None:
        assert not self._stopped, f"a link stopped: {self._stopped[0]}"

    def _idle(self, cluster: LinkedCluster | None = None) -> SimulatedServer | None:
        nodes = list(cluster or self.world)
        free = [node for node in nodes if node.is_up and not node.is_frozen and node not in self.world.timeline.stack]
        return cast(SimulatedServer, self.random.choice(free)) if free else None

    def _guarded(self, what: str, action: Callable[[], object]) -> str:
        """Runs what a client asks for; returns ``ok``, ``failed`` or ``unknown``."""
        try:
            action()
            answer = "ok"
        except (Crash, UnknownOutcomeError, CancelledError):
            answer = "unknown"
        except (PandoError, OSError) as error:
            answer = "failed"
            self._count(f"error {getattr(error, 'code', error)} of {what}")
        self._count(f"{what} {answer}")
        return answer

    def _insist(self, statement: str) -> None:
        problem: Exception | None = None
        for _ in range(_ATTEMPTS):
            try:
                self.target.servers[0].sql(statement)
                return
            except PandoError as error:
                problem = error
            self.world.timeline.now += 1.0
            self.world.step_others()
        raise AssertionError(f"{statement} fails again and again: {problem}")

    # -- actions ------------------------------------------------------------------------------------------------------

    def _act(self) -> None:
        self.world.timeline.now += self.random.random()
        self.faults.reconnect()
        weights = _AWAY_WEIGHTS if self._target_settings else _WEIGHTS
        (name,) = self.random.choices(list(weights), list(weights.values()))
        getattr(self, f"_do_{name}")()

    def _beside(self, node: SimulatedNode) -> None:
        """What happens while a server is in the middle of something: mostly somebody reads, also on this server."""
        if node.cluster is self.target and node.is_up and self.random.random() < 0.5:
            self._guarded("look", lambda: self.look(cast(SimulatedServer, node), is_by_sql=False))
        else:
            self.random.choice([self._do_look, self._do_insert, self._do_step])()

    def _do_step(self) -> None:
        self.faults.step_somebody()

    def _do_work(self) -> None:
        """A server does all that is due, mostly one of the target."""
        if (server := self._idle(self.random.choice([self.target, self.target, None]))) is not None:
            server.step_due()

    def _do_insert(self) -> None:
        keys = tuple(next(self._keys) for _ in range(self.random.randint(1, 3)))
        if self.random.random() < 0.7:
            keys = keys[:1]  # of one partition: all of it is stored or nothing
        sent = SentRows(self.random.choice(self.tables), keys)
        drops = self._drops
        answer = self.send(sent)
        there = [self.record.has(sent.table, key) for key in keys]
        if answer == "ok":
            assert all(there), f"{sent} was acknowledged, and the source lacks rows of it"
        elif answer == "failed" and len(keys) == 1:
            assert not any(there), f"{sent} was refused, and the source has it"
            self._count("a refused INSERT is nowhere")
        elif answer == "unknown" and self._drops == drops:  # a drop frees its block id
            self.send(sent)

    def send(self, sent: SentRows) -> str:
        """Inserts rows at some server of the source that is free; returns ``none`` if there is none."""
        server = self._idle(self.source)
        if server is None:
            return "none"
        self.record.sending.append(sent)
        text = f"INSERT INTO {sent.table} (p, k, v) SETTINGS insert_deduplication_token = 'token {sent.keys[0]}' "
        try:
            return self._guarded("insert", lambda: server.sql(text + render_insert(sent.table, sent.keys, PARTITIONS)))
        finally:
            self.record.sending.remove(sent)

    def _do_transaction(self) -> None:
        """Two INSERTs and their COMMIT, which brings all rows in one commit."""
        server = self._idle(self.source)
        if server is None:
            return
        table, name = self.random.choice(self.tables), f"transaction {next(self._keys)}"
        keys = tuple(next(self._keys) for _ in range(4))
        for some in (keys[:2], keys[2:]):
            text = f"INSERT INTO {table} (p, k, v) SETTINGS insert_transaction = '{name}' "
            staged = self._guarded("stage", lambda: server.sql(text + render_insert(table, some, PARTITIONS)))  # noqa: B023
            if staged != "ok":
                return
        sent = SentRows(table, keys)
        self.record.sending.append(sent)
        try:
            overwrite = self.random.choice(["", "", "OVERWRITE PARTITIONS"])
            self._drops += bool(overwrite)
            self._guarded("commit", lambda: server.sql(f"COMMIT TRANSACTION '{name}' ON {table} {overwrite}", **_BRIEF))
        finally:
            self.record.sending.remove(sent)

    def _do_drop(self) -> None:
        if (server := self._idle(self.source)) is not None:
            table, self._drops = self.random.choice(self.tables), self._drops + 1
            partition = f"ALTER TABLE {table} DROP PARTITION {self.random.randrange(PARTITIONS)}"
            text = self.random.choice([partition, partition, f"TRUNCATE TABLE {table}"])
            self._guarded("drop", lambda: server.sql(text, **_BRIEF))

    def _do_delete(self) -> None:
        """A mutation deletes some rows, mostly those that are there."""
        server = self._idle(self.source)
        if server is None or sum(not each.is_done for t in server.tables for each in t.mutations.shown()) >= _MUTATIONS:
            return
        table = self.random.choice(self.tables)
        keys = [key for name, key in sorted(self.record.reigns[-1].numbers) if name == table]
        if keys:
            some = ", ".join(map(str, sorted(self.random.sample(keys, self.random.randint(1, min(3, len(keys)))))))
            self._guarded(
                "delete", lambda: server.sql(f"ALTER TABLE {table} DELETE WHERE k IN ({some})", mutations_sync=0)
            )

    def _do_optimize(self) -> None:
        if (server := self._idle()) is not None:
            text = f"OPTIMIZE TABLE {self.random.choice(self.tables)} {self.random.choice(['FINAL', 'PARTITION 1'])}"
            self._guarded("optimize", lambda: server.sql(text, **_BRIEF))

    def _do_look(self) -> None:
        if (server := self._idle(self.target)) is not None:
            is_by_sql = self.random.random() < _SQL_SHARE
            self._guarded("look", lambda: self.look(server, is_by_sql=is_by_sql))

    def look(self, server: SimulatedServer, *, is_by_sql: bool = True) -> Read:
        """Reads all tables at once on a server of the target, and checks what it shows."""
        uuid, read = read_group(server, self.tables, is_by_sql=is_by_sql)
        reign, place = self.record.resolve(uuid, read.place or 0)
        read = Read(read.reader, read.rows, place)
        former = self._last_reads.get((reign, read.reader))
        wrong = find_contradiction(reign.commits, [former, read] if former is not None else [read])
        assert not wrong, wrong
        self._last_reads[reign, read.reader] = read
        self._count("a cut was read")
        return read

    # -- faults -------------------------------------------------------------------------------------------------------

    def _do_crash(self) -> None:
        if (server := self._idle()) is not None:
            self._count(server.crash())

    def _do_restart(self) -> None:
        down = [node for node in self.world if not node.is_up and node not in self.world.timeline.stack]
        if down:
            self._guarded("start", self.random.choice(down).start)

    def _do_pause(self) -> None:
        if (server := self._idle()) is not None:
            server.is_frozen = True

    def _do_resume(self) -> None:
        for node in self.world:
            node.is_frozen = False

    def _do_end_sessions(self) -> None:
        for cluster in self.world.clusters.values():
            cluster.end_zombies()

    def _do_network(self) -> None:
        one, other = (cluster.name for cluster in (self.source, self.target))
        what = self.random.choice(["cut", "one way", "loss", "mend", "mend", "mend", "replicas"])
        if what == "mend":
            self.world.network.mend()
            self.target.cuts.clear()
        elif what == "loss":
            self.world.network.loss_rate = self.random.choice([0.02, 0.2])
        elif what == "replicas":
            self.target.cuts.add(frozenset(self.random.sample(sorted(self.target.nodes), 2)))
        else:
            self.world.network.cut(one, other, is_one_way=what == "one way")

    def _do_link(self) -> None:
        if (server := self._idle(self.target)) is not None:
            verb, table = self.random.choice(["DISABLE", "ENABLE", "ENABLE"]), self.random.choice(self.tables)
            self._guarded(f"link {verb}", lambda: server.sql(f"ALTER REPLICATION LINK {table} {verb}"))

    # -- healing and checks -------------------------------------------------------------------------------------------

    def heal(self) -> None:
        """Ends all faults, and waits until the target shows everything."""
        self.world.calm()
        for table in self.tables:
            self._insist(f"ALTER REPLICATION LINK {table} ENABLE")
        self.world.settle(self._shows_all, self._explain)

    def _is_shown(self) -> bool:
        return all(place > 0 for place in self._shown_places())

    def _shows_all(self) -> bool:
        newest = self.record.reigns[-1].commits[-1].place
        return all(place >= newest for place in self._shown_places())

    def _shown_places(self) -> list[int]:
        found = [server.engine.services.shown_groups.find(GROUP) for server in self.target.servers]
        return [group.shown_place if group is not None else 0 for group in found]

    def check(self) -> None:
        """Checks that replicas agree, and that the target shows what the source has."""
        self._check_statuses()
        for cluster in self.world.clusters.values():
            cluster.check_equal()
        final = sorted(self.record.reigns[-1].numbers)
        for server in self.target.servers:
            read = self.look(server)
            shown = sorted((table, key) for table, keys in read.rows.items() for key in keys)
            assert shown == final, f"{read.reader} shows {shown} in the end, and the source has {final}"
        self._count("a round was checked")

    def _explain(self) -> str:
        node = self.target.ensemble.tree.get(group_path(GROUP))
        group = LinkGroup.parse(GROUP, node.data) if node is not None else None
        shown = []
        for server in self.target.servers:
            found = server.engine.services.shown_groups.find(GROUP)
            shown.append((server.name, found.shown_place, found.explain()) if found is not None else server.name)
        links = self.target.servers[0].sql("SELECT name, upstream_status, message FROM system.replication_links")[1]
        return f"{group}; {shown}; {links}; newest {self.record.reigns[-1].commits[-1]}"
