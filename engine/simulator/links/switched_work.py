"""Random switches, promotions and rejoins of three clusters, and what they promise.

One table, or those of a transactional group, whose source moves from cluster to cluster. After each round a person
finishes what is unfinished: there is one source again, and the others follow it. Then:

- all clusters show the same rows, each once, and one takes writes;
- in a round without FORCE no acknowledged row is lost; else each lost row was in the tail that a REJOIN told, and the
  tails told as many rows of each table as are lost;
- a row of an INSERT that was refused is nowhere;
- no position moves back while the epoch stays (invariant 7).

At every step of a round without FORCE at most one cluster takes writes.

With synchronous links, an INSERT that is acknowledged is visible at every synchronous target (invariant 5); a server of
a group may refuse the read. A promoted cluster has all rows that were acknowledged while it was such a target.

Of a group, every read of all tables is the state of some source after one of its commits. The fork of all tables is at
one such state. See :mod:`engine.simulator.links.groups`.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import cast

from coordination.links.positions import Position
from coordination.links.switching.lineage import Lineage
from coordination.links.switching.switching_gate import ASKED, PROMISE, PROMOTION, TICKET, read_fact
from coordination.links.version_vector import VersionVector
from coordination.nodes.gate import Gate
from engine.simulator.links.linked_cluster import LinkedCluster
from engine.simulator.links.switched_tables import Row, SwitchedTables
from engine.simulator.simulated_node import SimulatedNode
from engine.simulator.simulated_servers import SimulatedServer
from engine.simulator.step_pool import Crash
from parts.common.errors import CancelledError, PandoError, UnavailableError, UnknownOutcomeError

_STEPS = ("promote.", "promise.", "switch.", "rejoin.", "follow.", "link.", "bootstrap.")
_CRASH_RATE = 0.04
_ATTEMPTS = 60
_WEIGHTS = {
    "insert": 8,
    "step": 14,
    "network": 1,
    "crash": 0.5,
    "switch": 1.5,
    "cancel": 0.5,
    "promote": 0.4,
    "rejoin": 0.6,
}
_SYNC_WEIGHTS = {**_WEIGHTS, "mode": 0.5, "switch": 0.4, "cancel": 1, "network": 0.6, "promote": 0.2}
"""Calmer: only a link whose target keeps up is synchronous."""


class SwitchedWork:
    """The work on the clusters of one run."""

    def __init__(self, tables: SwitchedTables, counts: Counter[str], *, may_force: bool, is_sync: bool = False) -> None:
        self.tables = tables
        self.world = world = tables.world
        self.counts = counts
        self.random = world.random
        self._may_force = may_force
        self.weights: Mapping[str, float] = _SYNC_WEIGHTS if is_sync else _WEIGHTS
        """How often each action happens."""
        self._is_sync = is_sync
        self._names = list(world.clusters)
        self._keys = itertools.count(1)
        self._acknowledged, self._sent, self._refused = set[Row](), set[Row](), set[Row]()
        self._deleted: set[Row] = set()  # by mutations of a group: perhaps there in the end, perhaps not
        self._is_forced = self._is_over = False
        self._last_error = ""
        self._tails: list[tuple[set[Row], Counter[str]]] = []
        """For each REJOIN: the rows that the tables had, and how many rows of each were in its tail."""
        self._vectors: dict[tuple[str, str], tuple[str, VersionVector]] = {}
        self._shown: dict[str, set[Row]] = {name: set() for name in self._names}
        """By cluster: the rows that were acknowledged while it was the target of a synchronous link."""

    # -- running -------------------------------------------------------------------------------------------------

    def run(self, rounds: int, steps: int) -> None:
        """Links all clusters to the first, then runs rounds of random actions, healing and checks."""
        self.world.calm()
        self.begin()
        for _ in range(rounds):
            self._is_forced, self._tails = False, []
            for cluster in self.world.clusters.values():
                cluster.on_failpoint = self._perhaps_crash
            for _ in range(steps):
                self._act()
                self._check_step()
            self._heal()
            if self._is_over:  # a person would drop the table whose tail nobody can tell
                self.counts["a tail was not known"] += 1
                return
            self._check()

    def begin(self) -> None:
        """Makes the links."""
        first, *others = self._names
        for name in others:
            for text in self.tables.list_statements(first, "sync" if self._is_sync else ""):
                server = self._server(name)
                self._insist(lambda server=server, text=text: server.sql(text))  # type: ignore[misc]

    def _server(self, name: str) -> SimulatedServer:
        return cast(SimulatedServer, next(iter(self.world.clusters[name])))

    def _idle(self, name: str = "") -> SimulatedServer | None:
        names = [name] if name else self._names
        free = [
            cast(SimulatedServer, node)
            for each in names
            for node in self.world.clusters[each]
            if node.is_up and node not in self.world.timeline.stack
        ]
        return self.random.choice(free) if free else None

    def _try(self, what: str, action: Callable[[], object]) -> str:
        try:
            action()
            answer = "ok"
        except Crash:
            answer = "crashed"
        except (UnknownOutcomeError, CancelledError):
            answer = "unknown"
        except PandoError as error:
            answer = "failed"
            self.counts[f"error {error.code} of {what}"] += 1
            self._last_error = error.message
            self.world.trace.add(f"{what}: {error.message}")
        self.counts[f"{what} {answer}"] += 1
        return answer

    def _perhaps_crash(self, node: SimulatedNode, name: str) -> None:
        if name.startswith(_STEPS) and self.random.random() < _CRASH_RATE:
            self.counts[f"crash at {name}"] += 1
            node.crash_here()

    # -- actions -------------------------------------------------------------------------------------------------

    def _act(self) -> None:
        self.world.timeline.now += self.random.random()
        (name,) = self.random.choices(list(self.weights), list(self.weights.values()))
        getattr(self, f"_do_{name}")()

    def _do_step(self) -> None:
        if (server := self._idle()) is not None:
            for _ in range(4):
                if server.is_up:
                    server.step_random()

    def _do_insert(self) -> None:
        is_aimed = self._is_sync or self.tables.is_group
        opened = self.tables.list_open() if is_aimed and self.random.random() < 0.8 else []
        server = self._idle(opened[0] if opened else "")
        if server is None:
            return
        key, table = next(self._keys), self.tables.names[0]
        if self.tables.is_group:
            table = self.random.choice(self.tables.names)
        self._sent.add((table, key))
        before = self._sync_targets(server, table)
        options = {"insert_timeout": 8, "require_sync_replica": self.random.randrange(2)} if self._is_sync else {}
        answer = self._try("insert", lambda: self._insert(server, table, key, options))
        if answer == "failed":
            self._refused.add((table, key))
        elif answer == "ok":
            self._acknowledged.add((table, key))
            self._check_visible((table, key), before & self._sync_targets(server, table))

    def _insert(self, server: SimulatedServer, table: str, key: int, options: Mapping[str, int]) -> None:
        server.insert(key % 2, [key], **options)

    def _sync_targets(self, server: SimulatedServer, table: str) -> set[str]:
        gate = self.tables.gate(cast(LinkedCluster, server.cluster).name, table)
        return {link.peer_name for link in gate.sync_targets}

    def _do_mode(self) -> None:
        mode = self.random.choice(["sync", "sync", "sync", "async"])
        self._statement(f"mode {mode}", f"ALTER REPLICATION LINK {self.tables.pick_link()} MODE {mode}")

    def _do_network(self) -> None:
        one, other = self.random.sample(self._names, 2)
        if self.random.random() < 0.5:
            self.world.network.mend()
        else:
            self.world.network.cut(one, other, is_one_way=self.random.random() < 0.3)

    def _do_crash(self) -> None:
        server = self._idle()
        if server is not None:
            self._try("restart", server.restart)
        for name in self._names:
            for node in self.world.clusters[name]:
                if not node.is_up and node not in self.world.timeline.stack:
                    self._try("start", node.start)

    def _statement(self, what: str, text: str, name: str = "") -> str:
        server = self._idle(name)
        return self._try(what, lambda: server.sql(text, receive_timeout=20)) if server is not None else "none"

    def _do_switch(self) -> None:
        if self._is_forced:  # a person who forced a promotion waits until all follow it
            return
        self._statement("switch", f"SYSTEM SWITCH {self.tables.title}")

    def _do_cancel(self) -> None:
        verb = self.random.choice(["SWITCH", "SWITCH", "PROMOTE"])
        self._statement(f"{verb.lower()} cancel", f"SYSTEM {verb} {self.tables.title} CANCEL")

    def _do_promote(self) -> None:
        if not self._may_force or self._is_forced:
            return
        name = self.random.choice(self._names)
        self._is_forced = True
        force = self.random.choice(["", " FORCE"])
        self._statement(f"promote{force.lower()}", f"SYSTEM PROMOTE {self.tables.title}{force}", name)

    def _do_rejoin(self) -> None:
        """Shows the tail, which changes no rows."""
        name, other = self.random.sample(self._names, 2)
        self._statement("tail shown", f"SYSTEM REJOIN {self.tables.title} FROM CLUSTER {other}", name)

    # -- healing -------------------------------------------------------------------------------------------------

    def _insist(self, action: Callable[[], object]) -> None:
        problem: Exception | None = None
        for _ in range(_ATTEMPTS):
            try:
                action()
                return
            except PandoError as error:
                problem = error
            self.world.timeline.now += 1.0
            self.world.step_others()
        raise AssertionError(f"a statement fails again and again: {problem}; {self._explain()}")

    def _heal(self) -> None:
        self.world.calm()
        for cluster in self.world.clusters.values():
            cluster.on_failpoint = lambda node, name: None
        self.world.settle(lambda: True, self._explain)
        self._finish()
        self.world.settle(self._is_equal, self._explain, help_on=self._finish)

    def _do(self, what: str, name: str, statement: str) -> None:
        self._try(what, lambda: self._server(name).sql(statement))

    def _finish(self) -> None:
        """Does what a person does: ends or finishes statements that died, and lets all follow one source."""
        for name in self._names:
            gate = self.tables.gate(name)
            if (asked := read_fact(gate, ASKED)) is not None:
                cancel = " CANCEL" if asked.get("void") or self._is_forced else ""
                self._do("finish switch", name, f"SYSTEM SWITCH {self.tables.title}{cancel}")
            if read_fact(gate, PROMOTION) is not None or read_fact(gate, PROMISE) is not None:
                self._do("finish promote", name, f"SYSTEM PROMOTE {self.tables.title} CANCEL")
        self.world.step_others()
        if not self.tables.list_open():
            self._open_one()
        if not (opened := self.tables.list_open()):
            return
        source = max(opened, key=lambda name: self.tables.newest_fork(name))
        for name in self._names:
            if name != source and self.tables.must_rejoin(name):
                self._rejoin(name, source)
            elif name != source:
                self._copy_stopped(name)

    def _copy_stopped(self, name: str) -> None:
        """Copies the new source to a table that lacks more than that one keeps."""
        shown = "SELECT name FROM system.replication_links WHERE direction = 'in' AND upstream_status = 'stopped'"
        for (link,) in self._server(name).sql(shown)[1]:
            self._do("copy of a stopped link", name, f"SYSTEM BOOTSTRAP REPLICATION LINK {link}")

    def _open_one(self) -> None:
        """Opens an old source whose switch nobody goes on with."""
        for name in self._names:
            bars = self.tables.gate(name).bars
            if any(bar.owner == TICKET for bar in bars) and not any(
                read_fact(self.tables.gate(n), ASKED) for n in self._names
            ):
                self._is_forced = True
                self._do("open", name, f"SYSTEM PROMOTE {self.tables.title} FORCE")
                return

    def _rejoin(self, name: str, source: str) -> None:
        server = self._server(name)
        had = set(self.tables.read_parts(server))
        rows: list[tuple[object, ...]] = []

        def rejoin() -> None:
            rows.extend(server.sql(f"SYSTEM REJOIN {self.tables.title} FROM CLUSTER {source} DETACH TAIL")[1])

        answer = self._try("rejoin", rejoin)
        self._is_over |= "journal begins later" in self._last_error
        if answer == "ok":
            told = Counter[str]()
            for row in rows:
                told[str(row[1]).rpartition(".")[2]] += cast(int, row[3])
            self._tails.append((had, told))
            self._shown[name].clear()
            self._check_report(name, source, told)

    def _check_report(self, name: str, source: str, told: Counter[str]) -> None:
        """Checks how many rows of each table a REJOIN has told of."""

    # -- checks --------------------------------------------------------------------------------------------------

    def _check_visible(self, row: Row, targets: set[str]) -> None:
        """Checks that the servers of these clusters show a row that was acknowledged just now."""
        for name in sorted(targets):
            self._shown[name].add(row)
            for server in self.world.clusters[name].servers:
                if server.is_up and server not in self.world.timeline.stack:
                    with suppress(UnavailableError):
                        shown = self.tables.read(server)
                        assert row in shown, f"{name} is a synchronous target, and {server.name} lacks {row}"
                        self.counts["an acknowledged key was seen at a synchronous target"] += 1

    def _check_step(self) -> None:
        if not self._is_forced:
            opened = self.tables.list_open()
            assert len(opened) <= 1, f"{opened} take writes at the same moment"
        for name in self._names:
            for table, gate in self.tables.gates(name):
                self._check_position(name, table, gate)

    def _check_position(self, name: str, table: str, gate: Gate) -> None:
        now, lineage = self.tables.vector(name, table), Lineage.read(gate)
        former = self._vectors.get((name, table))
        if former is not None and former[0] == gate.epoch:
            back = [
                position
                for position in now.missing_from(former[1])
                if not _is_of_fork(lineage, Position(position.origin, now.applied(position.origin)))
            ]
            is_copied = any("bootstrap" in bar.owner for bar in gate.bars) or bool(self._tails)
            assert not back or is_copied, f"{table} of {name} went back to {now} from {back[0]}"
        self._vectors[name, table] = gate.epoch, now

    def _is_equal(self) -> bool:
        opened = self.tables.list_open()
        if self._is_over:
            return True
        if len(opened) != 1 or any(self.tables.must_rejoin(name) for name in self._names if name != opened[0]):
            return False
        try:
            shown = [self.tables.read(s) for cluster in self.world.clusters.values() for s in cluster.servers]
        except PandoError:
            return False
        return all(rows == shown[0] for rows in shown)

    def _check(self) -> None:
        rows = self.tables.read(self._server(self._names[0]))
        twice = [row for row, times in Counter(rows).items() if times > 1]
        assert not twice, f"rows {twice} are there twice"
        assert set(rows) <= self._sent
        assert not self._refused & set(rows), f"rows {sorted(self._refused & set(rows))} were refused, and are there"
        lost = self._acknowledged - set(rows)
        if not self._is_forced:
            assert not lost, f"acknowledged rows {sorted(lost)} are lost, and nobody forced anything"
        for name in self.tables.list_open():
            missing = self._shown[name] & lost
            assert not missing, f"{name} was a synchronous target of {sorted(missing)}, and lacks them"
        told = set[Row]()
        for had, counts in self._tails:
            missing = had - set(rows) - self._deleted
            wanted = Counter(table for table, _ in missing)
            assert wanted <= counts if self._deleted else wanted == +counts, (
                f"a REJOIN told of {dict(counts)} rows, and {sorted(missing)} are missing"
            )
            told |= missing
        assert lost <= told, f"acknowledged rows {sorted(lost - told)} are lost, and no REJOIN told of them"
        self._acknowledged -= lost
        self.counts["a round was checked"] += 1
        self.counts["a round with lost rows was checked"] += bool(lost)

    def _explain(self) -> str:
        shown = []
        for name in self._names:
            try:
                server = self._server(name)
                status = server.sql("SELECT name, direction, upstream_status, message FROM system.replication_links")[1]
                shown.append((name, self.tables.read_parts(server), self.tables.gate(name).bars, status))
            except PandoError as error:
                shown.append((name, str(error)))  # type: ignore[arg-type]
        return str(shown)


def _is_of_fork(lineage: Lineage, position: Position) -> bool:
    """Tells whether a fork has the position: who follows it goes back to there over a part without changes."""
    return any(
        fork.ended == position or fork.vector.applied(position.origin) == position.zxid for fork in lineage.forks
    )
