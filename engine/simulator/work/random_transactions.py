"""Random transactions of INSERTs, and checks of which rows are visible.

The rows of each INSERT are a :class:`Block`, which is expected nowhere until a COMMIT may have been made. Repeating a
COMMIT of unknown outcome tells its outcome, at the latest after healing.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import cast

from coordination.keeper.memory_keeper import Fault
from coordination.transactions.commit_request import CommitVerdict
from coordination.transactions.transaction_nodes import transaction_node_name
from engine.simulator.simulated_node import SimulatedNode
from engine.simulator.simulated_servers import SimulatedServer, SimulatedServers
from engine.simulator.simulation_model import Block, Expectation
from engine.simulator.work.server_work import ServerWork
from parts.common.errors import PandoError

_INVALID_TRANSACTION = 649
_RECENT = 4
_REMEMBERED = 40
"""How many decided transactions are still checked; older ones cannot change."""


@dataclass(eq=False)
class StagedBlock(Block):
    """A block of a transaction."""

    is_acknowledged: bool = False
    """Whether it certainly belongs to the transaction, whatever runs at the same time."""


@dataclass(eq=False)
class SimulatedTransaction:
    """A transaction, and what clients were told of it."""

    id: str
    overwrite: str
    """The overwrite clause of COMMIT."""
    version: int | None
    blocks: list[StagedBlock] = field(default_factory=list)
    commits: int = 0
    """How many COMMITs were begun."""
    is_under_way: bool = False
    is_committed: bool = False
    is_aborted: bool = False
    is_disturbed: bool = False
    """Whether something else has dropped rows since its first COMMIT began, perhaps some of its own."""
    replaced: list[Block] = field(default_factory=list)
    """The blocks that were certainly there, and must be gone where its own rows are."""

    @property
    def is_settled(self) -> bool:
        """Tells whether its outcome is known."""
        return self.is_committed or self.is_aborted

    def drop(self) -> None:
        """Records that it was aborted."""
        self.is_aborted = True
        for block in self.blocks:
            block.expected = Expectation.NEVER


class TransactionWork(ServerWork):
    """Random transactions; the nodes are servers."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.transactions: list[SimulatedTransaction] = []
        self._next_transaction = itertools.count(1)
        self._next_version = itertools.count(1)

    def _open(self) -> list[SimulatedTransaction]:
        return [transaction for transaction in self.transactions if not transaction.is_settled]

    # -- clients -------------------------------------------------------------------------------------------------

    def _begin(self) -> SimulatedTransaction:
        version = None
        if self.random.random() < 0.4:  # sometimes the version of another transaction
            version = max(1, next(self._next_version) - (self.random.random() < 0.3))
        overwrite = self.random.choice(["", "", "", "OVERWRITE", "OVERWRITE PARTITIONS"])
        transaction = SimulatedTransaction(f"transaction {next(self._next_transaction)}", overwrite, version)
        settled = [other for other in self.transactions if other.is_settled]
        self.transactions = [*settled[-_REMEMBERED:], *self._open(), transaction]
        return transaction

    def _fault(self, node: SimulatedNode, kind: str, path: str) -> Fault | None:
        """Lets others INSERT between any two requests of a COMMIT."""
        if len(self.cluster.stack) == 1 and any(transaction.is_under_way for transaction in self.transactions):
            others = [other for other in self._up() if other is not node]
            if others and self.random.random() < 0.1:
                self._do_stage(others)
        return super()._fault(node, kind, path)

    def _do_stage(self, nodes: Sequence[SimulatedNode] = ()) -> None:
        some = [transaction for transaction in self._open() if self._partitions(transaction)]
        transaction = self.random.choice(some) if some and self.random.random() < 0.8 else self._begin()
        keys = [next(self._next_key) for _ in range(self.random.randint(1, 3))]
        block = StagedBlock(
            self.random.choice(self._partitions(transaction)), keys, f"token-{keys[0]}", is_in_transaction=True
        )
        if transaction.is_under_way:
            self._begin_attempt(block)
        transaction.blocks.append(block)
        self.blocks.append(block)
        self._stage(transaction, block, nodes)

    @staticmethod
    def _partitions(transaction: SimulatedTransaction) -> list[int]:
        """Returns the partitions that an INSERT may use: beside a COMMIT only those that it overwrites."""
        if transaction.is_under_way and transaction.overwrite == "OVERWRITE PARTITIONS":
            return sorted({block.partition for block in transaction.blocks})
        return [1, 2]

    def _do_restage(self) -> None:
        """Inserts the same rows once more, perhaps on another node, perhaps after the decision."""
        if self.transactions:
            transaction = self.random.choice(self.transactions[-_RECENT:])
            if transaction.blocks:
                self._stage(transaction, self.random.choice(transaction.blocks))

    def _stage(
        self, transaction: SimulatedTransaction, block: StagedBlock, nodes: Sequence[SimulatedNode] = ()
    ) -> None:
        if not (nodes := nodes or self._up()):
            return
        node, was_settled = self.random.choice(nodes), transaction.is_settled
        answer = self._guarded(
            node,
            lambda: node.insert(
                block.partition, block.keys, deduplication_token=block.token, insert_transaction=transaction.id
            ),
        )
        self.counts[f"stage {answer}"] += 1
        assert not (was_settled and answer == "ok"), f"{transaction.id} took rows after its end"
        if answer == "ok" and not block.is_acknowledged:
            block.is_acknowledged = True
            self.counts["stage ok beside a COMMIT"] += transaction.commits > 0
            if transaction.is_committed:
                self._require(transaction)

    def _do_commit(self) -> None:
        if self.transactions and (nodes := self._up()):
            transaction = self.random.choice(self.transactions[-_RECENT:])
            if not transaction.is_under_way:
                self._commit(transaction, self.random.choice(nodes))

    def _commit(self, transaction: SimulatedTransaction, node: SimulatedNode) -> None:
        rows: list[tuple[object, ...]] = []
        codes: list[int] = []
        action = self._commit_action(transaction, cast(SimulatedServer, node), rows, codes)
        transaction.is_under_way = True
        transaction.commits += 1
        if was_settled := transaction.is_settled:
            answer = self._guarded(node, action)
        else:
            answer = self._commit_open(transaction, node, action, rows)
        transaction.is_under_way = False
        verdict = CommitVerdict(rows[0][0]) if rows else None
        self.counts[f"commit {transaction.overwrite or 'plain'}: {verdict.value if verdict else answer}"] += 1
        is_refused = verdict is CommitVerdict.SKIPPED or _INVALID_TRANSACTION in codes
        if verdict in (CommitVerdict.COMMITTED, CommitVerdict.REPEATED):
            assert not transaction.is_aborted, f"{transaction.id} was aborted, and is committed"
            assert not (was_settled and verdict is CommitVerdict.COMMITTED), f"{transaction.id} was committed twice"
            self._note_committed(transaction)
        elif is_refused:
            assert not transaction.is_committed, f"{transaction.id} was committed, and is refused: {verdict}"
            is_expected = verdict is None or transaction.is_aborted or self._list_rivals(transaction)
            assert is_expected, f"{transaction.id} was skipped, and nobody has committed its version"
            transaction.drop()

    def _commit_open(
        self,
        transaction: SimulatedTransaction,
        node: SimulatedNode,
        action: Callable[[], object],
        rows: list[tuple[object, ...]],
    ) -> str:
        own = transaction.blocks  # INSERTs that run meanwhile add to them
        for block in own:
            self._begin_attempt(block)
        if transaction.overwrite:
            answer = self._overwrite(transaction, node, action, rows)
        else:
            answer = self._guarded(node, action)
        for block in own:
            block.attempts_under_way -= 1
            block.was_truncated_meanwhile = False
        return answer

    @staticmethod
    def _begin_attempt(block: StagedBlock) -> None:
        block.attempts += 1
        block.attempts_under_way += 1
        block.is_always_quorum = False
        block.expected = Expectation.MAYBE

    def _overwrite(
        self,
        transaction: SimulatedTransaction,
        node: SimulatedNode,
        action: Callable[[], object],
        rows: list[tuple[object, ...]],
    ) -> str:
        own = transaction.blocks
        if transaction.overwrite == "OVERWRITE":
            possible = sure = {1, 2}
        else:
            possible = {block.partition for block in own}
            sure = {block.partition for block in own if block.is_acknowledged}
        known = [
            block for block in self.blocks
            if block.expected is Expectation.ONCE and not block.attempts_under_way and block.partition in sure
        ]  # fmt: skip
        self._is_clearing = transaction
        answer = self._clear(
            node,
            action,
            lambda block: block.partition in possible and block not in own,
            lambda block: block.partition in sure and rows[0][0] == CommitVerdict.COMMITTED.value,
        )
        transaction.replaced = [block for block in known if block.expected is Expectation.NEVER]
        return answer

    def _clear(
        self,
        node: SimulatedNode,
        action: Callable[[], object],
        may_go: Callable[[Block], bool],
        is_gone: Callable[[Block], bool],
    ) -> str:
        """Runs an action that drops blocks; other open or committed transactions may lose rows by it."""
        owner, self._is_clearing = self._is_clearing, None
        self._mark_disturbed(owner)
        answer = super()._clear(node, action, may_go, is_gone)
        self._mark_disturbed(owner)
        return answer

    _is_clearing: SimulatedTransaction | None = None

    def _mark_disturbed(self, owner: SimulatedTransaction | None) -> None:
        for transaction in self.transactions:
            transaction.is_disturbed |= transaction is not owner and transaction.commits > 0

    def _commit_action(
        self,
        transaction: SimulatedTransaction,
        server: SimulatedServer,
        rows: list[tuple[object, ...]],
        codes: list[int],
    ) -> Callable[[], None]:
        version = f" APPLICATION 'stream' VERSION {transaction.version}" if transaction.version else ""
        statement = f"COMMIT TRANSACTION '{transaction.id}' ON t {transaction.overwrite}{version}"
        quorum = self.random.choice(self.quorum)

        def action() -> None:
            try:
                rows.extend(server.sql(statement, insert_quorum=quorum, insert_quorum_timeout=20_000)[1])
            except PandoError as error:
                codes.append(error.code)
                raise

        return action

    def _note_committed(self, transaction: SimulatedTransaction) -> None:
        if transaction.is_committed:
            return
        transaction.is_committed = True
        if transaction.version:
            same = [t.id for t in self.transactions if t.version == transaction.version and t.is_committed]
            assert same == [transaction.id], f"{same} were committed for one version"
        self._require(transaction)

    @staticmethod
    def _require(transaction: SimulatedTransaction) -> None:
        for block in transaction.blocks:
            if block.is_acknowledged and not transaction.is_disturbed:
                block.expected = Expectation.ONCE

    def _list_rivals(self, transaction: SimulatedTransaction) -> list[SimulatedTransaction]:
        """Returns transactions that may have been committed for its version or a later one."""
        return [
            other for other in self.transactions
            if other is not transaction and other.commits and not other.is_aborted
            and (other.version or 0) >= (transaction.version or 0)
        ]  # fmt: skip

    def _do_rollback(self) -> None:
        transactions = [transaction for transaction in self._open() if not transaction.is_under_way]
        if transactions and (nodes := self._up()):
            transaction, server = self.random.choice(transactions), cast(SimulatedServer, self.random.choice(nodes))
            answer = self._guarded(server, lambda: server.sql(f"ROLLBACK TRANSACTION '{transaction.id}' ON t"))
            self.counts[f"rollback {answer}"] += 1
            if answer == "ok" and transaction.blocks:
                transaction.drop()

    # -- checks ---------------------------------------------------------------------------------------------------

    def _do_look(self) -> None:
        """Reads on any node, and checks what is visible of transactions."""
        if nodes := self._up():
            node = self.random.choice(nodes)
            keys: list[int] = []
            answer = self._guarded(node, lambda: keys.extend(node.keys()))
            self.counts[f"look {answer}"] += 1
            if answer == "ok":
                self._check_transactions(node, Counter(keys))

    def _check_transactions(self, node: SimulatedNode, found: Counter[int]) -> None:
        """Checks that a node shows all of a transaction or nothing, and not what it replaced."""
        for transaction in self.transactions:
            if transaction.is_disturbed:
                continue
            sure = [block for block in transaction.blocks if block.is_acknowledged]
            times = {found[key] for block in sure for key in block.keys}
            assert times in (set(), {0}, {1}), f"{node.name} has a part of {transaction}: {times}"
            if transaction.is_aborted or not transaction.commits:
                seen = [key for block in transaction.blocks for key in block.keys if found[key]]
                assert not seen, f"{node.name} has {seen} of {transaction}, which was not committed"
            if times == {1}:
                self.counts["a transaction seen"] += 1
                left = [
                    block for block in transaction.replaced
                    if block.expected is Expectation.NEVER and not block.attempts_under_way and found[block.keys[0]]
                ]  # fmt: skip
                assert not left, f"{node.name} has {transaction} and what it took the place of: {left}"

    # -- healing ---------------------------------------------------------------------------------------------------

    def heal(self) -> None:
        """Heals, and finds the outcome of open transactions."""
        super().heal()
        for transaction in self._open():
            if transaction.commits or self.random.random() < 0.5:
                self._commit(transaction, self.random.choice(list(self.cluster)))
                assert transaction.is_settled, f"the outcome of {transaction} stays unknown"
        self.cluster.settle()

    def check(self) -> None:
        """Checks every invariant, and that nothing stays staged for decided transactions."""
        for node in self.cluster:
            self._check_transactions(node, Counter(node.keys()))
        super().check()
        still_open = {transaction_node_name(transaction.id) for transaction in self._open()}
        for server in cast(SimulatedServers, self.cluster).servers:
            left = set(server.table.store.staged.list_transactions()) - still_open
            assert not left, f"{server.name} keeps what was staged for transactions that are decided: {left}"
