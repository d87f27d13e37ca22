"""The clients of ``tests.cluster.chaos_links``: each knows what every row must be that it was told is there.

A client repeats a statement until a server of its cluster acknowledges it. An INSERT has a token, and the other
statements may be repeated as they are.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Sequence
from typing import Protocol

Rows = dict[tuple[int, int], int]
"""By partition and key, the value."""


class LinkedSites(Protocol):
    """The clusters, as clients see them."""

    def insist(self, name: str, rng: random.Random, statement: str, what: str) -> None:
        """Repeats a statement on the servers of a cluster until one acknowledges it."""

    def try_once(self, name: str, rng: random.Random, statement: str, what: str) -> bool:
        """Sends a statement to a server of a cluster; tells whether it was acknowledged."""


class Writer:
    """Inserts into tables that all clusters write, through one of them."""

    def __init__(self, sites: LinkedSites, name: str, number: int, tables: Sequence[str], rng: random.Random) -> None:
        self._sites = sites
        self._name = name
        self._random = rng
        self._next = number * 10_000_000
        self.rows: dict[str, Rows] = {table: {} for table in tables}

    def step(self) -> None:
        """Inserts one block."""
        table = self._random.choice(list(self.rows))
        partition = self._random.randint(1, 3)
        keys = range(self._next, self._next + self._random.randint(1, 20))
        self._next = keys.stop
        values = ", ".join(f"({partition}, {key}, {key})" for key in keys)
        token = f"{self._name}-{keys.start}"
        statement = f"INSERT INTO {table} SETTINGS insert_deduplication_token = '{token}' VALUES {values}"
        self._sites.insist(self._name, self._random, statement, f"INSERT INTO {table}")
        self.rows[table] |= {(partition, key): key for key in keys}
        time.sleep(self._random.uniform(0, 0.3))


class LatestWriter:
    """Writes and deletes in a table in which the last writer wins, through one cluster.

    Keys of its own have the value that was acknowledged last. Those that all clusters write have the last value of one
    of them.
    """

    PARTITION = 1
    _OWN, _SHARED = 40, 20

    def __init__(self, sites: LinkedSites, name: str, number: int, table: str, rng: random.Random) -> None:
        self._sites = sites
        self._name = name
        self._table = table
        self._random = rng
        self._first = 1_000 * (number + 1)
        self._values = number * 100_000_000
        self.own: dict[int, int | None] = {}
        """The values of own keys; ``None`` for a deleted one."""
        self.shared: dict[int, int] = {}
        """The value that this client gave each of the others' keys last."""

    def step(self) -> None:
        """Writes some keys, or deletes one."""
        if self._random.random() < 0.2 and self.own:
            self._delete(self._random.choice(list(self.own)))
        else:
            self._write()
        time.sleep(self._random.uniform(0, 0.4))

    def _write(self) -> None:
        own = self._random.sample(range(self._first, self._first + self._OWN), self._random.randint(1, 5))
        shared = self._random.sample(range(self._SHARED), self._random.randint(0, 2))
        self._values += 1
        value = self._values
        rows = ", ".join(f"({self.PARTITION}, {key}, {value})" for key in (*own, *shared))
        statement = f"INSERT INTO {self._table} SETTINGS insert_deduplication_token = '{value}' VALUES {rows}"
        self._sites.insist(self._name, self._random, statement, f"INSERT INTO {self._table}")
        self.own |= dict.fromkeys(own, value)
        self.shared |= dict.fromkeys(shared, value)

    def _delete(self, key: int) -> None:
        statement = f"DELETE FROM {self._table} WHERE k = {key}"
        self._sites.insist(self._name, self._random, statement, f"DELETE FROM {self._table}")
        self.own[key] = None


