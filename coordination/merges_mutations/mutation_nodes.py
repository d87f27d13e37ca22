"""Mutations in ZooKeeper: how they are created, read, killed and removed.

A mutation takes a block number in every partition that it changes, and then creates its node in one multi that gives
the numbers up. Between the two, its locks keep merges from reaching over the numbers. So every block, on every replica,
lies before or behind the mutation.

The multi expects three versions. That of ``mutations`` was read before the first number was taken, and every creation
changes it: ids and numbers grow together. That of ``block_numbers`` makes sure that no partition is left out. That of
``columns`` belongs to the definition that the mutation was checked against.

Each replica writes the id of the last mutation it has finished, with all before, into ``mutation_pointer``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence

from coordination.inserts.block_numbers import (
    BlockLock,
    LockKind,
    allocate_block_number,
    allocate_blocks,
    read_committing_numbers,
    read_lock_kinds,
    release_block_number,
)
from coordination.inserts.insert_commit import release_block_number_if_possible
from coordination.inserts.partition_nodes import PartitionNode, read_partition_nodes
from coordination.keeper.interface import (
    BadVersion,
    Check,
    Create,
    Delete,
    Keeper,
    KeeperConnectionLoss,
    KeeperError,
    MultiFailed,
    NoNode,
    Op,
    SetData,
    Stat,
    Watch,
)
from coordination.keeper.request_limits import require_log_entry_fits
from coordination.merges_mutations.mutation_set import MutationEntry, MutationSet, select_removable_mutations
from coordination.nodes.deletion import delete_if_present
from coordination.nodes.gate import CommitKind
from coordination.nodes.paths import ReplicaPaths, TablePaths, parse_sequence_number
from coordination.nodes.replica_activation import FEATURE_MUTATE_PART, require_feature
from coordination.nodes.table_gate import TableGate
from parts.common.errors import ConflictError, UnknownOutcomeError
from parts.common.part_name import PartName

_ATTEMPTS = 20
_LOWER_BLOCKS_PAUSES = (0.02, 0.03, 0.05)
"""Pauses of a mutation of a linked table, for INSERTs that have lower numbers."""


def parse_mutation_id(name: str) -> str:
    """Returns the id of a mutation, from its node's name or path."""
    return f"{parse_sequence_number(name):010d}"


class KnownMutations:
    """The mutations that a replica has read. Thread-safe."""

    def __init__(self, table: TablePaths) -> None:
        self._table = table
        self._lock = threading.Lock()
        self._current = MutationSet()
        self._settled: dict[str, int] = {}
        """Partition → the block number below which nothing is being committed or ever will be."""
        self.keep: Callable[[Mapping[str, tuple[bytes, Stat]]], None] | None = None
        """Keeps the nodes of mutations (id → content and stat) before they are known."""

    @property
    def current(self) -> MutationSet:
        """The mutations of the last load."""
        return self._current

    def forget(self) -> None:
        """Drops everything, so that the next load reads all mutations."""
        with self._lock:
            self._current = MutationSet()
            self._settled = {}

    def load(self, keeper: Keeper, watch: Watch | None = None) -> MutationSet:
        """Returns the current mutations. ``watch`` fires when one is created or removed."""
        with self._lock:
            ids = sorted(map(parse_mutation_id, keeper.children(self._table.mutations, watch)))
            known = {mutation.mutation_id: mutation for mutation in self._current.mutations}
            unknown = [id_ for id_ in ids if id_ not in known]
            if unknown or len(ids) < len(known):
                answers = keeper.get_many([self._table.mutation(id_) for id_ in unknown])
                if self.keep is not None:
                    self.keep({id_: a for id_, a in zip(unknown, answers, strict=True) if a is not None})
                for id_, answer in zip(unknown, answers, strict=True):
                    if answer is not None:
                        known[id_] = MutationEntry.parse(id_, answer[0])
                self._current = MutationSet(tuple(known[id_] for id_ in ids if id_ in known))
            return self._current

    def committing(self, keeper: Keeper, numbers: Mapping[str, int]) -> dict[str, list[int]]:
        """Returns by partition the least block number being committed below the given one, if there is any.

        Numbers grow, so a settled range is not read from ZooKeeper again. ``numbers`` must be those of loaded
        mutations: a reader that has seen a mutation sees the locks that were taken before it.
        """
        with self._lock:
            asked = sorted(p for p, number in numbers.items() if self._settled.get(p, -1) < number)
            for partition_id, taken in read_committing_numbers(keeper, self._table, asked).items() if asked else ():
                self._settled[partition_id] = min(*taken, numbers[partition_id]) if taken else numbers[partition_id]
            return {p: [self._settled[p]] for p in asked if self._settled[p] < numbers[p]}


