"""No list of znodes grows without end: 10,000 operations of all kinds, clean-up beside them, every list counted."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from coordination.drops.forget_partition import forget_partition
from coordination.inserts.quorum import QuorumPlan, QuorumStatus, _last_part_ops, parse_last_parts
from coordination.keeper.interface import MultiFailed
from coordination.keeper.memory_keeper import MemoryEnsemble
from coordination.merges_mutations.mutation_nodes import create_mutation, delete_finished_mutations
from coordination.reads.dropped_blocks import (
    clean_lost_blocks,
    forget_drop_ops,
    read_dropped_blocks,
    read_lost_parts,
    record_lost_part_ops,
)
from coordination.reads.scan_records import KeeperScanRecords
from coordination.replicas.cleanup import CleanupSettings, run_cleanup
from coordination.transactions.application_versions import clean_applications, read_application_version
from coordination.transactions.transaction_nodes import (
    MAX_REMEMBERED_TRANSACTIONS,
    abort_transaction,
    clean_transactions,
    open_transaction,
)
from parts.common.part_name import PartName
from tests.coordination.members import TABLE, Member
from tests.coordination.real_time import drop_partition

SETTINGS = CleanupSettings(10, 1000, 100, 1 << 30, applications_to_keep=50, lost_parts_to_keep=20)
CLEANS_EVERY, PARTITION_LASTS = 100, 250
BOUNDS = {
    "log": 10 + 2 * CLEANS_EVERY,
    "blocks": 100 + 2 * CLEANS_EVERY,
    "block_numbers": 5,
    "block_numbers/*": 2,
    "quorum": 4,
    "quorum/failed_parts": CLEANS_EVERY,
    "quorum/parallel": 1,
    "mutations": 10 + CLEANS_EVERY,
    "dropped_blocks": 5,
    "links": 1,
    "lost_blocks": 20 + CLEANS_EVERY,
    "transactions": MAX_REMEMBERED_TRANSACTIONS + CLEANS_EVERY,
    "open_transactions": 1,
    "applications": 50 + CLEANS_EVERY,
    "scans": 500 + CLEANS_EVERY,
    "replicas": 2,
    "replicas/*": 20,
    "replicas/*/parts": 4 * PARTITION_LASTS,
    "replicas/*/queue": 10,
    "replicas/*/flags": 1,
}
"""What each node may have of children; a list that is not here is none yet."""


class Table:
    def __init__(self) -> None:
        self.now = 1e9
        self.ensemble = MemoryEnsemble(lambda: self.now)
        self.one, self.two = Member(self.ensemble, "r1"), Member(self.ensemble, "r2")
        self.most: Counter[str] = Counter()

    def operate(self, number: int) -> None:
        self.now += 60.0
        keeper, partition = self.one.keeper, str(number // PARTITION_LASTS)
        match number % 10:
            case 6:
                application = read_application_version(keeper, TABLE, f"job {number}")
                keeper.multi([application.commit_op(1, 1)])
            case 7:
                opened = open_transaction(keeper, TABLE, f"transaction {number}")
                abort_transaction(keeper, TABLE, opened.name, "given up")
            case 8:
                part = PartName(partition, number, number, 0)
                keeper.multi(record_lost_part_ops(keeper, TABLE, part))
                KeeperScanRecords(keeper, TABLE).record(f"scan{number}", b"")
            case 9 if number % 50 == 9:
                self.mutate()
            case kind:
                quorum = QuorumPlan(2, is_parallel=kind != 2) if kind < 3 else None
                self.one.insert(f"{partition}_{number}", quorum, partition)
        for member in (self.one, self.two) if number % 10 == 5 or number % 10 < 3 else ():
            member.pull()
            member.drain()
        if number % PARTITION_LASTS == PARTITION_LASTS - 1:
            self.drop(str(number // PARTITION_LASTS - 2))

    def mutate(self) -> None:
        version = self.one.keeper.get(TABLE.columns)[1].version
        made = create_mutation(
            self.one.keeper, self.one.paths, "DELETE WHERE 0", None, 0, version, gate=self.one.gate,
            first_number=lambda _: 0, clock=lambda: self.now,
        )  # fmt: skip
        assert made is not None
        for member in (self.one, self.two):
            member.keeper.set(member.paths.mutation_pointer, made.mutation_id.encode())

    def drop(self, partition: str) -> None:
        if partition.startswith("-"):
            return
        drop_partition(self.one.keeper, TABLE, "r1", partition)
        for member in (self.one, self.two):
            member.pull()
            member.drain()
        assert forget_partition(self.one.keeper, self.one.paths, partition, is_streamed=False, known={}) is None

    def clean(self) -> None:
        self.count()
        run_cleanup(self.one.keeper, TABLE, SETTINGS)
        clean_transactions(self.one.keeper, TABLE)
        delete_finished_mutations(self.one.keeper, TABLE, 10)

    def count(self) -> None:
        for path, node in self.ensemble.tree.items():
            if path.startswith(f"{TABLE.root}/") and node.children:
                name = path.removeprefix(f"{TABLE.root}/")
                name = re.sub(r"(?<=^replicas/)[^/]+|(?<=^block_numbers/)[^/]+", "*", name)
                self.most[name] = max(self.most[name], len(node.children))


@pytest.mark.long
def test_every_list_has_a_bound() -> None:
    table = Table()
    for number in range(10_000):
        table.operate(number)
        if number % CLEANS_EVERY == 0:
            table.clean()
    table.count()
    assert table.most.keys() <= BOUNDS.keys()
    assert {name: most for name, most in table.most.items() if most > BOUNDS[name]} == {}
    assert len(parse_last_parts(table.one.keeper.get(TABLE.quorum_last_part)[0])) <= 5


def test_the_applications_that_committed_last_are_remembered() -> None:
    keeper = Table().one.keeper
    for version in range(1, 3):
        for number in range(25 if version == 1 else 5):
            keeper.multi([read_application_version(keeper, TABLE, f"job {number}").commit_op(version, 7)])
    assert clean_applications(keeper, TABLE, most=25) == 0
    assert clean_applications(keeper, TABLE, most=10) == 16
    left = [read_application_version(keeper, TABLE, f"job {number}").committed for number in range(25)]
    assert left == [2] * 5 + [None] * 16 + [1] * 4
    late = read_application_version(keeper, TABLE, "job 21")
    keeper.multi([read_application_version(keeper, TABLE, "job 21").commit_op(2, 7)])
    with pytest.raises(MultiFailed):
        keeper.multi([late.commit_op(2, 7)])


def test_of_many_lost_parts_the_oldest_are_dropped_blocks() -> None:
    keeper = Table().one.keeper
    for number in range(30):
        part = PartName(f"p{number % 2}", number, number + 1, 1)
        keeper.multi(record_lost_part_ops(keeper, TABLE, part))
    clean_lost_blocks(keeper, TABLE, most=10)
    assert sorted(part.min_block for part in read_lost_parts(keeper, TABLE)) == list(range(20, 30))
    assert read_dropped_blocks(keeper, TABLE) == {"p0": 19, "p1": 20}
    keeper.multi(forget_drop_ops(keeper, TABLE, "p0"))
    assert read_dropped_blocks(keeper, TABLE) == {"p1": 20}
    assert {part.partition_id for part in read_lost_parts(keeper, TABLE)} == {"p1"}


def test_the_last_parts_with_quorum_are_those_of_the_latest_partitions() -> None:
    data = b""
    for number in [*range(1500), 600]:
        status = QuorumStatus(f"p{number}_1_1_0", 1, ("r1",), "r1")
        (op,) = _last_part_ops(TABLE, status, PartName.parse(status.part), data, 0)
        data = op.data  # type: ignore[union-attr]
    assert [*parse_last_parts(data)] == [f"p{number}" for number in [*range(500, 600), *range(601, 1500), 600]]
    assert len(data) < 40_000
