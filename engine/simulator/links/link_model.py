"""Checks what linked clusters promise against what their ZooKeepers accepted.

The model sees every multi that succeeds in any cluster. A key tells the cluster in which a client inserted it, so a row
that arrived by links has a known origin. Checked are:

- a table's vector never goes back (at every commit);
- a target shows of each origin and partition what a prefix of the origin's commits gives, and nothing that its vector
  does not have (whenever somebody looks);
- a block whose quorum failed was never passed on (when it fails);
- when everything is quiet, each cluster has of every origin that reaches it exactly the final rows, and the clients of
  the origin were told the truth.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from coordination.keeper.interface import Create, Delete, Op, SetData
from coordination.keeper.memory_keeper import MemoryEnsemble
from coordination.links.cluster_identity import CLUSTER_PATH, ClusterIdentity
from coordination.links.commands import NO_REACH
from coordination.links.version_vector import VersionVector
from coordination.log.log_entry import EntryType, LogEntry
from coordination.merges_mutations.mutation_nodes import parse_mutation_id
from coordination.merges_mutations.mutation_set import MutationEntry
from engine.simulator.links.commit_history import CommitHistory, Dropped, Inserted, Mutated, Rows, find_prefix
from engine.simulator.simulated_table import TABLE
from engine.simulator.simulation_model import Block, Expectation
from parts.common.command_reach import find_reach
from parts.common.part_name import PartName

KEYS_PER_CLUSTER = 1_000_000
"""A key divided by this gives the number of the cluster in which it is inserted."""
PARTITIONS = (1, 2)


class LinkModel:
    """The histories of all clusters, and the vectors of their tables."""

    def __init__(
        self, clusters: Mapping[str, MemoryEnsemble], count: Callable[[str], None], *, is_commanded: bool = False
    ) -> None:
        """``is_commanded``: commands touch rows of all clusters, by their places."""
        self._names = list(clusters)
        self._is_commanded = is_commanded
        self._count = count
        self.histories = {name: CommitHistory() for name in clusters}
        self.vectors = {name: VersionVector() for name in clusters}
        """The newest vector of each cluster's table."""
        self.uuids = {name: _read_uuid(ensemble) for name, ensemble in clusters.items()}
        """The UUID of each cluster, by name."""
        self.inserting: list[Block] = []
        """The blocks whose INSERTs run now, the innermost last."""
        for name, ensemble in clusters.items():
            self._watch(name, ensemble)

    def origin_of(self, key: int) -> str:
        """Returns the cluster in which clients insert the key."""
        return self._names[key // KEYS_PER_CLUSTER]

    # -- what ZooKeeper accepts ----------------------------------------------------------------------------------

    def _watch(self, name: str, ensemble: MemoryEnsemble) -> None:
        run = ensemble.run

        def watched(session: int, ops: Sequence[Op]) -> list[Any]:
            zxid = ensemble.zxid + 1  # watches, which run before this returns, may commit more
            results = run(session, ops)
            deleted = {op.path for op in ops if isinstance(op, Delete)}  # a node made and deleted checks for absence
            for op, result in zip(ops, results, strict=True):
                if isinstance(op, Create) and op.path.startswith(TABLE.root) and op.path not in deleted:
                    self._record(name, zxid, op, str(result))
                if isinstance(op, Create | SetData) and op.path == TABLE.linked.vector:
                    self._record_vector(name, VersionVector.parse(op.data))
            return results

        ensemble.run = watched  # type: ignore[method-assign]

    def _record(self, name: str, zxid: int, op: Create, path: str) -> None:
        history = self.histories[name]
        if op.path.startswith(f"{TABLE.log}/"):
            self._record_entry(name, zxid, LogEntry.parse(op.data))
        elif "/mutations/mutation-" in op.path:
            entry = MutationEntry.parse(parse_mutation_id(path), op.data)
            if find_reach(entry.text) == NO_REACH:
                self._count("a cluster began to keep the places of rows")
            elif not self.has_arrived(name, entry.text):
                history.add(Mutated.parse(zxid, entry.numbers, entry.text))
        elif op.path.startswith(f"{TABLE.quorum_failed_parts}/"):
            part = PartName.parse(op.path.rpartition("/")[2])
            if refused := history.refuse(int(part.partition_id), part.max_block):
                self._check_not_passed_on(name, refused, part)

    def has_arrived(self, name: str, text: str) -> bool:
        """Tells whether a mutation came by a link: another cluster has the same one."""
        mine = Mutated.parse(0, {}, text)
        return any(
            isinstance(commit, Mutated)
            and (commit.mark, commit.deleted) == (mine.mark, mine.deleted)
            and (commit.reach is None or commit.text == text)
            for other, history in self.histories.items()
            if other != name
            for commit in history.commits
        )

    def _record_entry(self, name: str, zxid: int, entry: LogEntry) -> None:
        history = self.histories[name]
        part = entry.new_part
        if entry.type is EntryType.GET_PART and part is not None and not entry.is_restored:
            assert self.inserting, f"{name} logged {part} while nobody inserts"
            block = self.inserting[-1]
            assert str(block.partition) == part.partition_id, f"{part} is not of {block}"
            history.add(Inserted(zxid, block.partition, part.max_block, tuple(block.keys)))
        elif entry.type is EntryType.DROP_RANGE and part is not None:
            history.add(Dropped(zxid, int(part.partition_id), part.max_block + 1))

    def _record_vector(self, name: str, vector: VersionVector) -> None:
        before = self.vectors[name]
        for origin, entry in before.entries.items():
            now = vector.entries.get(origin)
            assert now is not None, f"{name} forgot the origin {origin}"
            assert now.applied >= entry.applied, f"{name} went back from {entry} to {now} of {origin}"
        self.vectors[name] = vector
        self._count("a vector moved")

    def forget_table(self, name: str) -> None:
        """Notes that the table of a cluster, which only copies others, was dropped."""
        assert not self.histories[name].commits, f"{name} has rows of its own"
        self.vectors[name] = VersionVector()

    def get_applied(self, name: str, cluster: str) -> int:
        """Returns the zxid of the origin ``cluster`` up to which the table of ``name`` has its changes."""
        uuid = self.uuids.get(cluster)
        applied = (entry.applied for origin, entry in self.vectors[name].entries.items() if origin.cluster == uuid)
        return max(applied, default=0)

    def _check_not_passed_on(self, origin: str, zxid: int, part: PartName) -> None:
        for name in self._names:
            applied = self.get_applied(name, origin) if name != origin else 0
            assert applied < zxid, f"{name} has passed {part} of {origin}, whose quorum failed now"

    # -- what replicas show --------------------------------------------------------------------------------------

    def check_shown(self, name: str, where: str, rows: Sequence[tuple[int, int, str]]) -> None:
        """Checks rows (partition, key, value) that a replica of the cluster ``name`` showed just now."""
        for origin in self._names:
            if origin != name and not self._is_commanded:  # commands of others are in no prefix of an origin's commits
                for partition in PARTITIONS:
                    self._check_prefix(name, where, origin, partition, group_rows(self._of(origin, rows), partition))

    def _of(self, origin: str, rows: Sequence[tuple[int, int, str]]) -> list[tuple[int, int, str]]:
        return [row for row in rows if self.origin_of(row[1]) == origin]

    def _check_prefix(self, name: str, where: str, origin: str, partition: int, shown: Rows) -> None:
        commits = self.histories[origin].of_partition(partition)
        length = find_prefix(commits, shown)
        assert length is not None, (
            f"{where} shows of partition {partition} of {origin} what no prefix gives: {shown}; commits: {commits}"
        )
        if shown and length:
            applied = self.get_applied(name, origin)
            last = commits[length - 1].zxid
            assert last <= applied, f"{where} shows {last} of {origin}, and its vector has {applied}"
            self._count("rows of another cluster were seen")

    # -- when everything is quiet --------------------------------------------------------------------------------

    def check_final(self, where: str, rows: Sequence[tuple[int, int, str]], origins: Sequence[str]) -> None:
        """Checks the rows of a replica that has everything of these origins."""
        expected: dict[int, list[str]] = {}
        commands = [
            each for history in self.histories.values() for each in history.commits if isinstance(each, Mutated)
        ]
        for origin in origins:
            history = self.histories[origin]
            commanded = history.commanded_rows(self.uuids[origin], commands) if self._is_commanded else None
            expected |= history.final_rows() if commanded is None else commanded
        shown: dict[int, list[str]] = {}
        for _, key, value in rows:
            shown.setdefault(key, []).append(value)
        different = {
            key: (expected.get(key), shown.get(key))
            for key in expected.keys() | shown.keys()
            if sorted(expected.get(key, ())) != sorted(shown.get(key, ()))
        }
        assert not different, f"{where} differs (expected, shown): {dict(sorted(different.items())[:10])}"

    def check_answers(self, name: str, blocks: Sequence[Block]) -> None:
        """Checks what the clients of a cluster were told of their blocks; what was unknown becomes known."""
        there = self.histories[name].keys()
        for block in blocks:
            found = {key in there for key in block.keys}
            assert len(found) == 1, f"{name} took a part of {block}"
            (is_there,) = found
            assert block.expected is not Expectation.ONCE or is_there, f"{name} acknowledged and lacks {block}"
            assert block.expected is not Expectation.NEVER or not is_there, f"{name} refused and has {block}"
            block.expected = Expectation.ONCE if is_there else Expectation.NEVER


def _read_uuid(ensemble: MemoryEnsemble) -> str:
    node = ensemble.tree.get(CLUSTER_PATH)
    assert node is not None, "the cluster has no identity"
    return ClusterIdentity.parse(node.data).uuid


def group_rows(rows: Sequence[tuple[int, int, str]], partition: int) -> dict[int, list[str]]:
    """Returns the values of each key of a partition."""
    grouped: dict[int, list[str]] = {}
    for found, key, value in rows:
        if found == partition:
            grouped.setdefault(key, []).append(value)
    return grouped
