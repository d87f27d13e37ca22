"""Random switches of a transactional group; every read of all its tables is checked too."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import cast

from engine.simulator.links.groups.cut_history import Read, find_contradiction, find_wrong_report
from engine.simulator.links.groups.grouped_tables import create_tables, read_group, render_insert
from engine.simulator.links.groups.reign import PARTITIONS, Reign
from engine.simulator.links.groups.source_record import SentRows, SourceRecord
from engine.simulator.links.linked_cluster import LinkedCluster
from engine.simulator.links.switched_tables import GROUP, SwitchedTables
from engine.simulator.links.switched_work import SwitchedWork
from engine.simulator.simulated_servers import SimulatedServer

_WEIGHTS = {"look": 6, "work": 14, "step": 6, "delete": 1.5}
"""Beside those of switches."""
_SYNC_WEIGHTS = {"revive": 3, "work": 20, "delete": 1}
"""INSERTs wait for every server of a target, so those that are down come back soon."""
_SQL_SHARE = 0.1
_INSERT_SECONDS = 3
"""How long an INSERT waits for synchronous targets."""


class SwitchedGroupWork(SwitchedWork):
    """The work on the clusters of one run with a group."""

    def __init__(self, tables: SwitchedTables, counts: Counter[str], *, may_force: bool, is_sync: bool = False) -> None:
        super().__init__(tables, counts, may_force=may_force, is_sync=is_sync)
        self.weights = {**self.weights, **_WEIGHTS, **(_SYNC_WEIGHTS if is_sync else {})}
        self._followed: tuple[Reign, int] | None = None
        """What the cluster that rejoins was or followed before."""
        self._last_reads: dict[tuple[Reign, str], Read] = {}

    def begin(self) -> None:
        """Makes the tables and their groups."""
        clusters = self.world.clusters
        for cluster in clusters.values():
            create_tables(cluster, self.tables.names)
        ensembles = {name: cluster.ensemble for name, cluster in clusters.items()}
        self.record = SourceRecord(ensembles, self.tables.names, self._count)
        super().begin()

    def _count(self, what: str) -> None:
        self.counts[what] += 1

    def _insert(self, server: SimulatedServer, table: str, key: int, options: Mapping[str, int]) -> None:
        sent = SentRows(table, (key,))
        self.record.sending.append(sent)
        settings = {"insert_timeout": _INSERT_SECONDS} if self._is_sync else {}
        try:
            text = f"INSERT INTO {table} (p, k, v) {render_insert(table, sent.keys, PARTITIONS)}"
            server.sql(text, **{**options, **settings})
        finally:
            self.record.sending.remove(sent)

    def _do_delete(self) -> None:
        """A mutation deletes some rows of a table that takes writes."""
        opened = self.tables.list_open()
        server = self._idle(opened[0]) if opened else None
        reign = self.record.find_reign(opened[0]) if opened else None
        if server is None or reign is None:
            return
        table = self.random.choice(self.tables.names)
        keys = [key for name, key in sorted(reign.numbers) if name == table]
        if keys:
            chosen = sorted(self.random.sample(keys, min(2, len(keys))))
            rows = {(table, key) for key in chosen}
            self._deleted |= rows
            self._acknowledged -= rows
            for shown in self._shown.values():
                shown -= rows
            text = f"ALTER TABLE {table} DELETE WHERE k IN ({', '.join(map(str, chosen))})"
            self._try("delete", lambda: server.sql(text, mutations_sync=0))

    def _do_revive(self) -> None:
        """The sessions of dead servers end, and the servers start."""
        for cluster in self.world.clusters.values():
            cluster.end_zombies()
            for node in cluster:
                if not node.is_up and node not in self.world.timeline.stack:
                    self._try("start", node.start)

    def _do_work(self) -> None:
        """A server does all that is due."""
        server = self._idle()
        if server is not None and self._is_sync:  # steps that wait for other servers are due again when they end
            for task in server.pool.list_due():
                server.step(task)
        elif server is not None:
            server.step_due()

    def _do_look(self) -> None:
        if (server := self._idle()) is not None:
            self._try("look", lambda: self._look(server))

    def _look(self, server: SimulatedServer) -> None:
        uuid, read = read_group(server, self.tables.names, is_by_sql=self.random.random() < _SQL_SHARE)
        reign, place = self.record.resolve(uuid, read.place or 0)
        read = Read(read.reader, read.rows, place)
        former = self._last_reads.get((reign, read.reader))
        wrong = find_contradiction(reign.commits, [former, read] if former is not None else [read])
        assert not wrong, f"of the source {reign.cluster} since {reign.began}: {wrong}"
        self._last_reads[reign, read.reader] = read
        shown = {(table, key) for table, keys in read.rows.items() for key in keys}
        hidden = self._shown[cast(LinkedCluster, server.cluster).name] - shown
        assert self._is_forced or not hidden, f"{read.reader} shows no more {sorted(hidden)}, which were acknowledged"
        self._count("a cut was read")

    # -- checks -------------------------------------------------------------------------------------------------------

    def _rejoin(self, name: str, source: str) -> None:
        self._followed = self.record.find_place(name)
        super()._rejoin(name, source)

    def _check_report(self, name: str, source: str, told: Counter[str]) -> None:
        new = self.record.find_reign(source)
        assert self._followed is not None, f"{name} was neither source nor target"
        assert new is not None, f"{source} was never a source"
        wrong = find_wrong_report(new.list_lost(*self._followed), told)
        assert not wrong, f"{name} rejoined {source}: {wrong}"
        self._count("a report was checked")

    def _check(self) -> None:
        super()._check()
        (source,) = self.tables.list_open()
        reign = self.record.find_reign(source)
        assert reign is not None
        shown, final = self.tables.read(self._server(source)), sorted(reign.numbers)
        assert shown == final, f"{source} shows {shown} in the end, and its commits give {final}"

    def _explain(self) -> str:
        shown = []
        for node in self.world:
            found = cast(SimulatedServer, node).engine.services.shown_groups.find(GROUP)
            if found is not None:
                name = cast(LinkedCluster, node.cluster).name
                shown.append(f"{name} {node.name} shows cut {found.shown_place}: {found.explain()}")
        return f"{super()._explain()}; {shown}"
