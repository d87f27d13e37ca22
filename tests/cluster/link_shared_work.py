"""Tables of ``tests.cluster.chaos_links`` that several clusters write, or that one writes and the others copy.

===============  =====================================================================================================
``everywhere``   takes INSERTs in all clusters, and each has links from both others
``ringed``       takes INSERTs in all clusters, each of which has a link from the one before it
``latest``       takes INSERTs and DELETEs of the same keys in all clusters: the last writer wins
``copied``       takes INSERTs, UPDATEs, DELETEs, DROP PARTITION and ALTERs in the first, which the others copy; one of
                 them follows ALTERs by itself, the other one is altered by hand. Both are made anew, or copied anew
===============  =====================================================================================================
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from tests.cluster.link_clients import ColumnOwner, LatestWriter, Merger, PartitionOwner, Writer
from tests.cluster.link_rows import Difference, Row
from tests.cluster.link_sites import NAMES, REPLICAS, LinkedSites, Step, create_link

_SOURCE, _FOLLOWER, _BY_HAND = NAMES
_TARGET_SECONDS = (30.0, 90.0)
"""Between two losses of a target's table."""
_COLUMNS = "(p UInt32, k UInt64, v UInt64)"
_COPY = "copy"


class SharedWork:
    """The tables, and their clients."""

    tables: Mapping[str, str] = {
        "everywhere": "ReplicatedMergeTree('/everywhere', '{replica}') PARTITION BY p ORDER BY k",
        "ringed": "ReplicatedMergeTree('/ringed', '{replica}') PARTITION BY p ORDER BY k",
        "latest": "ReplicatedReplacingMergeTree('/latest', '{replica}') PARTITION BY p ORDER BY k "
        "SETTINGS last_writer_wins = 1",
        "copied": "ReplicatedMergeTree('/copied', '{replica}') PARTITION BY p ORDER BY k",
    }

    wipeable = REPLICAS

    def __init__(self, sites: LinkedSites) -> None:
        self._sites = sites
        rng, wait = sites.another_random, sites.wait
        self._writers = [
            Writer(sites, name, number, ("everywhere", "ringed"), rng()) for number, name in enumerate(NAMES)
        ]
        self._latest = [LatestWriter(sites, name, number, "latest", rng()) for number, name in enumerate(NAMES)]
        self._owners = [PartitionOwner(sites, _SOURCE, "copied", partition, rng()) for partition in (1, 2)]
        self._columns = ColumnOwner(sites, _SOURCE, [_BY_HAND], "copied", rng(), wait)
        self._merger = Merger(sites, NAMES, list(self.tables), rng(), wait)
        self._target = TargetOwner(sites, self._columns, rng())

    def create(self) -> None:
        """Makes the tables and their links."""
        self._sites.create_tables(self.tables, _COLUMNS)
        for name, before in zip(NAMES, (NAMES[-1], *NAMES), strict=False):
            first = self._sites.clients[name][0]
            for source in NAMES:
                if source != name:
                    for table in ("everywhere", "latest"):
                        first.execute(create_link(f"{table}_{source}", table, source, "two_way = 1"))
            first.execute(create_link("ring", "ringed", before, "two_way = 1"))
            if name != _SOURCE:
                first.execute(_create_copy(name))

    def steps(self) -> Sequence[Step]:
        """Returns the steps of all clients."""
        clients = [*self._writers, *self._latest, *self._owners, self._columns, self._merger, self._target]
        return [client.step for client in clients]  # type: ignore[attr-defined]

    def check(self) -> list[str]:
        """Returns what is wrong with the rows."""
        sites, wrong = self._sites, list[str]()
        for table in ("everywhere", "ringed"):
            rows = {key: value for writer in self._writers for key, value in writer.rows[table].items()}
            wrong += sites.compare(f"SELECT p, k, v FROM {table}", lambda found, rows=rows: Difference.of(found, rows))
        copied = {key: value for owner in self._owners for key, value in owner.rows.items()}
        extra = "".join(f" + (e{number} != k + {number})" for number in self._columns.columns)
        wrong += sites.compare(
            f"SELECT p, k, if(0{extra} = 0, v, 18446744073709551615) FROM copied",
            lambda found: Difference.of(found, copied),
        )
        query = "SELECT p, k, v FROM latest FINAL ORDER BY p, k"
        wrong += sites.compare(query, lambda found: _compare_latest(found, self._latest))
        if len({str(client.rows(query)) for name in NAMES for client in sites.clients[name]}) > 1:
            wrong.append("replicas show different rows of latest")
        return wrong


class TargetOwner:
    """Loses the table of a target and makes it anew, or has the source copied over it."""

    def __init__(self, sites: LinkedSites, columns: ColumnOwner, rng: random.Random) -> None:
        self._sites = sites
        self._columns = columns
        self._random = rng

    def step(self) -> None:
        """Loses one target's table, or copies it anew."""
        sites = self._sites
        sites.wait(self._random.uniform(*_TARGET_SECONDS))
        name = self._random.choice(NAMES[1:])
        if self._random.random() < 0.5:
            statement = f"SYSTEM BOOTSTRAP REPLICATION LINK {_COPY}"
            if sites.try_once(name, self._random, statement, "SYSTEM BOOTSTRAP"):
                sites.count_fault("a target's table was copied anew")
            return
        for number in range(REPLICAS):
            sites.insist_at(name, number, "DROP TABLE IF EXISTS copied SYNC", "DROP TABLE")
        engine = SharedWork.tables["copied"]
        for number in range(REPLICAS):
            statement = f"CREATE TABLE IF NOT EXISTS copied {_COLUMNS} ENGINE = {engine}"
            sites.insist_at(name, number, statement, "CREATE TABLE")
        forget = f"DROP REPLICATION LINK IF EXISTS '{name}/{_COPY}'"  # the source may not have been told
        sites.insist(_SOURCE, self._random, forget, "DROP REPLICATION LINK")
        sites.insist(name, self._random, _create_copy(name), "CREATE REPLICATION LINK")
        self._columns.repair(name)
        sites.count_fault("a target's table was lost and made anew")


def _create_copy(target: str) -> str:
    return create_link(_COPY, "copied", _SOURCE, f"replicate_ddl = {int(target == _FOLLOWER)}")


def _compare_latest(found: Sequence[Row], writers: Sequence[LatestWriter]) -> Difference:
    """Compares with the last value of each key; of a key that all write, with the last value of one of them."""
    partition = LatestWriter.PARTITION
    values = {(p, k): v for p, k, v in found}
    expected = {(partition, key): value for writer in writers for key, value in writer.own.items() if value is not None}
    for key in {key for writer in writers for key in writer.shared}:
        possible = [writer.shared[key] for writer in writers if key in writer.shared]
        value = values.get((partition, key))
        expected[partition, key] = value if value in possible else possible[0]
    return Difference.of(found, expected)
