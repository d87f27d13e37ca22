"""A client of ``tests.cluster.chaos``: a sequential read shows every row that a quorum of two acknowledged."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from parts.common.errors import PandoError

if TYPE_CHECKING:
    from tests.cluster.chaos import Chaos

PARTITION = 1_000
_INSERTED_ROWS = 5


class QuorumClient:
    """Owns partition ``PARTITION`` of the table, into which it only inserts."""

    def __init__(self, chaos: Chaos, table: str, rng: random.Random) -> None:
        self._chaos = chaos
        self._table = table
        self._random = rng
        self._confirmed = 0
        """Keys below it are acknowledged by a quorum."""

    def step(self) -> None:
        self._insert()
        for _ in range(3):
            self._read(self._random.choice(self._chaos.clients))

    def check_everywhere(self) -> None:
        """At the end: every replica answers a sequential read, with every row."""
        for client in self._chaos.clients:
            self._chaos.wait(lambda client=client: self._read(client), lambda: "a sequential read at the end")

    def _insert(self) -> None:
        keys = range(self._confirmed, self._confirmed + _INSERTED_ROWS)
        values = ", ".join(f"({PARTITION}, {k}, {k})" for k in keys)
        settings = {
            "insert_quorum": 2,
            "insert_quorum_parallel": self._random.randrange(2),
            "insert_deduplication_token": f"from {keys.start}",  # columns come and go between two attempts
        }

        def is_done() -> bool:
            sql = f"INSERT INTO {self._table} (p, k, v) VALUES {values}"
            self._chaos.any_client(self._random).execute(sql, settings={**settings, "insert_quorum_timeout": 10_000})
            return True

        self._chaos.wait(is_done, lambda: "an INSERT with a quorum")
        self._confirmed = keys.stop
        self._chaos.count("INSERT with a quorum")

    def _read(self, client: object) -> bool:
        """``True`` when it was answered; a refusal is no fault, a missing row is."""
        sql = f"SELECT k, _part FROM {self._table} WHERE p = {PARTITION} ORDER BY k"
        try:
            rows = client.rows(sql, settings={"select_sequential_consistency": 1})  # type: ignore[attr-defined]
        except PandoError as error:
            self._chaos.count(f"sequential read refused: {error.name}")
            return False
        self._chaos.count("sequential read")
        found = [int(k) for k, _ in rows]
        if found[: self._confirmed] != list(range(self._confirmed)) or len(set(found)) != len(found):
            self._chaos.problem(f"a sequential read shows {rows[-20:]}, confirmed are all below {self._confirmed}")
        return True
