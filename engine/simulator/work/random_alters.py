"""Random ALTERs of columns, whose values can be computed: each is its key times a factor.

Nobody inserts these columns. The factor is in the column's DEFAULT and belongs to that column alone, through all
renames. Whatever a replica shows must therefore be the key times the factor in its own definition. A value of a dropped
column, or of one that had the name before, has another factor.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import cast

from engine.simulator.simulated_servers import SimulatedServer, SimulatedServers
from engine.simulator.simulation_model import Block
from engine.simulator.work.random_transactions import TransactionWork

_NAMES = ("a", "b", "c")


@dataclass
class AlterationWork(TransactionWork):
    """Random ALTERs; the nodes are servers."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._next_factor = itertools.count(2)
        self._columns: dict[str, int] | None = {}
        """The added columns with their factors; ``None`` while the outcome of an ALTER is unknown."""
        self._alters_under_way = 0
        self._has_altered = False

    def _insert(self, block: Block) -> None:
        """Inserts a block, always with a token after the first ALTER.

        As in ClickHouse, the same rows under another definition are another block, unless a token says otherwise.
        """
        if self._has_altered and not block.attempts:
            block.token = f"token-{block.keys[0]}"
        if block.token or not self._has_altered:
            super()._insert(block)

    def _do_alter(self) -> None:
        server = self._idle()
        if server is None or not server.has_table:
            return
        there = list(get_column_factors(server)) if self.random.random() < 0.9 else []
        verbs = ("DROP", "RENAME", "RENAME", "CLEAR", "ADD") if there else ("ADD",)
        verb = self.random.choice(verbs)
        name = self.random.choice([known for known in _NAMES if (known in there) != (verb == "ADD")] or _NAMES)
        other = self.random.choice([known for known in _NAMES if known != name])
        factor = next(self._next_factor)
        command = {
            "ADD": f"ADD COLUMN {name} UInt64 DEFAULT k * {factor}",
            "DROP": f"DROP COLUMN {name}",
            "RENAME": f"RENAME COLUMN {name} TO {other}",
            "CLEAR": f"CLEAR COLUMN {name}",
        }[verb]
        is_alone = not self._alters_under_way
        known = self._columns
        self._alters_under_way += 1
        self._has_altered = True
        try:
            answer = self._guarded(server, lambda: server.sql(f"ALTER TABLE t {command}"))
        finally:
            self._alters_under_way -= 1
        self.counts[f"alter {verb} {answer}"] += 1
        if answer == "failed":
            return
        if answer == "unknown" or not is_alone or self._columns is not known:
            self._columns = None
        elif self._columns is not None:
            columns = dict(self._columns)
            if verb == "ADD":
                assert name not in columns, f"{server.name} added {name} again"
                columns[name] = factor
            else:
                assert name in columns, f"{server.name} had no column {name}"
                found = columns[name] if verb == "CLEAR" else columns.pop(name)
                if verb == "RENAME":
                    assert other not in columns, f"{server.name} gave {name} the name of another"
                    columns[other] = found
            self._columns = columns

    def _do_look_at_columns(self) -> None:
        """Checks that a replica, however far behind, shows what its own definition says."""
        if (server := self._idle()) and server.has_table:
            answer = self._guarded(server, lambda: self._check_columns(server))
            self.counts[f"look at columns {answer}"] += 1

    def _check_columns(self, server: SimulatedServer) -> dict[str, int]:
        columns = get_column_factors(server)
        if columns:
            wrong = " + ".join(f"countIf({name} != k * {factor})" for name, factor in columns.items())
            _, [(count,)] = server.sql(f"SELECT {wrong} FROM t")
            # Another statement may have changed the definition meanwhile.
            assert not count or get_column_factors(server) != columns, (
                f"{server.name} shows values of other columns: {columns}"
            )
        return columns

    def check(self) -> None:
        """Checks that all replicas have the same, known columns."""
        super().check()
        found = [self._check_columns(server) for server in cast(SimulatedServers, self.cluster).servers]
        assert all(columns == found[0] for columns in found), f"the replicas have other columns: {found}"
        if self._columns is not None:
            assert found[0] == self._columns, f"{found[0]} after acknowledged ALTERs to {self._columns}"
        self._columns = found[0]


def get_column_factors(server: SimulatedServer) -> dict[str, int]:
    """Returns the added columns and their factors, from the server's definition."""
    _, rows = server.sql("SELECT name, default_expression FROM system.columns WHERE table = 't' AND default_kind != ''")
    return {str(name): int(str(text).removeprefix("k * ")) for name, text in rows}