def create_mutation(
    keeper: Keeper,
    replica: ReplicaPaths,
    text: str,
    partition_ids: Collection[str] | None,
    metadata_version: int,
    columns_version: int,
    *,
    gate: TableGate,
    first_number: Callable[[str], int],
    clock: Callable[[], float],
    wait: Callable[[float], None] = lambda seconds: None,
    unlinked_for: str = "",
    kind: CommitKind = CommitKind.OTHER,
    conditions: Sequence[Op] = (),
) -> MutationEntry | None:
    """Creates a mutation of the current rows of the partitions (``partition_ids`` ``None``: of all).

    Returns ``None`` if the definition is no longer that of ``columns_version``, or others change the table or its gate:
    try again.
    ``first_number``: above every block number that this replica has in a partition. ``wait`` lets seconds pass.
    ``unlinked_for`` names the mutation if its result may differ between clusters, which links refuse. ``kind``: as what
    bars of the gate see it. ``conditions``: further ones for the multi.

    Raises 48 beside a replica of an older version, 290 for too long a text, 999, and 341 when the outcome is unknown.
    After a ``KeeperError`` an unused number may be left.
    """
    require_feature(keeper, replica.table, FEATURE_MUTATE_PART, "A mutation")
    locks: list[BlockLock] = []
    try:
        version = keeper.get(replica.table.mutations)[1].version
        partitions_version = keeper.get(replica.table.block_numbers)[1].version  # before the partitions themselves
        nodes = read_partition_nodes(keeper, replica.table)
        wanted = [node for p, node in nodes.items() if partition_ids is None or p in partition_ids]
        try:
            _take_numbers(keeper, replica, wanted, first_number, locks)
        except MultiFailed as error:
            if not isinstance(error.cause, NoNode):  # a partition that was forgotten
                raise
            _release(keeper, locks)
            return None
        mutation = MutationEntry(
            "", clock(), replica.name, text, {lock.partition_id: lock.number for lock in locks},
            metadata_version,
        )  # fmt: skip
        all_conditions = (
            *conditions,
            SetData(replica.table.mutations, b"", version),
            Check(replica.table.block_numbers, partitions_version),
            Check(replica.table.columns, columns_version),
            *gate.checks(keeper, kind, unlinked_for=unlinked_for),
            *_give_up_lower_blocks(keeper, replica.table, locks, gate, wait),
        )
        return _create(keeper, replica.table, mutation, locks, all_conditions, gate)
    except BaseException:  # a multi that may still be on its way fails then
        for lock in locks:
            release_block_number_if_possible(keeper, lock)
        raise


def _give_up_lower_blocks(
    keeper: Keeper, table: TablePaths, locks: Sequence[BlockLock], gate: TableGate, wait: Callable[[float], None]
) -> list[Op]:
    """Returns operations that give up the numbers of INSERTs below those of a mutation, in a table with links.

    Everything that commits between a mutation and such an INSERT would be one batch of a link. So INSERTs have a moment
    to end, and then take new numbers. Their parts are not written anew.
    """
    if gate.gate is None or not gate.gate.links:
        return []
    below = {lock.partition_id: lock.number for lock in locks}
    for pause in _LOWER_BLOCKS_PAUSES:
        taken = read_committing_numbers(keeper, table, sorted(below))
        lower = {p: [number for number in numbers if number < below[p]] for p, numbers in taken.items()}
        if not any(lower.values()):
            return []
        wait(pause)
    kinds = read_lock_kinds(keeper, table, lower)
    nodes = read_partition_nodes(keeper, table)
    return [Delete(nodes[p].lock(number)) for (p, number), kind in kinds.items() if kind is LockKind.BLOCK]


def _take_numbers(
    keeper: Keeper,
    replica: ReplicaPaths,
    nodes: Sequence[PartitionNode],
    first_number: Callable[[str], int],
    locks: list[BlockLock],
) -> None:
    table = replica.table
    allocate_blocks(keeper, table, nodes, replica.name, locks)
    for lock in list(locks):
        minimum = first_number(lock.partition_id)
        if lock.number < minimum:  # the counter began again, and older parts exist
            again = allocate_block_number(keeper, table, lock.partition_id, owner=replica.name, minimum=minimum)
            assert isinstance(again, BlockLock)
            locks.append(again)
            release_block_number(keeper, lock)
            locks.remove(lock)


def _create(
    keeper: Keeper,
    table: TablePaths,
    mutation: MutationEntry,
    locks: list[BlockLock],
    conditions: Sequence[Op],
    gate: TableGate,
) -> MutationEntry | None:
    content = mutation.to_bytes()
    create = Create(table.mutation_prefix, content, sequential=True)
    require_log_entry_fits(create, f"a mutation of {len(locks)} partitions")
    try:
        path = keeper.multi([create, *conditions, *(Delete(lock.path) for lock in locks)])[0]
    except MultiFailed as error:
        if not gate.has_moved(keeper, error) and not isinstance(error.cause, BadVersion | NoNode):
            raise error.cause from error
        _release(keeper, locks)
        return None
    except KeeperConnectionLoss:
        for lock in locks:  # the multi that may still be on its way fails then
            release_block_number_if_possible(keeper, lock)
        found = _find(keeper, table, content)
        if found is None:
            _release(keeper, locks)
        return found
    return MutationEntry.parse(parse_mutation_id(str(path)), content)


