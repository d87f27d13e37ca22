"""Random ADD, DROP, MATERIALIZE and CLEAR INDEX, and queries that the indexes prune.

Indexes are over the key and over the text that UPDATE changes. An index that a part kept from before a mutation, or
from another index of its name, would hide rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from engine.simulator.simulated_servers import SimulatedServer, SimulatedServers
from engine.simulator.work.random_alters import AlterationWork
from engine.simulator.work.random_mutations import MutationWork
from sql.grammar.tokens import quote_string

_NAMES = ("i", "j")
_KINDS = ("v TYPE set(0)", "v TYPE bloom_filter", "v TYPE minmax", "k TYPE minmax", "(k, v) TYPE set(2)")


@dataclass
class IndexWork(AlterationWork, MutationWork):
    """Random ALTERs of indexes; the nodes are servers."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._indexes: set[str] | None = set()
        """The names of the indexes; ``None`` while the outcome of an ALTER is unknown."""
        self._index_alters_under_way = 0

    def _do_change_index(self) -> None:
        server = self._idle()
        if server is None or not server.has_table:
            return
        there = get_indexes(server)
        verb = self.random.choice(("ADD", "MATERIALIZE", "MATERIALIZE", "CLEAR", "DROP", "DROP") if there else ("ADD",))
        name = self.random.choice([known for known in _NAMES if (known in there) != (verb == "ADD")] or _NAMES)
        if verb in ("MATERIALIZE", "CLEAR"):
            if self._has_room(server):
                where = self.random.choice(["", " IN PARTITION 1"]) if verb == "MATERIALIZE" else " IN PARTITION 2"
                self._mutate(server, f"{verb} INDEX", f"ALTER TABLE t {verb} INDEX {name}{where}")
            return
        kind = f" {self.random.choice(_KINDS)}" if verb == "ADD" else ""
        self._has_altered = True
        is_alone, known = not self._index_alters_under_way, self._indexes
        self._index_alters_under_way += 1
        try:
            answer = self._guarded(server, lambda: server.sql(f"ALTER TABLE t {verb} INDEX {name}{kind}"))
        finally:
            self._index_alters_under_way -= 1
        self.counts[f"{verb} INDEX {answer}"] += 1
        if answer == "failed":
            return
        if answer == "unknown" or not is_alone or self._indexes is not known:
            self._indexes = None
        elif self._indexes is not None:
            assert (name in self._indexes) != (verb == "ADD"), f"{server.name} has done {verb} INDEX {name} again"
            self._indexes = self._indexes ^ {name}

    def _do_look_by_index(self) -> None:
        if (server := self._idle()) and server.has_table:
            self.counts[f"look by index {self._guarded(server, lambda: self._check_pruning(server))}"] += 1

    def _check_pruning(self, server: SimulatedServer) -> None:
        """Checks that a condition finds the rows that a full read finds."""
        _, answer = server.sql("SELECT k, v FROM t ORDER BY ALL")
        rows = cast("list[tuple[int, str]]", answer)
        if not rows:
            return
        key, value = self.random.choice(rows)
        condition, expected = self.random.choice((
            (f"v = {quote_string(value)}", [row for row in rows if row[1] == value]),
            (f"k >= {key}", [row for row in rows if row[0] >= key]),
            (f"k = {key} AND v = {quote_string(value)}", [row for row in rows if row == (key, value)]),
        ))  # fmt: skip
        _, found = server.sql(f"SELECT k, v FROM t WHERE {condition} ORDER BY ALL")
        if found != expected:  # unless the rows have changed meanwhile
            _, again = server.sql("SELECT k, v FROM t ORDER BY ALL")
            assert again != rows, (
                f"{server.name} finds {found} by {condition}, and has {expected}: {get_indexes(server)}"
            )

    def check(self) -> None:
        """Checks that all replicas have the same, known indexes."""
        super().check()
        servers = cast(SimulatedServers, self.cluster).servers
        found = [get_indexes(server) for server in servers]
        assert all(names == found[0] for names in found), f"the replicas have other indexes: {found}"
        if self._indexes is not None:
            assert set(found[0]) == self._indexes, f"{found[0]} after acknowledged ALTERs to {self._indexes}"
        self._indexes = set(found[0])
        for server in servers:
            self._check_pruning(server)


def get_indexes(server: SimulatedServer) -> dict[str, str]:
    """Returns the table's indexes with their kinds and expressions."""
    described = server.table.definition.description.indexes
    return {index.name: f"{index.kind} {index.key.expressions}" for index in described}
