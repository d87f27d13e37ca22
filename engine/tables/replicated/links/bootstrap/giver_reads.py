"""Reads a replica and its table in ZooKeeper, in the order that ``bootstrap_place`` asks for."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from coordination.inserts.block_numbers import list_partition_ids, read_committing_numbers, read_lock_kinds
from coordination.inserts.block_views import BlockNode
from coordination.inserts.quorum import read_failed_parts, read_pending_quorums
from coordination.keeper.interface import Keeper, Stat
from coordination.links.bootstrap_place import ROWS_STAY, RestingReplica
from coordination.links.positions import Origin, Position
from coordination.links.stream.change_stream import LogRecord, MutationRecord
from coordination.links.stream.frontier import select_undecided
from coordination.links.stream.kept_changes import read_kept_changes
from coordination.links.table_fingerprint import make_table_fingerprint
from coordination.links.version_vector import VersionVector
from coordination.links.written_epoch import is_written
from coordination.log.log_entry import LogEntry
from coordination.merges_mutations.mutation_nodes import parse_mutation_id
from coordination.merges_mutations.mutation_set import MutationEntry
from coordination.nodes.gate import Gate
from coordination.nodes.gate_link import LinkDirection
from coordination.nodes.paths import TablePaths, parse_sequence_number
from coordination.nodes.table_lists import missing_metadata_error
from coordination.replicas.log_pull import read_log_pointer
from engine.tables.replicated.life.shared_definition import make_shared_definition
from engine.tables.replicated.links.source.outgoing_nodes import find_outgoing_path
from engine.tables.replicated.replica_state import ReplicaState
from parts.common.errors import UnavailableError, UserError
from parts.common.part_name import PartName
from parts.store.part_states import Snapshot
from parts.table.merge_mode import ORDINARY


@dataclass(frozen=True, slots=True)
class GiverReading:
    """A resting replica, and what a copy of it needs besides the parts."""

    replica: RestingReplica
    origin: Origin
    vector: VersionVector
    """The node's, which is not newer than the floor."""
    fingerprint: str
    columns: str
    """The columns with their history, as ZooKeeper has them."""
    snapshot: Snapshot
    """The active parts."""
    is_target: bool = False
    """Links alone have brought rows to the table in its present epoch: its own origin has no changes."""

    def vector_with_own(self, place: int) -> VersionVector:
        """Returns the vector with the table's own changes up to the place."""
        vector = self.vector.advance(Position(self.origin, place))
        return vector.with_place(self.origin) if self.is_target else vector