class PartitionOwner:
    """Changes one partition of a table that other clusters copy, through its source."""

    def __init__(self, sites: LinkedSites, name: str, table: str, partition: int, rng: random.Random) -> None:
        self._sites = sites
        self._name = name
        self._table = table
        self._partition = partition
        self._random = rng
        self._next = 0
        self.rows: Rows = {}

    def step(self) -> None:
        """Carries out one change."""
        actions = [self._insert] * 10 + [self._update] * 3 + [self._delete] * 2 + [self._drop]
        self._random.choice(actions)()
        time.sleep(self._random.uniform(0, 0.4))

    def _insist(self, statement: str, what: str) -> None:
        self._sites.insist(self._name, self._random, statement, what)

    def _insert(self) -> None:
        keys = range(self._next, self._next + self._random.randint(1, 20))
        self._next = keys.stop
        values = ", ".join(f"({self._partition}, {key}, 0)" for key in keys)
        token = f"{self._partition}-{keys.start}"
        statement = f"INSERT INTO {self._table} (p, k, v) SETTINGS insert_deduplication_token = '{token}'"
        self._insist(f"{statement} VALUES {values}", f"INSERT INTO {self._table}")
        self.rows |= {(self._partition, key): 0 for key in keys}

    def _update(self) -> None:
        divisor, value = self._random.randint(2, 5), self._random.randint(1, 1_000_000)
        where = f"p = {self._partition} AND k % {divisor} = 0"
        self._insist(
            f"ALTER TABLE {self._table} UPDATE v = {value} WHERE {where} SETTINGS mutations_sync = 1", "UPDATE"
        )
        self.rows |= {key: value for key in self.rows if key[1] % divisor == 0}

    def _delete(self) -> None:
        rest = self._random.randrange(7)
        where = f"p = {self._partition} AND k % 7 = {rest}"
        self._insist(f"ALTER TABLE {self._table} DELETE WHERE {where} SETTINGS mutations_sync = 1", "DELETE")
        self.rows = {key: value for key, value in self.rows.items() if key[1] % 7 != rest}

    def _drop(self) -> None:
        self._insist(f"ALTER TABLE {self._table} DROP PARTITION {self._partition}", "DROP PARTITION")
        self.rows = {}


class ColumnOwner:
    """Adds and drops columns of a table that other clusters copy.

    The column ``e<n>`` is ``k + n`` in every row. Targets without ``replicate_ddl`` (``by_hand``) get it by an ALTER of
    their own, before or some time after the source.
    """

    def __init__(
        self, sites: LinkedSites, source: str, by_hand: Sequence[str], table: str, rng: random.Random,
        wait: Callable[[float], object],
    ) -> None:  # fmt: skip
        self._sites = sites
        self._source = source
        self._by_hand = by_hand
        self._table = table
        self._random = rng
        self._wait = wait
        self._next = 1
        self._lock = threading.Lock()
        self.columns: list[int] = []
        """Those that the source has."""

    def step(self) -> None:
        """Adds or drops one column everywhere."""
        self._wait(self._random.uniform(4, 12))
        with self._lock:
            if len(self.columns) < 3 and self._random.random() < 0.7:
                self._add()
            elif self.columns:
                self._drop()

    def repair(self, name: str) -> None:
        """Gives a table that was made anew with its first columns those that the source has now."""
        with self._lock:
            for number in self.columns:
                self._alter(name, _add_column(number))

    def _add(self) -> None:
        number = self._next
        self._next += 1
        before = self._random.random() < 0.5
        for name in [*(self._by_hand if before else ()), self._source, *(() if before else self._by_hand)]:
            if name != self._source and not before:
                self._wait(self._random.uniform(0, 5))  # the link is paused meanwhile
            self._alter(name, _add_column(number))
        self.columns.append(number)

    def _drop(self) -> None:
        number = self.columns.pop(self._random.randrange(len(self.columns)))
        for name in (self._source, *self._by_hand):
            self._alter(name, f"DROP COLUMN IF EXISTS e{number}")

    def _alter(self, name: str, command: str) -> None:
        statement = f"ALTER TABLE {self._table} {command} SETTINGS alter_sync = 0"
        self._sites.insist(name, self._random, statement, "ALTER")


def _add_column(number: int) -> str:
    return f"ADD COLUMN IF NOT EXISTS e{number} UInt64 DEFAULT k + {number}"


class Merger:
    """Merges partitions of tables of all clusters."""

    def __init__(
        self, sites: LinkedSites, names: Sequence[str], tables: Sequence[str], rng: random.Random,
        wait: Callable[[float], object],
    ) -> None:  # fmt: skip
        self._sites = sites
        self._names = names
        self._tables = tables
        self._random = rng
        self._wait = wait

    def step(self) -> None:
        """Merges one partition."""
        self._wait(self._random.uniform(0.5, 3))
        table, partition = self._random.choice(self._tables), self._random.randint(1, 3)
        statement = f"OPTIMIZE TABLE {table} PARTITION {partition} FINAL"
        self._sites.try_once(self._random.choice(self._names), self._random, statement, "OPTIMIZE")
