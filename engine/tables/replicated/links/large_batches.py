"""Commits batches that no request holds by lists (``coordination.nodes.list_nodes``).

The block ids of such a batch are set after its commit, in the order of its blocks, before the next batch of any link.
If that is interrupted, the next batch or the table's cleaning sets those whose blocks were not dropped meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from coordination.inserts.block_views import BlockNode
from coordination.inserts.partition_nodes import find_partitions
from coordination.keeper.interface import (
    BadVersion,
    Create,
    Keeper,
    KeeperConnectionLoss,
    MultiFailed,
    NodeExists,
    NoNode,
    Op,
    SetData,
)
from coordination.keeper.request_limits import operation_bytes, split_into_multis
from coordination.links.batches.batch_list import MAX_PIECE_BYTES, make_list
from coordination.links.batches.batch_ops import BatchCommit, TargetReads, make_batch_commit
from coordination.links.batches.batch_plan import BatchPlan, net_block_ids
from coordination.links.stream.carried_changes import read_carried_changes
from coordination.log.log_entry import LogEntry
from coordination.nodes.list_nodes import (
    EntryList,
    ListState,
    commit_list_op,
    find_list_entry,
    finish_list_op,
    read_lists,
    remove_list,
    remove_unneeded_lists,
    write_list,
)
from coordination.nodes.paths import TablePaths
from coordination.reads.dropped_blocks import read_dropped_blocks
from parts.common.errors import ConflictError
from parts.common.part_name import PartName

_ATTEMPTS = 20
_IDS_TOGETHER = 500


class LargeBatches:
    """The lists of one table."""

    def __init__(self, table: TablePaths) -> None:
        self._table = table

    def make_commit(
        self,
        keeper: Keeper,
        plan: BatchPlan,
        reads: TargetReads,
        along: Sequence[Op],
        name: str,
        link: str,
        *,
        sets_ids: bool,
    ) -> BatchCommit:
        """Writes the list of a batch, and returns the multi that commits it. ``link``: its UUID."""
        listed = make_list(plan, name, MAX_PIECE_BYTES)
        write_list(keeper, self._table, name, link, listed.pieces)
        state = ListState.COMMITTED if sets_ids and plan.block_ids else ListState.DONE
        ops = [*along, commit_list_op(self._table, name, link, state)]
        return make_batch_commit(listed.plan, self._table, reads, along=ops, sets_ids=False)

    def abandon(self, keeper: Keeper, name: str) -> None:
        """Removes a list that was certainly not committed."""
        remove_list(keeper, self._table, name, 0)

    def settle(self, keeper: Keeper, link: str) -> None:
        """Sets the ids of earlier batches, and removes lists that this link never committed.

        A commit of such a list that is still under way fails.
        """
        if keeper.exists(self._table.linked.lists) is None:
            return
        for found in read_lists(keeper, self._table):
            if found.state is ListState.COMMITTED:
                self._finish(keeper, found)
            elif found.state is ListState.WRITING and found.link == link:
                remove_list(keeper, self._table, found.name, found.version)

    def clean_up(self, keeper: Keeper, links: Sequence[str]) -> bool:
        """Removes lists that nothing needs; ``links``: the UUIDs of the table's links.

        Returns whether some are left.
        """
        if keeper.exists(self._table.linked.lists) is None:
            return False
        lists = read_lists(keeper, self._table)
        for found in lists:
            if found.state is ListState.COMMITTED:
                self._finish(keeper, found)
            elif found.state is ListState.WRITING and found.link not in links:
                remove_list(keeper, self._table, found.name, found.version)
        done = [found for found in lists if found.state is ListState.DONE]
        return remove_unneeded_lists(keeper, self._table, done) > 0

    def _finish(self, keeper: Keeper, found: EntryList) -> None:
        entry = find_list_entry(keeper, self._table, found.name)
        if entry is not None:
            self._set_ids(keeper, entry)
        try:
            keeper.multi([finish_list_op(self._table, found)])
        except MultiFailed as error:  # somebody else has finished it
            if not isinstance(error.cause, BadVersion | NoNode):
                raise error.cause from error

    def _set_ids(self, keeper: Keeper, entry: LogEntry) -> None:
        ids = sorted(net_block_ids(read_carried_changes(entry, 0)).items())
        for start in range(0, len(ids), _IDS_TOGETHER):
            packet = dict(ids[start : start + _IDS_TOGETHER])
            for _ in range(_ATTEMPTS):
                if self._try_to_set(keeper, packet):
                    break
            else:
                raise ConflictError("KEEPER_EXCEPTION", "Others keep changing the block ids of a batch; try again")

    def _try_to_set(self, keeper: Keeper, ids: dict[str, PartName]) -> bool:
        """Sets the ids, with their partitions' guards, so that whoever looked at them before deletes none."""
        table = self._table
        guards = find_partitions(keeper, table, sorted({part.partition_id for part in ids.values()}))
        dropped = read_dropped_blocks(keeper, table)  # whoever drops moves the guards
        answers = keeper.get_many([table.block(id_) for id_ in ids])
        ops: list[Op] = []
        for (id_, part), answer in zip(ids.items(), answers, strict=True):
            data = BlockNode(str(part)).to_bytes()
            if part.max_block <= dropped.get(part.partition_id, -1):
                continue
            if answer is None:
                ops.append(Create(table.block(id_), data))
            elif not _is_later(PartName.try_parse(BlockNode.parse_part_name(answer[0])), part):
                ops.append(SetData(table.block(id_), data, answer[1].version))
        moves = [SetData(node.path, b"", stat.version) for node, stat in guards.values()]
        try:
            for index, chunk in enumerate(split_into_multis(ops, operation_bytes)):
                keeper.multi([*(moves if index == 0 else ()), *chunk])
        except KeeperConnectionLoss:
            return False
        except MultiFailed as error:
            if not isinstance(error.cause, BadVersion | NoNode | NodeExists):
                raise error.cause from error
            return False
        return True


def write_batch_list(
    keeper: Keeper, table: TablePaths, plan: BatchPlan, name: str, link: str
) -> tuple[BatchPlan, SetData]:
    """Writes the plan's entry as a list, for a commit that has room for its block ids.

    Returns the plan whose entry names the list, and the operation by which the multi commits the list.
    """
    listed = make_list(plan, name, MAX_PIECE_BYTES)
    write_list(keeper, table, name, link, listed.pieces)
    entry = listed.plan.entry
    assert entry is not None
    # Whether ids of dropped blocks are left over is known when the multi is made.
    return replace(listed.plan, entry=replace(entry, has_leftovers=False)), commit_list_op(
        table, name, link, ListState.DONE
    )


def _is_later(known: PartName | None, part: PartName) -> bool:
    """Tells whether an id has the part already, or that of a later block of its partition."""
    return known is not None and known.partition_id == part.partition_id and known.max_block >= part.max_block