class GiverReads:
    """The reads of one replica."""

    def __init__(self, state: ReplicaState) -> None:
        self._state = state

    def is_ordered(self) -> bool:
        """Tells whether the order of blocks may decide which row stays."""
        return self._state.description.merge_mode is not ORDINARY

    def list_unfinished_entries(self) -> list[LogEntry]:
        """Lists queued entries that change rows."""
        entries = [item.entry for item in self._state.queue.list_entries()]
        return [entry for entry in entries if entry.type not in ROWS_STAY]

    # -- registrations ------------------------------------------------------------------------------------------------

    def require_registered(self, keeper: Keeper, link: str) -> Stat:
        """Returns the stat of the link's registration. Raises 36 (BAD_ARGUMENTS) if there is none."""
        stat = keeper.exists(self._registration(link))
        if stat is None:
            raise UserError(
                "BAD_ARGUMENTS", f"Link {link!r} is not registered at table {self._state.definition.full_name}"
            )
        return stat

    def list_unregistered(self, keeper: Keeper, links: Sequence[str]) -> list[str]:
        """Lists the links that are not registered any more."""
        stats = keeper.exists_many([self._registration(link) for link in links])
        return [link for link, stat in zip(links, stats, strict=True) if stat is None]

    def _registration(self, link: str) -> str:
        return find_outgoing_path(self._state.paths, link)

    # -- the table ----------------------------------------------------------------------------------------------------

    def read(self, keeper: Keeper, link: str, stack: ExitStack) -> GiverReading:
        """Reads the replica. ``stack`` releases the snapshot.

        Raises 48 (NOT_IMPLEMENTED) for a table without a gate, 242 if the definition here is not the newest.
        """
        state, table = self._state, self._state.paths
        queued = tuple(item.entry for item in state.queue.list_entries())
        index, _ = read_log_pointer(keeper, state.replica)
        paths = [table.root, table.gate, table.columns, table.metadata, table.linked.vector]
        root, gate, columns, metadata, vector = keeper.get_many(paths)
        if root is None or columns is None or metadata is None:
            raise missing_metadata_error(table)
        if gate is None:
            raise UserError(
                "NOT_IMPLEMENTED", f"Table {table.root} has no gate yet: its replicas make it when they start"
            )
        shared = make_shared_definition(state.description)
        if (shared.metadata, shared.columns) != (metadata[0].decode(), columns[0].decode()):
            raise UnavailableError(
                "TABLE_IS_READ_ONLY", f"The replica has not taken the newest definition of {table.root} yet; ask again"
            )
        floor = [root[1].created_zxid, gate[1].modified_zxid, columns[1].modified_zxid, metadata[1].modified_zxid]
        floor += [vector[1].modified_zxid] if vector is not None else []
        floor += [self._last_pulled(keeper, index), self.require_registered(keeper, link).created_zxid]
        floor += self._kept_since(keeper)
        last_mutation = _find_last_mutation(keeper, table)  # before the locks: see the proof
        committing = read_committing_numbers(keeper, table, list_partition_ids(keeper, table))
        locks = select_undecided(committing, read_lock_kinds(keeper, table, committing))
        waiting = frozenset(part for status, _, _ in read_pending_quorums(keeper, table) for part in status.parts)
        failed = frozenset(map(PartName.parse, read_failed_parts(keeper, table)))
        mutations = _read_mutations(keeper, table)
        snapshot = stack.enter_context(state.store.hold_active([part.name for part in state.store.list_active()]))
        replica = RestingReplica(
            queued,
            max(floor),
            last_mutation,
            locks,
            waiting,
            failed,
            mutations,
            tuple(part.name for part in snapshot.parts),
            _read_log_from(keeper, table, index),
        )
        found = Gate.parse(gate[0])
        origin = f"{state.replication.get_cluster_uuid()}.{root[1].created_zxid}.{found.epoch}"
        return GiverReading(
            replica,
            Origin.parse(origin),
            VersionVector.parse(vector[0] if vector is not None else b""),
            make_table_fingerprint(metadata[0].decode(), columns[0].decode()),
            columns[0].decode(),
            snapshot,
            any(not link.is_two_way for link in found.links_of(LinkDirection.IN)) and not is_written(found),
        )

    def _last_pulled(self, keeper: Keeper, index: int) -> int:
        """Returns the zxid of the last entry that was pulled, or of the pull if the entry is trimmed."""
        entry, pointer = keeper.exists_many(
            [self._state.paths.log_entry(max(index - 1, 0)), self._state.replica.log_pointer]
        )
        if index and entry is None and pointer is not None:
            return pointer.modified_zxid
        return entry.created_zxid if index and entry is not None else 0

    def _kept_since(self, keeper: Keeper) -> list[int]:
        """Returns the zxids behind which the replicas keep the changes that the target will ask for."""
        replicas = keeper.children(self._state.paths.replicas)
        return [each.since for each in read_kept_changes(keeper, self._state.paths, replicas).values()]


def _find_last_mutation(keeper: Keeper, table: TablePaths) -> int:
    newest = max(map(parse_mutation_id, keeper.children(table.mutations)), default=None)
    stat = keeper.exists(table.mutation(newest)) if newest is not None else None
    return stat.created_zxid if stat is not None else 0


def _read_mutations(keeper: Keeper, table: TablePaths) -> tuple[MutationRecord, ...]:
    ids = sorted(map(parse_mutation_id, keeper.children(table.mutations)))
    answers = keeper.get_many([table.mutation(id_) for id_ in ids])
    return tuple(
        MutationRecord(answer[1].created_zxid, answer[1].created_ms, MutationEntry.parse(id_, answer[0]))
        for id_, answer in zip(ids, answers, strict=True)
        if answer is not None
    )


def _read_log_from(keeper: Keeper, table: TablePaths, index: int) -> tuple[LogRecord, ...]:
    names = [name for name in keeper.children(table.log) if parse_sequence_number(name) >= index]
    answers = keeper.get_many([f"{table.log}/{name}" for name in names])
    return tuple(
        LogRecord(answer[1].created_zxid, answer[1].created_ms, LogEntry.parse(answer[0]))
        for answer in answers
        if answer is not None
    )


def read_block_ids_up_to(keeper: Keeper, table: TablePaths, place: int) -> tuple[tuple[str, PartName], ...]:
    """Returns the ids made at or below the place with the parts of their blocks, the newest first."""
    names = keeper.children(table.blocks)
    answers = keeper.get_many([table.block(name) for name in names])
    found = [
        (answer[1].created_zxid, name, PartName.try_parse(BlockNode.parse_part_name(answer[0])))
        for name, answer in zip(names, answers, strict=True)
        if answer is not None and answer[1].created_zxid <= place
    ]
    return tuple((name, part) for _, name, part in sorted(found, reverse=True) if part is not None)
