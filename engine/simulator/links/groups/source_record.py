"""Records the commits of every source of a group's tables, as the clusters' ZooKeepers accept them.

Whoever follows a source has a place in that one's order after each cut. So any place of any cluster's own order names a
state: the one behind its last commit there as a source, or behind the place that it had in the order of its source.

Checked on the way: all tables of a group change over in one multi, at one place.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from coordination.keeper.interface import Create, Delete, Op, SetData
from coordination.keeper.memory_keeper import MemoryEnsemble
from coordination.links.cluster_identity import CLUSTER_PATH, ClusterIdentity
from coordination.links.groups.cut_mark import CutMark
from coordination.links.positions import MAX_ZXID, Epoch, Origin
from coordination.links.switching.lineage import EpochFork, Lineage
from coordination.links.version_vector import VersionVector
from coordination.log.log_entry import EntryType, LogEntry
from coordination.merges_mutations.mutation_set import MutationEntry
from coordination.nodes.gate import Gate
from coordination.nodes.paths import TablePaths
from engine.simulator.links.groups.reign import PARTITIONS, Deletion, Place, Reign, Row

_DELETED = re.compile(r"DELETE WHERE k IN \(([\d, ]+)\)")


@dataclass(frozen=True, slots=True)
class SentRows:
    """Rows that a client inserts together, or commits in a transaction."""

    table: str
    keys: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Event:
    """What a cluster's tables are from a zxid of its own on."""

    zxid: int
    reign: Reign
    place: int | None
    """The place in the reign's order that it has; ``None`` for the source itself."""