def _release(keeper: Keeper, locks: Sequence[BlockLock]) -> None:
    """Gives up the numbers. Raises errors: the caller must learn that an unused number may be left."""
    for lock in locks:
        release_block_number(keeper, lock)


def _find(keeper: Keeper, table: TablePaths, content: bytes) -> MutationEntry | None:
    """Returns the mutation if it was created although the answer was lost. No other has these numbers."""
    try:
        keeper.sync(table.mutations)
        ids = [parse_mutation_id(name) for name in keeper.children(table.mutations)]
        answers = keeper.get_many([table.mutation(id_) for id_ in ids])
    except (KeeperError, KeeperConnectionLoss) as error:
        raise UnknownOutcomeError(
            "UNFINISHED", f"ZooKeeper went away while the mutation was made; system.mutations will show it ({error})"
        ) from error
    for id_, answer in zip(ids, answers, strict=True):
        if answer is not None and answer[0] == content:
            return MutationEntry.parse(id_, content)
    return None


def kill_mutation(keeper: Keeper, table: TablePaths, id_: str, gate: TableGate) -> bool:
    """Deletes a mutation, so that it changes no more parts. Returns ``False`` if there is none of this id.

    Parts that were changed stay as they are. Raises 48 for a table with links.
    """
    for _ in range(_ATTEMPTS):
        try:
            checks = gate.checks(keeper, CommitKind.OTHER, unlinked_for="KILL MUTATION")
            keeper.multi([Delete(table.mutation(id_)), *checks])
            return True
        except MultiFailed as error:
            if gate.has_moved(keeper, error):
                continue
            if not isinstance(error.cause, NoNode):
                raise error.cause from error
            return False
        except KeeperConnectionLoss:
            keeper.sync(table.mutations)
            if keeper.exists(table.mutation(id_)) is None:
                return True
    raise ConflictError("KEEPER_EXCEPTION", f"The connection broke {_ATTEMPTS} times while killing mutation {id_}")


def not_killed_checks(table: TablePaths, ids: Sequence[str]) -> list[Op]:
    """Returns checks that none of these mutations was killed, for the multi that commits their result."""
    return [Check(table.mutation(id_)) for id_ in ids]


def read_mutation_pointer(keeper: Keeper, replica: ReplicaPaths) -> str:
    """Returns the id of the last mutation that the replica has finished with all before; "" for none."""
    return keeper.get(replica.mutation_pointer)[0].decode()


def advance_mutation_pointer(
    keeper: Keeper,
    replica: ReplicaPaths,
    known: KnownMutations,
    finished: str,
    parts_to_come: Callable[[], Sequence[PartName]],
) -> str:
    """Advances the replica's pointer from ``finished`` as far as possible, and returns it.

    ``parts_to_come`` pulls the log, and lists the parts that are active here or to come. It is called after the numbers
    being committed have been read.
    """
    waiting = known.current
    committing = known.committing(keeper, waiting.list_last_numbers(finished))
    pointer = waiting.find_finished_up_to(finished, committing, parts_to_come())
    if pointer > finished:
        keeper.set(replica.mutation_pointer, pointer.encode())
    return pointer


def read_mutation_pointers(keeper: Keeper, table: TablePaths) -> dict[str, str]:
    """Returns the mutation pointer of every active replica, by its name."""
    names = keeper.children(table.replicas)
    replicas = [table.replica(name) for name in names]
    active = keeper.exists_many([replica.is_active for replica in replicas])
    answers = keeper.get_many([replica.mutation_pointer for replica in replicas])
    return {
        name: answer[0].decode()
        for name, stat, answer in zip(names, active, answers, strict=True)
        if stat is not None and answer is not None
    }


def delete_finished_mutations(keeper: Keeper, table: TablePaths, keep: int) -> int:
    """Deletes the mutations that all replicas have finished, except the last ``keep``. Returns how many.

    A lost replica counts if it is active: it may be executing entries it has copied from another.
    """
    ids = sorted(map(parse_mutation_id, keeper.children(table.mutations)))
    if len(ids) <= keep:
        return 0
    names = keeper.children(table.replicas)
    replicas = [table.replica(name) for name in names]
    lost = keeper.get_many([replica.is_lost for replica in replicas])
    active = keeper.exists_many([replica.is_active for replica in replicas])
    answers = keeper.get_many([replica.mutation_pointer for replica in replicas])
    counted = [
        answer[0].decode()
        for is_lost, stat, answer in zip(lost, active, answers, strict=True)
        if answer is not None and (stat is not None or is_lost is None or is_lost[0] != b"1")
    ]
    gone = select_removable_mutations(ids, counted, keep)
    for id_ in gone:
        delete_if_present(keeper, table.mutation(id_))
    return len(gone)
