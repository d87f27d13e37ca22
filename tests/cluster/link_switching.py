"""A table of ``tests.cluster.chaos_links`` whose source moves from cluster to cluster, and its writer."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from tests.cluster.link_clients import Rows

SWITCHED_LINK = "moves"
_REPLICAS = 2
_PATIENCE_SECONDS = 900.0
_RETRY_SECONDS = 0.3
_SWITCH_SECONDS = (30.0, 60.0)
"""Between two switches."""


class SwitchedSites(Protocol):
    """The clusters, as these clients see them."""

    def try_once(self, name: str, rng: random.Random, statement: str, what: str) -> bool:
        """Sends a statement to a server of a cluster; tells whether it was acknowledged."""

    def is_target(self, name: str, number: int, link: str) -> bool | None:
        """Tells whether a cluster has an incoming link; ``None`` if the server does not answer."""

    def count_fault(self, what: str) -> None:
        """Counts what was done to the clusters."""


class SwitchedWriter:
    """Inserts through one cluster as long as it acknowledges, then repeats the block at another one."""

    def __init__(self, sites: SwitchedSites, names: Sequence[str], table: str, rng: random.Random) -> None:
        self._sites = sites
        self._names = names
        self._table = table
        self._random = rng
        self._at = names[0]
        self._next = 0
        self.rows: Rows = {}

    def step(self) -> None:
        """Inserts one block."""
        partition = self._random.randint(1, 3)
        keys = range(self._next, self._next + self._random.randint(1, 20))
        self._next = keys.stop
        values = ", ".join(f"({partition}, {key}, {key})" for key in keys)
        statement = f"INSERT INTO {self._table} VALUES {values}"
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not self._sites.try_once(self._at, self._random, statement, f"INSERT INTO {self._table}"):
            if time.monotonic() > deadline:
                raise TimeoutError(f"No cluster acknowledges {statement[:200]}")
            self._at = self._random.choice(self._names)
            time.sleep(_RETRY_SECONDS)
        self.rows |= {(partition, key): key for key in keys}
        time.sleep(self._random.uniform(0, 0.3))


class Switcher:
    """Makes another cluster the source, and insists on it."""

    def __init__(
        self, sites: SwitchedSites, names: Sequence[str], rng: random.Random, wait: Callable[[float], object]
    ) -> None:
        self._sites = sites
        self._names = names
        self._random = rng
        self._wait = wait

    def step(self) -> None:
        """Switches over once."""
        self._wait(self._random.uniform(*_SWITCH_SECONDS))
        name = self._random.choice(self._names)
        if not self._is_target(name):
            return
        statement = f"SYSTEM SWITCH REPLICATION LINK {SWITCHED_LINK}"
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not self._sites.try_once(name, self._random, statement, "SYSTEM SWITCH"):
            if self._is_target(name) is False:  # it was done, and the answer lost
                break
            if time.monotonic() > deadline:
                raise TimeoutError(f"{name} does not become the source")
            time.sleep(_RETRY_SECONDS)
        self._sites.count_fault("a table was switched over")

    def _is_target(self, name: str) -> bool | None:
        return self._sites.is_target(name, self._random.randrange(_REPLICAS), SWITCHED_LINK)
