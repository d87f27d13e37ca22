"""The clients and faults of one of several linked clusters."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

from engine.simulator.links.link_model import KEYS_PER_CLUSTER, PARTITIONS, LinkModel
from engine.simulator.links.linked_cluster import LinkedCluster
from engine.simulator.links.linked_columns import Alteration, LinkedColumns
from engine.simulator.simulated_node import SimulatedNode
from engine.simulator.simulated_servers import SimulatedServer
from engine.simulator.simulated_table import TABLE
from engine.simulator.simulation_model import Block, Weights
from engine.simulator.work.server_work import ServerWork
from parts.common.errors import PandoError
from recovery import force_restore_flag

_MAX_MUTATIONS_UNDER_WAY = 3


@dataclass
class LinkWeights(Weights):
    """How often each action on one cluster happens; see :class:`Weights`."""

    look: float = 4
    update: float = 0.7
    delete: float = 0.4
    drop_partition: float = 0.2
    power: float = 0.3
    alter: float = 0


@dataclass
class ClusterWork(ServerWork):
    """Random work on one cluster. ``model`` knows all clusters."""

    weights: LinkWeights = field(default_factory=LinkWeights)
    number: int = 0
    """The cluster's place among all, from which its keys follow."""
    model: LinkModel = field(kw_only=True)
    takes_writes: bool = True
    """Whether clients may insert; otherwise the table refuses them."""
    takes_commands: bool = True
    """Whether clients may mutate and drop."""
    columns: LinkedColumns = field(kw_only=True)
    """The columns of all clusters."""
    list_commanded: Callable[[], list[Block]] | None = None
    """Lists the blocks of all clusters, where commands touch those; otherwise they touch this cluster's."""
    elsewhere: Callable[[], None] = lambda: None
    """Lets some node of another cluster work."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._next_key = itertools.count(self.number * KEYS_PER_CLUSTER + 1)
        self._next_mark = itertools.count(1)
        self._holds_locks = False
        self._is_loss_allowed = False

    @property
    def name(self) -> str:
        """The cluster's name."""
        return cast(LinkedCluster, self.cluster).name

    # -- clients -------------------------------------------------------------------------------------------------

    def _attempt(self, node: SimulatedNode, block: Block, quorum: int | str, is_parallel: bool) -> None:
        if self.weights.alter:  # a block that is inserted again after an ALTER is another one without a token
            block.token = f"token-{block.keys[0]}"
        self.model.inserting.append(block)
        try:
            super()._attempt(node, block, quorum, is_parallel)
        finally:
            self.model.inserting.remove(block)

    def fill(self, blocks: int) -> None:
        """Inserts some blocks without faults, and changes some of them."""
        self.fill_rows(blocks)
        self._do_update()
        self._do_delete()

    def fill_rows(self, blocks: int) -> None:
        """Inserts some blocks without faults."""
        for _ in range(blocks):
            self._do_insert()

    def _do_insert(self) -> None:
        if self.takes_writes:
            super()._do_insert()
        elif (server := self._idle()) and self.random.random() < 0.1:
            self._check_refused(server)

    def _check_refused(self, server: SimulatedServer) -> None:
        """A client writes to the target of a one-way link."""
        key = next(self._next_key)
        answer = self._guarded(server, lambda: server.insert(1, [key]))
        assert answer != "ok", f"{self.name} is a target and took key {key}"
        self.counts["a write at a target was refused"] += answer == "failed"

    def _do_truncate(self) -> None:
        self._command("truncate", "TRUNCATE TABLE t")

    def _do_drop_partition(self) -> None:
        self._command("drop partition", f"ALTER TABLE t DROP PARTITION {self.random.choice(PARTITIONS)}")

    def _do_update(self) -> None:
        divisor = self.random.randint(1, 3)
        mark = f" m{self.number * KEYS_PER_CLUSTER + next(self._next_mark)}"
        where = f"k % {divisor} = {self.random.randrange(divisor)}"
        self._mutate("update", f"ALTER TABLE t UPDATE v = concat(v, '{mark}') WHERE {where}")

    def _do_delete(self) -> None:
        blocks = [block for block in self.blocks[-12:] if len(block.keys) > 1 and not block.attempts_under_way]
        if blocks:
            block = self.random.choice(blocks)
            block.is_retired = True
            deleted = block.keys[1:]  # in one DELETE: the same keys twice would be taken for one mutation
            if not getattr(block, "is_being_deleted", False):
                block.is_being_deleted = True  # type: ignore[attr-defined]
                self._mutate("delete", f"ALTER TABLE t DELETE WHERE k IN ({', '.join(map(str, deleted))})")

    def _mutate(self, what: str, statement: str) -> None:
        if server := self._idle():
            under_way = sum(not mutation.is_done for mutation in server.table.mutations.shown())
            if under_way < _MAX_MUTATIONS_UNDER_WAY:
                self._command(what, statement)

    def _command(self, what: str, statement: str) -> None:
        server = self._idle()
        if server is None or not self.takes_commands:
            return
        concerned = self.list_commanded() if self.list_commanded is not None else self.blocks
        for block in concerned:
            block.is_retired = True  # a block that a command removes could otherwise be inserted a second time
            block.was_truncated_meanwhile |= block.attempts_under_way > 0
        self._withdraw_promises(concerned)
        self._truncates_under_way += 1
        answer = self._guarded(server, lambda: server.sql(statement, mutations_sync=self.random.choice([0, 0, 1])))
        self._truncates_under_way -= 1
        self._withdraw_promises(concerned)
        self.counts[f"{what} {answer}"] += 1

    def _do_alter(self) -> None:
        server, alteration = self._idle(), self.columns.next(self.name)
        if server is not None and alteration is not None:
            wait = self.random.choice([0, 1, 1])
            answer = self._guarded(server, lambda: server.sql(f"ALTER TABLE t {alteration}", alter_sync=wait))
            self.counts[f"alter {alteration.verb} {answer}"] += 1
            if answer == "ok":
                self.columns.note_done(self.name, alteration)

    def finish_alter(self) -> Alteration | None:
        """Carries out the next of what other clusters were altered by; ``None`` when nothing is left."""
        if (alteration := self.columns.pending(self.name)) is not None:
            cast(SimulatedServer, next(iter(self.cluster))).sql(f"ALTER TABLE t {alteration}", alter_sync=0)
            self.columns.note_done(self.name, alteration)
        return alteration

    def _do_power(self) -> None:
        """The power of the whole cluster fails."""
        if not self.cluster.stack and self.random.random() < 0.2:
            for node in self._up():
                node.crash()
            self.cluster.end_zombies()
            self.counts["a whole cluster lost its power"] += 1

    def _do_look(self) -> None:
        server = self._idle()
        if server is not None:
            self._guarded(server, lambda: self.look(server))

    def look(self, server: SimulatedServer) -> list[tuple[int, int, str]]:
        """Reads a replica, and checks what it shows of other clusters' rows."""
        result, rows = server.sql("SELECT * FROM t ORDER BY k, v")
        shown = [cast("tuple[int, int, str]", row[:3]) for row in rows]
        for place, (column, _) in enumerate(result.columns[3:], 3):
            wrong = [row for row in rows if row[place] != cast(int, row[1]) + int(column.removeprefix("e"))]
            assert not wrong, f"{self.name} {server.name} shows of column {column} {wrong[:5]}"
        twice = [key for key, times in Counter(key for _, key, _ in shown).items() if times > 1]
        foreign = [key for key in twice if self.model.origin_of(key) != self.name]
        assert not foreign, f"{self.name} {server.name} shows rows of other clusters twice: {foreign}"
        self.model.check_shown(self.name, f"{self.name} {server.name}", shown)
        return shown

    # -- faults --------------------------------------------------------------------------------------------------

    def _perhaps_crash(self, node: SimulatedNode, name: str) -> None:
        self._holds_locks = name.startswith("link")
        super()._perhaps_crash(node, name)

    def _interleave(self, node: SimulatedNode) -> None:
        if not self._holds_locks:
            super()._interleave(node)
            return
        for _ in range(self.random.randint(1, 4)):  # the node itself would wait for a lock that it holds
            self.random.choice([self._step_other_node, self.elsewhere])()

    def _while_waiting(self) -> None:
        super()._while_waiting()
        if self.weights.wipe:  # INSERTs wait for a quorum, which one task at a time would rarely reach
            self._step_other_node()
        if self.random.random() < 0.5:
            self.elsewhere()

    # -- checking ------------------------------------------------------------------------------------------------

    def allow_great_loss(self) -> None:
        """Lets a replica that has lost its disk start, as a person does: much of a small table may be lost.

        No other disk of the cluster is lost: an idle link may have its place before the journals of both then.
        """
        if self._wiped is not None and not self._is_loss_allowed:
            self._is_loss_allowed = True
            force_restore_flag.set_flag(self.cluster.ensemble.connect(), TABLE.replica(self._wiped.name))

    def check(self) -> None:
        """Checks the replicas against each other, and the answers that clients got."""
        self.cluster.check_equal()
        for server in cast(LinkedCluster, self.cluster).servers:
            names = [column.name for column in server.table.description.schema.columns[3:]]
            self.columns.require(self.name, names)
        self.model.check_answers(self.name, self.blocks)
        for block in self.blocks:
            block.was_truncated_meanwhile = block.is_truncated = False

    def read_all(self, server: SimulatedServer) -> list[tuple[int, int, str]]:
        """Reads a replica after healing. Raises ``AssertionError`` if it cannot answer."""
        try:
            return self.look(server)
        except PandoError as error:
            raise AssertionError(f"{self.name} {server.name} does not answer after healing: {error}") from error
