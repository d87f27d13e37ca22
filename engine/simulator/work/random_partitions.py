"""Random DROP, DETACH, ATTACH and FORGET of partitions and parts, with their checks.

A server attaches only what it has just detached. Other replicas have their own copies in ``detached/``, which nobody
attaches. A detached block is not inserted again by a client: its rows would rightly be there twice.
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.simulator.simulated_servers import SimulatedServer
from engine.simulator.simulation_model import Block, Expectation
from engine.simulator.work.random_transactions import TransactionWork
from parts.common.part_name import PartName
from parts.read.part_reader import Part, open_part
from parts.store.detached_parts import DETACHED, list_detached_by_users


class PartitionWork(TransactionWork):
    """Random partition commands; the nodes are servers."""

    def _do_drop_partition(self) -> None:
        if server := self._idle():
            self._drop_partition(server, self.random.randint(1, 2))

    def _do_forget_partition(self) -> None:
        """Forgets a partition, which is refused unless it is empty.

        Rows inserted later are in a new partition.
        """
        partition = self.random.randint(1, 2)
        if (server := self._idle()) and self.random.random() < 0.5:
            self._drop_partition(server, partition)
            self._step_other_node()
        if server := self._idle():
            statement = f"ALTER TABLE t FORGET PARTITION {partition}"
            self.counts[f"forget partition {self._guarded(server, lambda: server.sql(statement))}"] += 1

    def _drop_partition(self, server: SimulatedServer, partition: int) -> None:
        def is_meant(block: Block) -> bool:
            return block.partition == partition

        statement = f"ALTER TABLE t DROP PARTITION {partition}"
        answer = self._clear(server, lambda: server.sql(statement), is_meant, is_meant)
        self.counts[f"drop partition {answer}"] += 1

    def _do_detach_partition(self) -> None:
        """Detaches a partition or part, and perhaps attaches it again."""
        server = self._idle()
        if server is None or not server.has_table:
            return
        partition = self.random.randint(1, 2)
        blocks = [block for block in self.blocks if block.partition == partition]
        target = f"PARTITION {partition}"
        if self.random.random() < 0.5:
            active = [part for part in server.table.store.active() if part.name.partition_id == str(partition)]
            if not active:
                return
            part = self.random.choice(active)
            inside = read_keys([part])
            blocks = [block for block in blocks if block.keys[0] in inside]
            target = f"PART '{part.name}'"
        if not any(block.attempts_under_way for block in blocks):
            self._detach(server, target, blocks)

    def _detach(self, server: SimulatedServer, target: str, blocks: list[Block]) -> None:
        before = set(server.table.store.detached())
        for block in blocks:
            block.is_retired = True
        is_part = target.startswith("PART '")

        def may_go(block: Block) -> bool:
            return block in blocks if is_part else target == f"PARTITION {block.partition}"

        answer = self._clear(server, lambda: server.sql(f"ALTER TABLE t DETACH {target}"), may_go, may_go)
        self.counts[f"detach {target.split()[0].lower()} {answer}"] += 1
        if answer != "ok" or not server.is_up or not server.has_table or self.random.random() < 0.2:
            return
        store = server.table.store
        names = [name for name in list_detached_by_users(store.detached()) if str(name) not in before]
        keys = read_keys([open_part(store.path / DETACHED / str(name)) for name in names])
        found = [block for block in self.blocks if block.keys[0] in keys]
        if names and all(block in blocks and not block.attempts_under_way for block in found):
            self._attach(server, names, found)

    def _attach(self, server: SimulatedServer, names: Sequence[PartName], blocks: Sequence[Block]) -> None:
        for block in blocks:
            block.attempts += 1
            block.attempts_under_way += 1
            block.was_attached = True
            block.is_always_quorum, block.expected = False, Expectation.MAYBE
        commands = ", ".join(f"ATTACH PART '{name}'" for name in names)
        answer = self._guarded(server, lambda: server.sql(f"ALTER TABLE t {commands}"))
        self.counts[f"attach {answer}"] += 1
        for block in blocks:
            block.attempts_under_way -= 1
            if answer == "ok" and not block.was_truncated_meanwhile:
                block.expected = Expectation.ONCE
            block.was_truncated_meanwhile = False


def read_keys(parts: Sequence[Part]) -> set[int]:
    """Returns the keys in the parts."""
    batches = [batch for part in parts for batch in part.read(["k"])]
    return {key for batch in batches for key in batch.column(0).to_pylist()}
