"""Random MOVE PARTITION between two replicated tables: a row is in one of them, once.

Clients insert into ``t``; rows come to ``u`` and return by moves only. A block that was moved is not inserted again: it
would be no duplicate any more. An acknowledged UPDATE is checked on every block that was certainly in the table. Its
rows end with one more plus, in whichever table they are.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import cast

from engine.simulator.simulated_servers import SimulatedServer, SimulatedServers
from engine.simulator.simulation_model import Block, Expectation, Weights
from engine.simulator.work.server_work import ServerWork

_SECOND = """
CREATE TABLE u (p UInt8, k UInt64, v String)
ENGINE = ReplicatedMergeTree('/tables/u', '{replica}') PARTITION BY p ORDER BY k
"""
_OTHER = {"t": "u", "u": "t"}


@dataclass(eq=False)
class MovingBlock(Block):
    """A block that moves between the tables."""

    place: str = ""
    """The table that must hold it, if it exists; empty while that is unknown."""
    fewest: int = 0
    most: int = 0
    """The fewest and the most pluses that its rows may have."""


@dataclass
class MoveWeights(Weights):
    """The weights of a simulation with moves."""

    insert: float = 8
    restart: float = 6
    end_zombies: float = 2
    move: float = 5
    update: float = 1
    drop_partition: float = 0.2
    begin_anew: float = 0.2


@dataclass
class MovePartitionWork(ServerWork):
    """Random moves of partitions; the nodes are servers."""

    fault_rate: float = 0.002
    """Lower than for other work, as a move makes more requests."""
    crash_rate: float = 0.001

    def __post_init__(self) -> None:
        super().__post_init__()
        self._moves = Counter[int]()
        """How many moves were begun, by partition."""
        for server in cast(SimulatedServers, self.cluster).servers:
            server.sql(_SECOND)
        self.cluster.settle()

    def _of(self, partition: int) -> list[MovingBlock]:
        return [cast(MovingBlock, block) for block in self.blocks if block.partition == partition]

    def _list_certain(self, partition: int, table: str) -> list[MovingBlock]:
        """Returns the blocks that are certainly in the table."""
        return [
            block for block in self._of(partition)
            if block.place == table and block.expected is Expectation.ONCE and not block.attempts_under_way
        ]  # fmt: skip

    # -- clients -------------------------------------------------------------------------------------------------

    def _do_insert(self) -> None:
        keys = [next(self._next_key) for _ in range(self.random.randint(1, 3))]
        block = MovingBlock(self.random.randint(1, 2), keys, f"token-{keys[0]}" if self.random.random() < 0.3 else "")
        self.blocks.append(block)
        self._insert(block)

    def _insert(self, block: Block) -> None:
        super()._insert(block)
        if block.expected is Expectation.ONCE and not block.is_retired:
            cast(MovingBlock, block).place = "t"

    def _do_move(self) -> None:
        server, partition = self._idle(), self.random.randint(1, 2)
        source = self.random.choice([table for table in "tu" if self._list_certain(partition, table)] or ["t"])
        blocks = self._of(partition)
        if server is None or any(block.attempts_under_way and block.attempts > 1 for block in blocks):
            return
        self._moves[partition] += 1
        number, places = self._moves[partition], {id(block): block.place for block in blocks}
        moved = self._list_certain(partition, source)
        for block in blocks:
            block.is_retired, block.place = True, ""
        statement = f"ALTER TABLE {source} MOVE PARTITION {partition} TO TABLE {_OTHER[source]}"
        answer = self._guarded(server, lambda: server.sql(statement))
        self.counts[f"move {answer}"] += 1
        if number != self._moves[partition] or answer == "unknown":
            return
        for block in blocks:
            block.place = places[id(block)]
            if answer == "ok" and block.place == source:
                block.place = _OTHER[source] if block in moved else ""

    def _do_update(self) -> None:
        server, partition, table = self._idle(), self.random.randint(1, 2), self.random.choice("ttu")
        if server is None:
            return
        number, sure = self._moves[partition], self._list_certain(partition, table)
        before = self._of(partition)
        for block in before:
            block.most += 1
        statement = f"ALTER TABLE {table} UPDATE v = concat(v, '+') WHERE p = {partition}"
        sync = self.random.choice([0, 0, 1, 2])
        answer = self._guarded(server, lambda: server.sql(statement, mutations_sync=sync))
        self.counts[f"update {answer}"] += 1
        for block in self._of(partition)[len(before) :]:
            block.most += 1
        if answer == "ok" and number == self._moves[partition]:
            for block in sure:
                block.fewest += block.expected is Expectation.ONCE

    def _do_truncate(self) -> None:
        self._drop("TRUNCATE TABLE {}", [1, 2])

    def _do_drop_partition(self) -> None:
        partition = self.random.randint(1, 2)
        self._drop(f"ALTER TABLE {{}} DROP PARTITION {partition}", [partition])

    def _drop(self, statement: str, partitions: list[int]) -> None:
        if (server := self._idle()) is None:
            return
        table, moves = self.random.choice("tu"), self._moves.copy()
        sure = [block for partition in partitions for block in self._list_certain(partition, table)]

        def may_go(block: Block) -> bool:
            return block.partition in partitions and cast(MovingBlock, block).place != _OTHER[table]

        answer = self._clear(
            server,
            lambda: server.sql(statement.format(table)),
            may_go,
            lambda block: block in sure and moves[block.partition] == self._moves[block.partition],
        )
        self.counts[f"{statement.split()[0].lower()} {answer}"] += 1
        for block in filter(may_go, self.blocks):  # it may be inserted again, without its updates
            cast(MovingBlock, block).fewest = 0
        for partition in partitions:
            if moves[partition] != self._moves[partition]:  # what the statement found there is unknown
                for block in self._of(partition):
                    block.expected = Expectation.MAYBE if block.expected is Expectation.ONCE else block.expected

    def _do_begin_anew(self) -> None:
        if server := self._idle():
            table = self.random.choice("tu")
            self._guarded(server, lambda: server.sql(f"SYSTEM RESTART REPLICA {table}"))

    def _do_read(self) -> None:
        """Reads both tables; a lagging replica may show a row in both or in neither, so nothing is checked."""
        if server := self._idle():
            self.counts[f"read {self._guarded(server, lambda: _rows(server))}"] += 1

    # -- checking --------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Checks that replicas agree, and that each row is in one table with the right updates."""
        self.cluster.check_equal()
        for server in cast(SimulatedServers, self.cluster).servers:
            rows = _rows(server)
            found = Counter(key for _, key, _ in rows)
            assert set(found) <= self._known_keys()
            texts = {key: text for _, key, text in rows}
            tables = {key: table for table, key, _ in rows}
            for block in cast("list[MovingBlock]", self.blocks):
                self._check_block(server, block, found)
                if found[block.keys[0]]:
                    self._check_rows(server, block, tables, texts)
        for block in cast("list[MovingBlock]", self.blocks):
            assert not block.attempts_under_way
            there = found[block.keys[0]]
            block.expected = Expectation.ONCE if there else Expectation.NEVER
            block.place = tables[block.keys[0]] if there else ""
            block.fewest = block.most = texts[block.keys[0]].count("+") if there else 0
            block.was_truncated_meanwhile = block.is_truncated = False

    def _check_rows(
        self, server: SimulatedServer, block: MovingBlock, tables: dict[int, str], texts: dict[int, str]
    ) -> None:
        table = {tables[key] for key in block.keys}
        assert len(table) == 1, f"{server.name} has {block} in {table}"
        assert block.place in ("", *table), f"{server.name} has {block} in {table}"
        assert {texts[key].rstrip("+") for key in block.keys} == {f"value {key}" for key in block.keys}
        pluses = {texts[key].count("+") for key in block.keys}
        assert len(pluses) == 1, f"{server.name} has updated some rows of {block}: {pluses}"
        assert block.fewest <= min(pluses) <= block.most, f"{server.name} has {pluses} updates of {block}"
        self.counts[f"blocks in {min(table)}"] += 1
        self.counts["updates that were sure"] += block.fewest


def _rows(server: SimulatedServer) -> list[tuple[str, int, str]]:
    """Returns the rows of both tables."""
    return [
        (table, cast(int, key), cast(str, text))
        for table in "tu"
        for key, text in server.sql(f"SELECT k, v FROM {table} ORDER BY ALL")[1]
    ]