class SourceRecord:
    """The reigns of all clusters, and the places of those who follow."""

    def __init__(
        self, clusters: Mapping[str, MemoryEnsemble], tables: Sequence[str], count: Callable[[str], None]
    ) -> None:
        """The first cluster is the source at the beginning. The tables are empty."""
        self.paths = {table: TablePaths(f"/tables/{table}") for table in tables}
        self.sending: list[SentRows] = []
        """What clients send now, the innermost last."""
        self.reigns: list[Reign] = []
        self._count = count
        self._ensembles = clusters
        self._uuids = {name: _read_uuid(ensemble) for name, ensemble in clusters.items()}
        self._events: dict[str, list[_Event]] = {name: [] for name in clusters}
        self._epochs = {name: {table: self._gate(name, table).epoch for table in tables} for name in clusters}
        first = next(iter(clusters))
        origins = {table: self._origin(first, table, self._gate(first, table).epoch) for table in tables}
        self._begin(Reign.begin(first, origins, clusters[first].zxid))
        for name, ensemble in clusters.items():
            self._watch(name, ensemble)

    def _gate(self, cluster: str, table: str) -> Gate:
        return Gate.parse(self._ensembles[cluster].tree[self.paths[table].gate].data)

    def _origin(self, cluster: str, table: str, epoch: str) -> Origin:
        counter, nonce = epoch.split("-")
        identity = self._ensembles[cluster].tree[self.paths[table].root].created_zxid
        return Origin(self._uuids[cluster], identity, Epoch(int(counter), int(nonce, 16)))

    def _begin(self, reign: Reign) -> None:
        self.reigns.append(reign)
        self._events[reign.cluster].append(_Event(reign.began, reign, None))

    # -- questions ----------------------------------------------------------------------------------------------------

    def find_reign(self, cluster: str) -> Reign | None:
        """Returns the last reign of a cluster."""
        return next((reign for reign in reversed(self.reigns) if reign.cluster == cluster), None)

    def resolve(self, uuid: str, place: int) -> tuple[Reign, int]:
        """Returns the reign, and the place in its order, that a place in the order of a cluster names."""
        cluster = next(name for name, each in self._uuids.items() if each == uuid)
        event = next((event for event in reversed(self._events[cluster]) if event.zxid <= place), None)
        assert event is not None, f"{cluster} was neither source nor target at {place}"
        return event.reign, place if event.place is None else event.place

    def find_place(self, cluster: str) -> tuple[Reign, int] | None:
        """Returns the source that a cluster is or follows, and its place in that one's order."""
        events = self._events[cluster]
        if not events:
            return None
        place = events[-1].place
        return events[-1].reign, place if place is not None else MAX_ZXID

    def has(self, table: str, key: int) -> bool:
        """Tells whether a row was ever committed."""
        return any(key in commit.added.get(table, ()) for reign in self.reigns for commit in reign.commits)

    # -- what ZooKeeper accepts ---------------------------------------------------------------------------------------

    def _watch(self, name: str, ensemble: MemoryEnsemble) -> None:
        run = ensemble.run

        def watched(session: int, ops: Sequence[Op]) -> list[Any]:
            zxid = ensemble.zxid + 1  # watches, which run before this returns, may commit more
            results = run(session, ops)
            self._record_entries(name, zxid, ops)
            if not self._record_epochs(name, zxid, ops):  # a fork sets the vectors, too
                self._record_vectors(name, zxid, ops)
            return results

        ensemble.run = watched  # type: ignore[method-assign]

    def _record_entries(self, cluster: str, zxid: int, ops: Sequence[Op]) -> None:
        deleted = {op.path for op in ops if isinstance(op, Delete)}  # a node made and deleted checks for absence
        drops: dict[Place, int] = {}
        rows: dict[Row, int] = {}
        deletions: list[Deletion] = []
        for op in ops:
            for table, paths in self.paths.items():
                if not isinstance(op, Create) or op.path in deleted:
                    continue
                if op.path.startswith(f"{paths.log}/"):
                    self._note_entry(table, LogEntry.parse(op.data), drops, rows)
                elif op.path.startswith(f"{paths.mutations}/"):
                    deletions += _read_deletion(table, op.data)
        if drops or rows or deletions:
            reign = self.find_reign(cluster)
            assert reign is not None, f"{cluster} committed {rows or drops} of its own and was never a source"
            whats = [f"DROP of {place}" for place in drops] + [f"DELETE of {sorted(each.keys)}" for each in deletions]
            reign.add(zxid, drops, rows, " and ".join([*whats, *["INSERT"] * bool(rows)]), deletions)
            self._count(f"a commit of {len(drops)} drops and {len({k % PARTITIONS for _, k in rows})} partitions")

    def _note_entry(self, table: str, entry: LogEntry, drops: dict[Place, int], rows: dict[Row, int]) -> None:
        """Adds to ``drops`` and ``rows`` what a log entry of a client's own commit does."""
        if entry.is_batch or entry.is_restored:
            return
        if entry.type is EntryType.DROP_RANGE and entry.new_part is not None:
            drops[table, int(entry.new_part.partition_id)] = entry.new_part.max_block + 1
        elif entry.type is EntryType.GET_PART or (entry.type is EntryType.REPLACE_RANGE and entry.transaction):
            for dropped in entry.drop_ranges:
                drops[table, int(dropped.partition_id)] = dropped.max_block + 1
            assert self.sending, f"{table} got {entry.created_parts} while nobody inserts"
            sent = self.sending[-1]
            assert sent.table == table, f"{table} got {entry.created_parts}, and {sent} was sent"
            for part in entry.created_parts:
                for key in sent.keys:
                    if key % PARTITIONS == int(part.partition_id):
                        rows[table, key] = part.max_block

    def _record_epochs(self, cluster: str, zxid: int, ops: Sequence[Op]) -> bool:
        """A fork of a cluster's own begins a reign. Returns whether there was one."""
        known, forks = self._epochs[cluster], dict[str, EpochFork]()
        for op in ops:
            for table, paths in self.paths.items():
                if isinstance(op, SetData) and op.path == paths.gate:
                    gate = Gate.parse(op.data)
                    if gate.epoch != known[table]:
                        known[table] = gate.epoch
                        own = self._origin(cluster, table, gate.epoch)
                        if (fork := Lineage.read(gate).find(str(own))) is not None:
                            forks[table] = fork
        if not forks:
            return False
        assert forks.keys() == self.paths.keys(), f"{cluster} forked only {sorted(forks)} in one multi"
        ended = {table: fork.ended for table, fork in forks.items()}
        former = next((r for r in self.reigns if all(ended[t].origin == r.origins[t] for t in ended)), None)
        assert former is not None, f"{cluster} forked from tables that were no source together: {ended}"
        if former.cluster == cluster:  # the old source goes on
            place = zxid
        else:
            places = {position.zxid for position in ended.values()}
            assert len(places) == 1, f"the fork of {cluster} is at the places {places} of {former.cluster}"
            (place,) = places
        self._begin(Reign.begin(cluster, {table: fork.by for table, fork in forks.items()}, zxid, former, place))
        self._count("a group was forked")
        return True

    def _record_vectors(self, cluster: str, zxid: int, ops: Sequence[Op]) -> None:
        """A cut of all tables gives a cluster a place in the order of its source."""
        vectors = {
            table: VersionVector.parse(op.data)
            for op in ops
            for table, paths in self.paths.items()
            if isinstance(op, Create | SetData) and op.path == paths.linked.vector
        }
        if vectors.keys() != self.paths.keys():
            return
        for reign in reversed(self.reigns):
            places = {vectors[table].applied(origin) for table, origin in reign.origins.items()}
            if reign.cluster != cluster and len(places) == 1 and places != {0}:
                self._events[cluster].append(_Event(zxid, reign, places.pop()))
                self._count("a cut was committed")
                return


def _read_deletion(table: str, data: bytes) -> list[Deletion]:
    """Returns what a client's mutation deletes; nothing for one that a cut brings."""
    mutation = MutationEntry.parse("", data)
    if CutMark.of(mutation) is not None:
        return []
    found = _DELETED.search(mutation.text)
    assert found is not None, f"the record does not know the mutation {mutation.text}"
    numbers = {int(partition): number for partition, number in mutation.numbers.items()}
    return [Deletion(table, numbers, frozenset(map(int, found[1].split(", "))))]


def _read_uuid(ensemble: MemoryEnsemble) -> str:
    node = ensemble.tree.get(CLUSTER_PATH)
    assert node is not None, "the cluster has no identity"
    return ClusterIdentity.parse(node.data).uuid
